"""Default settings for Spark on this machine, and the settings of the site: those that Spark itself reads."""

from __future__ import annotations

import os
import re
import shlex
from argparse import ArgumentParser
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinesis_assets.spark.class_data_archive import archive_options
from kinesis_assets.spark.setting_names import WORKER_DAEMON

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:+ExitOnOutOfMemoryError"
)
"""Java options of a session. Records never enter the JVM. It only schedules tasks, so compiling its code with
full optimization, and collecting its small heap with several threads, would cost more than they save. The
space for compiled code is Java's default for full optimization: in the 48 MB that it reserves otherwise, a
session that plans queries drops code and compiles it again. Without memory Java ends at once: Spark would
stop its context first, and calls would fail for reasons that do not name the cause."""

ENDS_WITHOUT_MEMORY = 3
"""The exit status of Java with -XX:+ExitOnOutOfMemoryError."""

LOOPBACK = "127.0.0.1"

_LOG = Path(__file__).with_name("log4j2.properties")
"""Without a configuration, Spark prints three lines about that, and a warning of Hadoop's library."""

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    JAVA_OPTIONS: QUICK_JAVA,
    # The RPC server and the block manager refuse clients without the secret, which Spark generates for local
    # masters (https://spark.apache.org/docs/latest/security.html).
    "spark.authenticate": "true",
    # Workers are forked after the imports of their tasks.
    WORKER_DAEMON: "kinesis_assets.spark.worker_daemon",
    # A row may have 10 MiB, but by default Spark counts rows: it holds 100 batches that it has written,
    # passes 10,000 rows to Python at once, and keeps 4,096 rows of a key in memory.
    "spark.serializer.objectStreamReset": "1",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    "spark.sql.windowExec.buffer.spill.size.threshold": "32m",
}

_ADDRESSES = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
"""Addresses of the RPC server and the block manager. Spark's default is the host's address on the network."""

_LOCAL_MASTER = re.compile(r"local(\[.*\])?")
"""`local`, `local[N]` and `local[N,M]`: one process. `local-cluster` starts other processes, as a cluster
does."""


def is_local(spark_config: Mapping[str, Any]) -> bool:
    """Return whether a session with these settings runs its tasks in a JVM that this process starts."""
    return _LOCAL_MASTER.fullmatch(_master(spark_config, _site_settings())) is not None


def is_on_this_machine(spark_config: Mapping[str, Any]) -> bool:
    """Return whether a session with these settings runs its tasks on this machine."""
    return _master(spark_config, _site_settings()).startswith("local")


def setting(spark_config: Mapping[str, Any], name: str) -> str | None:
    """Return a setting of a session, or of the site; None if neither has it."""
    return spark_config.get(name) or _site_settings().get(name)


def local_settings(spark_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a session's settings, with our defaults if it runs on this machine.

    The session's settings and those of the site have precedence.
    """
    if not is_local(spark_config):
        return dict(spark_config)
    options = [_SETTINGS[JAVA_OPTIONS], *_log_options(), *archive_options()]
    defaults = _SETTINGS | {JAVA_OPTIONS: " ".join(options)}
    site = _site_settings()
    if _ADDRESSES.keys().isdisjoint({*site, *spark_config}):  # one address without the other is unreachable
        defaults |= _ADDRESSES
    return {name: value for name, value in defaults.items() if name not in site} | dict(spark_config)


def _log_options() -> list[str]:
    """Return the options with which Spark logs as in `log4j2.properties`; none if it has a configuration."""
    configured = any(_site_folder().glob("log4j2.*"))
    # A space in the path would end the option.
    return [] if configured or " " in str(_LOG) else [f"-Dlog4j2.configurationFile={_LOG.as_uri()}"]


def _master(spark_config: Mapping[str, Any], site: Mapping[str, str]) -> str:
    """Return a session's master, by Spark's order of precedence; empty if it is not known."""
    if "spark.master" in spark_config:
        return str(spark_config["spark.master"])
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return ""  # spark-submit has started the JVM with it
    return site.get("spark.master") or os.environ.get("MASTER") or "local[*]"


def _site_folder() -> Path:
    """Return the folder of Spark's configuration, whether or not it exists."""
    folder = os.environ.get("SPARK_CONF_DIR")
    # Importing pyspark itself is slow.
    home = os.environ.get("SPARK_HOME") or str(distribution("pyspark").locate_file("pyspark"))
    return Path(folder) if folder else Path(home, "conf")


def _site_settings() -> dict[str, str]:
    """Return the settings of PYSPARK_SUBMIT_ARGS, and of its properties file or spark-defaults.conf."""
    options = ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--master")
    options.add_argument("--conf", "-c", action="append", default=[])
    options.add_argument("--properties-file")
    given, _ = options.parse_known_args(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    settings = _settings_in(Path(given.properties_file or _site_folder() / "spark-defaults.conf"))
    settings |= dict(each.split("=", 1) for each in given.conf if "=" in each)
    return settings | ({"spark.master": given.master} if given.master else {})


def _settings_in(properties: Path) -> dict[str, str]:
    """Return the settings in a properties file; none if it does not exist."""
    try:
        lines = properties.read_text().splitlines()
    except OSError:
        return {}  # Spark ignores it too
    pairs = (line.replace("=", " ", 1).split(maxsplit=1) for line in lines)
    return {pair[0]: " ".join(pair[1:]).strip() for pair in pairs if pair and not pair[0].startswith("#")}
