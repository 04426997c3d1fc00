"""Our own ways through a stream, as processes that take orders.

    python -m benchmarks.workers.landing land | read | write

`land`: HTTP to committed Delta, by a plan and a run in a warm Spark session. `read` and `write` are its bare
parts: the same pages parsed and forgotten, and batches of the same records, there beforehand, written with
the same codec; by two processes at once, since what runs beside makes a core slower, and a landing has two
tasks.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.worker_protocol import Order, Read, private_stdout, take_orders
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.reading import PAGE_LIMIT
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.session import start_session
from kinesis_assets.table.data_file import CODEC, DICTIONARIES, FILE_SCHEMA, ROW_GROUP_BYTES, STATISTICS
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.records.record import Records

BATCH_ID = 1 << 61

AT_ONCE = 2
"""Tasks of a landing, and processes of a bare part."""

SESSION = {
    "spark.master": f"local[{AT_ONCE},4]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}
"""The rest is as a run has it."""


def client(order: Order) -> StreamClient:
    """Of the order's stream."""
    return StreamClient(order.stream, ClientSettings("us-east-1", order.url))


def landed(spark: SparkSession, order: Order) -> Read:
    """Plan, land and commit the whole stream into a new table."""
    stream = client(order)
    table = PositionedTable(order.folder)
    shard_ids = [shard.shard_id for shard in stream.list_shards()]
    plan = plan_run(stream, table, asked=shard_ids, policy=ReadPolicy())
    result = execute_run(partial(land, spark), stream, table, plan)
    assert not result.errors, result.errors
    outcomes = result.outcomes.values()
    stats = [shard.stats for shard in outcomes if shard.stats is not None]
    return Read(sum(each.rows for each in stats), sum(each.bytes for each in stats))


ALL_SHARDS = slice(None)
"""A share of the shards is a slice of their list."""


def pages(stream: StreamClient, share: slice = ALL_SHARDS) -> Iterator[tuple[str, Records]]:
    """Every page of a share of the shards, one after the other, unpaced, with its shard."""
    for shard in stream.list_shards()[share]:
        iterator: str | None = stream.shard_iterator(shard.shard_id, Position(PositionKind.TRIM_HORIZON))
        while iterator is not None:
            page, _ = stream.get_records(iterator, PAGE_LIMIT)
            yield shard.shard_id, page.records
            iterator = page.next_shard_iterator if page.millis_behind_latest else None


def parsed(stream: StreamClient, share: slice) -> Read:
    """Read a share of the shards and forget it."""
    records = size = 0
    for _, page in pages(stream, share):
        records += len(page)
        size += sum(map(len, page.payloads))
    return Read(records, size)


def tables(order: Order, share: slice = ALL_SHARDS) -> list[pa.Table]:
    """A share of the shards as tables of a row group each, as a data file has them."""
    groups: list[pa.Table] = []
    pending: list[pa.RecordBatch] = []
    for shard_id, page in pages(client(order), share):
        pending.append(record_batch(order.stream, shard_id, page))
        if sum(batch.nbytes for batch in pending) >= ROW_GROUP_BYTES:
            groups.append(_with_batch_id(pending))
            pending = []
    return [*groups, _with_batch_id(pending)] if pending else groups


def _with_batch_id(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    index = FILE_SCHEMA.get_field_index("batch_id")
    ids = pa.repeat(pa.scalar(BATCH_ID, pa.int64()), table.num_rows)
    return table.add_column(index, FILE_SCHEMA.field(index), ids)


def written(order: Order, groups: Sequence[pa.Table]) -> Read:
    """Write them all to one file."""
    records = size = 0
    path = Path(order.folder, f"{uuid4().hex}.parquet")
    with pq.ParquetWriter(
        path, FILE_SCHEMA, compression=CODEC, use_dictionary=DICTIONARIES, write_statistics=STATISTICS
    ) as writer:
        for group in groups:
            writer.write_table(group)
            records += group.num_rows
            size += sum(chunk.total_values_length for chunk in group["data"].chunks)
    return Read(records, size)


PARTS: dict[str, Callable[[Order, slice], Callable[[], Read]]] = {
    "read": lambda order, share: partial(parsed, client(order), share),
    "write": lambda order, share: partial(written, order, tables(order, share)),
}

_prepared: list[Callable[[], Read]] = []
"""In a process of a bare part: what it does next, alone."""


def _prepare(kind: str, order: Order, share: slice) -> None:
    _prepared[:] = [PARTS[kind](order, share)]


def _do() -> Read:
    return _prepared[0]()


def take_part(kind: str, marks: TextIO) -> None:
    """Take orders of a bare part, each process with its share of the shards."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for _ in range(AT_ONCE)
        ]
        for started in [process.submit(int) for process in processes]:  # begins and imports
            started.result()

        def prepare(order: Order) -> Callable[[], Read]:
            shares = [slice(number, None, AT_ONCE) for number in range(AT_ONCE)]
            pairs = zip(processes, shares, strict=True)
            for prepared in [process.submit(_prepare, kind, order, share) for process, share in pairs]:
                prepared.result()
            return do

        def do() -> Read:
            done = [process.submit(_do) for process in processes]
            reads = [each.result() for each in done]
            return Read(sum(read.records for read in reads), sum(read.bytes for read in reads))

        take_orders(prepare, marks)


def main(kind: str) -> None:
    """Take orders of one kind."""
    marks = private_stdout()
    if kind != "land":
        take_part(kind, marks)
        return
    spark = start_session(SESSION)
    take_orders(lambda order: partial(landed, spark, order), marks)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
