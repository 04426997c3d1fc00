"""A warm Spark session that moves derived tables, as runs do.

    python -m benchmarks.workers.derived

serves the requests of `benchmarks.data.derivations` and `benchmarks.data.record_formats`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.data.derivations import (
    DERIVED,
    KEY,
    NEWEST_BY,
    ORDER,
    RAW,
    ROUTED,
    ROUTER,
    TYPED,
    UPSERT,
    UPSERT_ICEBERG,
)
from benchmarks.data.iceberg_tables import derived_format
from benchmarks.data.payloads import CHANNELS, PAYLOAD
from benchmarks.data.record_formats import RECORD_FORMATS
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests
from benchmarks.workers.landing import SESSION
from kinesis_assets.decoders import from_json, typed_columns
from kinesis_assets.decoders.routing import Routing, records_of
from kinesis_assets.derive.data_files import COMMIT_ORDER_COLUMN, routes_folder
from kinesis_assets.derive.derivation import Derivation, Router, Upsert
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.derive.run import derive
from kinesis_assets.spark.session import start_session
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.decoders import Decoder

_RECORD = [column.name for column in COLUMNS]


def prepare(spark: SparkSession, request: ReadRequest) -> Callable[[], ReadResult]:
    """Return the function that moves the tables of a request."""
    if request.stream == ROUTED:
        return partial(_route, spark, request.url)
    transform = partial(from_json, spark_type=PAYLOAD if request.stream == TYPED else ORDER)
    if request.stream in RECORD_FORMATS:
        transform = partial(_decoded, decoders=RECORD_FORMATS[request.stream].decoders)
    derivation = Derivation(
        source=f"{request.url}/{RAW}",
        transform=transform,
        mode=Upsert((KEY,), (NEWEST_BY,)) if request.stream in {UPSERT, UPSERT_ICEBERG} else None,
    )
    uri = f"{request.url}/{DERIVED}"
    table = DerivedTable(uri, format=derived_format(uri) if request.stream == UPSERT_ICEBERG else None)

    def work() -> ReadResult:
        rows = sum(commit.rows for commit in derive(spark, table, derivation))
        return ReadResult(rows, bytes=0)

    return work


def _decoded(rows: DataFrame, decoders: Sequence[Decoder]) -> DataFrame:
    return typed_columns(rows, *decoders)


def _route(spark: SparkSession, url: str) -> ReadResult:
    router = f"{url}/{ROUTER}"
    routing = Routing(
        "channel",
        [(channel, channel) for channel in CHANNELS],
        _RECORD,
        order=ORDER_COLUMN,
        order_as=COMMIT_ORDER_COLUMN,
        route=ROUTE_COLUMN,
    )
    routed = Derivation(
        source=f"{url}/{RAW}",
        transform=routing.routed,
        mode=Router(len(CHANNELS) + 1),
        partition_by=(ROUTE_COLUMN,),
    )
    list(derive(spark, DerivedTable(router), routed))
    rows = 0
    for channel in CHANNELS:
        typed = Derivation(source=routes_folder(router, [channel]), transform=_typed)
        rows += sum(
            commit.rows for commit in derive(spark, DerivedTable(f"{url}/{DERIVED}_{channel}"), typed)
        )
    return ReadResult(rows, bytes=0)


def _typed(documents: DataFrame) -> DataFrame:
    return from_json(records_of(documents, _RECORD, with_documents=False), PAYLOAD)


def main() -> None:
    """Serve requests."""
    replies = private_stdout()
    spark = start_session(SESSION)
    serve_requests(partial(prepare, spark), replies)
    spark.stop()


if __name__ == "__main__":
    main()
