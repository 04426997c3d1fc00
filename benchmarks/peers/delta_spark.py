"""delta-spark: tables are read, decoded with Spark's from_json, and written or merged with Delta Lake's own
library for Spark. It serves the requests of `benchmarks.data.derivations`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from delta import configure_spark_with_delta_pip
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from benchmarks.data.derivations import DERIVED, KEY, NEWEST_BY, ORDER, RAW, TYPED
from benchmarks.data.payloads import PAYLOAD
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def session() -> SparkSession:
    """Return a local session with two cores, without its UI.

    Its libraries for Java are in the environment. If they are not, Spark downloads them with Ivy.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.shuffle.partitions", "4")  # the default, 200, is slower for so few rows
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
    )
    jars = ",".join(map(str, Path(sys.prefix, "jars").glob("*.jar")))
    configured = builder.config("spark.jars", jars) if jars else configure_spark_with_delta_pip(builder)
    spark: SparkSession = configured.getOrCreate()
    return spark


def decoded(spark: SparkSession, request: ReadRequest, schema: str) -> DataFrame:
    """Return the decoded records of the raw table."""
    raw = spark.read.format("delta").load(f"{request.url}/{RAW}")
    return raw.select(F.from_json(F.col("data").cast("string"), schema).alias("order")).select("order.*")


def make_typed(spark: SparkSession, request: ReadRequest) -> ReadResult:
    """Write the records to a new table."""
    decoded(spark, request, PAYLOAD).write.format("delta").save(f"{request.url}/{DERIVED}")
    return ReadResult(request.records, bytes=0)


def merge(spark: SparkSession, request: ReadRequest) -> ReadResult:
    """Merge the records into the table beside the raw table."""
    new = decoded(spark, request, ORDER)
    columns = {name: f"new.{name}" for name in new.columns}
    (
        DeltaTable.forPath(spark, f"{request.url}/{DERIVED}")
        .alias("present")
        .merge(new.alias("new"), f"present.{KEY} = new.{KEY}")
        .whenMatchedUpdate(f"new.{NEWEST_BY} >= present.{NEWEST_BY}", columns)
        .whenNotMatchedInsert(values=columns)
        .execute()
    )
    return ReadResult(request.records, bytes=0)


def main() -> None:
    """Serve requests with a warm session."""
    replies = private_stdout()
    spark = session()

    def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
        return partial(make_typed if request.stream == TYPED else merge, spark, request)

    serve_requests(prepare, replies)
    spark.stop()


if __name__ == "__main__":
    main()
