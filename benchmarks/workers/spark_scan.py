"""A warm Spark session that scans the data files of a table.

    python -m benchmarks.workers.spark_scan

serves requests whose URL is the folder of a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from benchmarks.data.daily_table import RECORD_BYTES
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Serve requests."""
    replies = private_stdout()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )

    def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
        return lambda: _scan(spark, request)

    serve_requests(prepare, replies)
    spark.stop()


def _scan(spark: SparkSession, request: ReadRequest) -> ReadResult:
    spark.read.parquet(f"{request.url}/arrival_date=*").write.format("noop").mode("overwrite").save()
    return ReadResult(request.records, request.records * RECORD_BYTES)


if __name__ == "__main__":
    main()
