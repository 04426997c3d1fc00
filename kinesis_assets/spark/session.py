"""What a Spark session needs from the process that starts it, and how its failures are told."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.connect import attach, remote_of, require_answer
from kinesis_assets.spark.java import require_java
from kinesis_assets.spark.local_settings import LOOPBACK, is_local, local_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession


_starting = threading.Event()

_STARTS = "start of Spark"
"""Begins the name of the thread that starts a session in the background."""


def prepare(spark_config: Mapping[str, Any]) -> None:
    """Before a session is started here: see that Java is there, and let workers here run this interpreter.

    A Spark Connect server has a Java of its own, and a cluster's executors a Python of their own.

    Raises:
        JavaUnavailable: Spark would start a JVM here and cannot.
    """
    if remote_of(spark_config):
        return
    require_java()
    if str(spark_config.get("spark.master", "local")).startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(spark_config):
        # The web UI, for a user who enables it, has no other setting for its address.
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def start_session(spark_config: Mapping[str, Any]) -> SparkSession:
    """The session that a run works in: one of its own on Spark Connect, this process's one otherwise.

    Raises:
        JavaUnavailable: Spark would start a JVM here and cannot.
        LandingFailed: No server answers at the URL that SPARK_REMOTE or spark.remote names.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415

    prepare(spark_config)
    url = remote_of(spark_config)
    if url and url.startswith("sc://"):
        require_answer(url)
        return attach(url, spark_config)
    builder = SparkSession.builder
    for name, value in (spark_config if url else local_settings(spark_config)).items():
        builder = builder.config(name, value)
    _starting.set()
    try:
        spark = builder.getOrCreate()
    except Exception:
        _starting.clear()
        raise
    _starting.clear()  # not where it was interrupted: its Java may go on
    return spark


def begin_session(spark_config: Mapping[str, Any]) -> None:
    """Have this process's session start in the background; `start_session` waits for it.

    What goes wrong `start_session` meets again, and tells. On Spark Connect there is nothing to be begun.
    """
    if not remote_of(spark_config):
        import pyspark.sql  # noqa: F401, PLC0415  # by this thread, whose other imports it could meet half done

        background = ThreadPoolExecutor(1, _STARTS)
        background.submit(start_session, dict(spark_config))
        background.shutdown(wait=False)


def is_starting() -> bool:
    """Whether a session that was begun here is not there yet, or was interrupted before it was."""
    return _starting.is_set() or any(thread.name.startswith(_STARTS) for thread in threading.enumerate())


def end_session(spark: SparkSession) -> None:
    """Give a session on Spark Connect back; one that was started here stays, for this process's next run."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    if is_remote():
        spark.stop()


def parallelism(spark: SparkSession) -> int:
    """Tasks that run at once; Spark Connect does not tell unless it was configured."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    if is_remote():
        return int(spark.conf.get("spark.default.parallelism", "2") or 2)
    return spark.sparkContext.defaultParallelism


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Give the jobs that this thread starts within a tag, by which `end_tagged` ends them."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    # A classic session's own tags are known to the thread alone that added them.
    add, remove = (
        (spark.addTag, spark.removeTag)
        if is_remote()
        else (spark.sparkContext.addJobTag, spark.sparkContext.removeJobTag)
    )
    add(tag)
    try:
        yield
    finally:
        remove(tag)


def end_tagged(spark: SparkSession, tag: str) -> None:
    """End the jobs of a tag, whoever started them."""
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    if is_remote():
        spark.interruptTag(tag)
    else:
        spark.sparkContext.cancelJobsWithTag(tag)


@contextmanager
def failures_told(stream: str) -> Iterator[None]:
    """Tell a failed session or job in one line.

    Raises:
        LandingFailed: Spark raised.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415  # Spark's workers need neither
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:  # the last where the JVM was killed
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        causes = [line for line in lines if "Error: " in line or "Exception: " in line]
        raise LandingFailed(
            f"stream {stream}: the Spark job failed, nothing was committed: {(causes or lines or [''])[-1]}"
        ) from error
