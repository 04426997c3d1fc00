"""What a Spark that is started on this machine is told, where its user says nothing himself."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinesis_assets.spark.class_data_archive import archive_options

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

LOOPBACK = "127.0.0.1"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Records never come into the JVM: it hands out tasks, which pays back no code that is optimized at
    # length.
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1",
    # The RPC server and the block manager refuse clients without the secret, which Spark generates for local
    # masters (https://spark.apache.org/docs/latest/security.html).
    "spark.authenticate": "true",
}

_ADDRESSES = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
"""Where the RPC server and the block manager listen. Spark's default is the host's address on the network."""

_LOCAL_MASTER = re.compile(r"local(\[.*\])?")
"""`local`, `local[N]` and `local[N,M]`: one process. `local-cluster` starts others, as a cluster does."""


def is_local(spark_config: Mapping[str, Any]) -> bool:
    """Whether a session of these settings runs its tasks in a JVM that this process starts."""
    return _LOCAL_MASTER.fullmatch(_master(spark_config, _settings_of_the_site())) is not None


def local_settings(spark_config: Mapping[str, Any]) -> dict[str, Any]:
    """A session's settings, and ours where it runs on this machine and nobody says otherwise."""
    if not is_local(spark_config):
        return dict(spark_config)
    ours = _SETTINGS | {JAVA_OPTIONS: " ".join([_SETTINGS[JAVA_OPTIONS], *archive_options()])}
    said = _settings_of_the_site()
    if _ADDRESSES.keys().isdisjoint({*said, *spark_config}):  # one without the other could not be reached
        ours |= _ADDRESSES
    return {name: value for name, value in ours.items() if name not in said} | dict(spark_config)


def _master(spark_config: Mapping[str, Any], site: Mapping[str, str]) -> str:
    """Where a session's tasks run, in the order in which Spark goes by it; empty if that is not known."""
    if "spark.master" in spark_config:
        return str(spark_config["spark.master"])
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return ""  # spark-submit has started the JVM, and knows
    submitted = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    if "--master" in submitted[:-1]:
        return submitted[submitted.index("--master") + 1]
    return site.get("spark.master") or os.environ.get("MASTER") or "local[*]"


def _settings_of_the_site() -> dict[str, str]:
    """The settings of spark-defaults.conf, which a session's own would go before."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not folder:
        return {}
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}  # Spark reads none either
    pairs = (line.replace("=", " ", 1).split(maxsplit=1) for line in lines)
    return {pair[0]: " ".join(pair[1:]).strip() for pair in pairs if pair and not pair[0].startswith("#")}
