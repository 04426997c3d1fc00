"""What a Spark that is started on this machine is told, where its user says nothing himself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinesis_assets.spark.archive import archive_options

if TYPE_CHECKING:
    from collections.abc import Mapping

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Records never come into the JVM: it hands out tasks, which pays back no code that is optimized at
    # length.
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1",
}


def local_settings(spark_config: Mapping[str, Any]) -> dict[str, Any]:
    """A session's settings, and ours where it runs on this machine and nobody says otherwise."""
    if not str(spark_config.get("spark.master", "local")).startswith("local"):
        return dict(spark_config)
    ours = _SETTINGS | {JAVA_OPTIONS: " ".join([_SETTINGS[JAVA_OPTIONS], *archive_options()])}
    said = _names_of_the_site()
    return {name: value for name, value in ours.items() if name not in said} | dict(spark_config)


def _names_of_the_site() -> set[str]:
    """The settings of spark-defaults.conf, which a session's own would go before."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and str(Path(home, "conf")))
    if not folder:
        return set()
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return set()  # Spark reads none either
    words = (line.replace("=", " ").split() for line in lines)
    return {found[0] for found in words if found and not found[0].startswith("#")}
