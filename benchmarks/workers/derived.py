"""A warm Spark session that moves derived tables, as runs do.

    python -m benchmarks.workers.derived

serves the requests of `benchmarks.data.derivations`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.data.derivations import DERIVED, KEY, NEWEST_BY, ORDER, RAW, TYPED, UPSERT
from benchmarks.data.payloads import PAYLOAD
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests
from benchmarks.workers.landing import SESSION
from kinesis_assets.decoders import from_json
from kinesis_assets.derive.derivation import Derivation, Upsert
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.run import derive
from kinesis_assets.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


def prepare(spark: SparkSession, request: ReadRequest) -> Callable[[], ReadResult]:
    """Return the function that moves the table of a request."""
    derivation = Derivation(
        source=f"{request.url}/{RAW}",
        transform=partial(from_json, spark_type=PAYLOAD if request.stream == TYPED else ORDER),
        mode=Upsert(key=(KEY,), order_by=(NEWEST_BY,)) if request.stream == UPSERT else None,
    )
    table = DerivedTable(f"{request.url}/{DERIVED}")

    def work() -> ReadResult:
        rows = sum(commit.rows for commit in derive(spark, table, derivation))
        return ReadResult(rows, bytes=0)

    return work


def main() -> None:
    """Serve requests."""
    replies = private_stdout()
    spark = start_session(SESSION)
    serve_requests(partial(prepare, spark), replies)
    spark.stop()


if __name__ == "__main__":
    main()
