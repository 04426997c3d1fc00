"""Spark on this machine: its default settings and those of the site, Java, and the archive of its classes.

The archive saves a JVM from reading, verifying and linking each class. It is a dynamic archive for class data
sharing (CDS). It is valid for one Java and one Spark version; other JVMs ignore it. `server.make_archive`
creates it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from argparse import ArgumentParser
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import JavaUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping


PYTHON = "spark.pyspark.python"
"""The Python interpreter of the workers."""

WORKER_DAEMON = "spark.python.daemon.module"
"""The module of the process from which Spark forks Python workers."""

TIME_ZONE = "spark.sql.session.timeZone"
"""The time zone in which a session evaluates expressions."""

ARCHIVES = "spark.archives"
"""Archives that each executor unpacks, separated by commas: path or URI, #, and the name of the folder."""

PY_FILES = "spark.submit.pyFiles"
"""Files with modules that executors import, separated by commas: paths or URIs of .zip, .egg or .py files."""

CHECKED = "spark.kinesis_assets.checked"
"""The folders of the tables for which the executors of a session were checked, one a line.

A session whose tasks run in the environment of this process has no such setting.
"""

CODE = "spark.kinesis_assets.code"
"""The version of this package's code that the Python workers of a server have installed."""

TASKS = "spark.kinesis_assets.tasks"
"""The number of tasks of a job. By default the cluster decides."""

MANAGED = "spark.kinesis_assets.managed"
"""The setting `managed_spark` as a map: the service that starts the session of a run."""


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
    return _LOCAL_MASTER.fullmatch(_master(spark_config)) is not None


def is_on_this_machine(spark_config: Mapping[str, Any]) -> bool:
    """Return whether a session with these settings runs its tasks on this machine."""
    return _master(spark_config).startswith("local")


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


def _master(spark_config: Mapping[str, Any]) -> str:
    """Return a session's master, by Spark's order of precedence; empty if it is not known."""
    if "spark.master" in spark_config:
        return str(spark_config["spark.master"])
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return ""  # spark-submit has started the JVM with it
    return _site_settings().get("spark.master") or os.environ.get("MASTER") or "local[*]"


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


_PROPERTY = re.compile(r"\s*([^\s=:#!][^\s=:]*)\s*[=:]?\s*(.*?)\s*")
"""A key and its value in a properties file of Java, unless the line is a comment or empty."""


def _settings_in(properties: Path) -> dict[str, str]:
    """Return the settings in a properties file; none if it does not exist."""
    try:
        lines = properties.read_text().splitlines()
    except OSError:
        return {}  # Spark ignores it too
    return {found[1]: found[2] for found in map(_PROPERTY.fullmatch, lines) if found}


_MIN_VERSION = 17
"""Spark 4 needs Java 17 or newer, and Spark 3.5 runs on it (Spark documentation, overview)."""

_SECONDS = 300.0
"""Time limit for Java to print its version."""


def java_command() -> str:
    """Return the Java command that Spark uses: that of JAVA_HOME, or the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def require_java() -> None:
    """Check that Java is installed, and new enough for Spark. Raises `JavaUnavailable`."""
    home = os.environ.get("JAVA_HOME")
    java = java_command()
    program = shutil.which(java)
    if program is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH"
        raise _unavailable(f"{where}; install a JDK or set JAVA_HOME")
    _require_version(program)


@cache  # a process checks before each run, and Java takes 50 ms to print its version
def _require_version(java: str) -> None:
    command = [java, "-version"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise _unavailable(
            f"{java} printed no version in {_SECONDS:.0f} s; run `java -version`, or set JAVA_HOME"
        ) from None
    version = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    if version is None or int(version[1]) < _MIN_VERSION:
        found = f"Java {version[1]}" if version else "no usable Java"
        raise _unavailable(f"found {found} at {java}; set JAVA_HOME")


def _unavailable(reason: str) -> JavaUnavailable:
    return JavaUnavailable(f"Spark needs Java {_MIN_VERSION} or newer: {reason}")


def archive_path() -> Path:
    """Return the path of the archive for this user, Java and Spark, whether or not it exists."""
    java = Path(shutil.which(java_command()) or "").resolve()
    spark = distribution("pyspark")  # importing pyspark itself is slow
    key = hashlib.sha256(f"{java}:{spark.locate_file('pyspark')}".encode()).hexdigest()
    return cache_folder() / f"spark-{spark.version}-{key[:16]}.jsa"


def archive_options() -> list[str]:
    """Return the options with which a JVM uses the archive; none if it does not exist."""
    path = archive_path()
    if " " in str(path) or not path.is_file():  # a space would end the option
        return []
    # The JVM warns of the archive once PySpark was installed again, but standard output is for results.
    return ["-Xlog:disable", "-Xlog:all=warning:stderr", f"-XX:SharedArchiveFile={path}"]


def cache_folder() -> Path:
    """Return the folder, whether or not it exists."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kinesis-assets")
