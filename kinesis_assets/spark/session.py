"""What a Spark session needs from the process that starts it, and how its failures are told."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark.java import require_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession


def prepare(spark_config: Mapping[str, Any]) -> None:
    """Before a session is started here: see that Java is there, and let workers here run this interpreter.

    A Spark Connect server has a Java of its own, and a cluster's executors a Python of their own.

    Raises:
        JavaUnavailable: Spark would start a JVM here and cannot.
    """
    if "spark.remote" in spark_config or "SPARK_REMOTE" in os.environ:
        return
    require_java()
    if str(spark_config.get("spark.master", "local")).startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


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
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        causes = [line for line in lines if "Error: " in line or "Exception: " in line]
        raise LandingFailed(
            f"stream {stream}: the Spark job failed, nothing was committed: {(causes or lines or [''])[-1]}"
        ) from error
