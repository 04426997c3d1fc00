"""A landing and its bare parts, as workers.

    python -m benchmarks.workers.landing land | land-iceberg | read | write

`land` reads over HTTP and commits to Delta, with a plan and a run in a warm Spark session, and `land-iceberg`
to Iceberg. `read` and `write` are the bare parts of a landing: `read` parses the same pages and discards
them, and `write` writes batches of the same records, which are in memory already, with the same codec. Each
runs in two processes at once, because a landing has two tasks, and a core is slower while another one is
busy.
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

from benchmarks.data.iceberg_tables import iceberg_table
from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, private_stdout, serve_requests
from kinesis_assets.ingest.land import land
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.kinesis.settings import PAGE_LIMIT, ClientSettings
from kinesis_assets.spark.session import start_session
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    FILE_SCHEMA,
    NEW_FILES,
    ROW_GROUP_BYTES,
    STATISTICS,
)
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.records.records import Records

BATCH_ID = 1 << 61

PARALLELISM = 2
"""Number of tasks of a landing, and of processes of a bare part."""

SESSION = {
    "spark.master": f"local[{PARALLELISM},4]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}
"""All other settings are those of a run."""


def client(request: ReadRequest) -> StreamClient:
    """Return a client for the stream of a request."""
    return StreamClient(request.stream, ClientSettings("us-east-1", request.url))


def land_stream(
    spark: SparkSession,
    request: ReadRequest,
    open_table: Callable[[str], PositionedTable] = PositionedTable,
) -> ReadResult:
    """Plan, land and commit the whole stream into a new table."""
    stream = client(request)
    table = open_table(f"{request.folder}/raw")
    shard_ids = [shard.shard_id for shard in stream.list_shards()]
    plan = plan_run(stream, table, asked=shard_ids, policy=ReadPolicy())
    result = execute_run(partial(land, spark), stream, table, plan)
    assert not result.errors, result.errors
    stats = [shard.stats for shard in result.outcomes.values() if shard.stats is not None]
    return ReadResult(sum(each.rows for each in stats), sum(each.bytes for each in stats))


ALL_SHARDS = slice(None)
"""Each process reads a share of the shards: a slice of their list."""


def pages(stream: StreamClient, share: slice = ALL_SHARDS) -> Iterator[tuple[str, Records]]:
    """Yield every page of a share of the shards, with its shard, without pacing the calls."""
    for shard in stream.list_shards()[share]:
        iterator: str | None = stream.shard_iterator(shard.shard_id, Position(PositionKind.TRIM_HORIZON))
        while iterator is not None:
            page, _ = stream.get_records(iterator, PAGE_LIMIT)
            yield shard.shard_id, page.records
            iterator = page.next_shard_iterator if page.millis_behind_latest else None


def read_and_discard(stream: StreamClient, share: slice) -> ReadResult:
    """Read a share of the shards, and discard the records."""
    records = size = 0
    for _, page in pages(stream, share):
        records += len(page)
        size += sum(map(len, page.payloads))
    return ReadResult(records, size)


def row_groups(request: ReadRequest, share: slice = ALL_SHARDS) -> list[pa.Table]:
    """Return a share of the shards as one table for each row group of a data file."""
    groups: list[pa.Table] = []
    pending: list[pa.RecordBatch] = []
    for shard_id, page in pages(client(request), share):
        pending.append(record_batch(request.stream, shard_id, page))
        if sum(batch.nbytes for batch in pending) >= ROW_GROUP_BYTES:
            groups.append(_with_batch_id(pending))
            pending = []
    return [*groups, _with_batch_id(pending)] if pending else groups


def _with_batch_id(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    index = FILE_SCHEMA.get_field_index("batch_id")
    ids = pa.repeat(pa.scalar(BATCH_ID, pa.int64()), table.num_rows)
    return table.add_column(index, FILE_SCHEMA.field(index), ids)


def write_file(request: ReadRequest, groups: Sequence[pa.Table]) -> ReadResult:
    """Write row groups to one file."""
    records = size = 0
    path = Path(request.folder, f"{uuid4().hex}.parquet")
    with pq.ParquetWriter(
        path,
        FILE_SCHEMA,
        compression=NEW_FILES.codec,
        use_dictionary=DICTIONARIES,
        write_statistics=STATISTICS,
    ) as writer:
        for group in groups:
            writer.write_table(group)
            records += group.num_rows
            size += sum(chunk.total_values_length for chunk in group["data"].chunks)
    return ReadResult(records, size)


PARTS: dict[str, Callable[[ReadRequest, slice], Callable[[], ReadResult]]] = {
    "read": lambda request, share: partial(read_and_discard, client(request), share),
    "write": lambda request, share: partial(write_file, request, row_groups(request, share)),
}

_prepared: list[Callable[[], ReadResult]] = []
"""In a process of a bare part: the work that it does next."""


def _prepare(kind: str, request: ReadRequest, share: slice) -> None:
    _prepared[:] = [PARTS[kind](request, share)]


def _run_prepared() -> ReadResult:
    return _prepared[0]()


def serve_part(kind: str, replies: TextIO) -> None:
    """Serve requests with a bare part; each process works on its share of the shards."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for _ in range(PARALLELISM)
        ]
        for started in [process.submit(int) for process in processes]:  # starts the process and its imports
            started.result()

        def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
            shares = [slice(number, None, PARALLELISM) for number in range(PARALLELISM)]
            pairs = zip(processes, shares, strict=True)
            for prepared in [process.submit(_prepare, kind, request, share) for process, share in pairs]:
                prepared.result()
            return work

        def work() -> ReadResult:
            running = [process.submit(_run_prepared) for process in processes]
            reads = [future.result() for future in running]
            return ReadResult(sum(read.records for read in reads), sum(read.bytes for read in reads))

        serve_requests(prepare, replies)


TABLES: dict[str, Callable[[str], PositionedTable]] = {"land": PositionedTable, "land-iceberg": iceberg_table}
"""Opens the table of a landing."""


def main(kind: str) -> None:
    """Serve requests of one kind."""
    replies = private_stdout()
    if kind not in TABLES:
        serve_part(kind, replies)
        return
    spark = start_session(SESSION)
    serve_requests(lambda request: partial(land_stream, spark, request, TABLES[kind]), replies)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
