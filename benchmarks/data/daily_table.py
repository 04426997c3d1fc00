"""Tables with the records of one day, in files of one size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks.data.payloads import Payloads
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA
from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.table import PositionedTable

RECORD_BYTES = 1000
SHARDS = 8
DISTINCT = 4096
DAY = datetime(2026, 11, 1, tzinfo=UTC)
PART_ROWS = 504
"""Rows of a part, which makes a file of 256 KiB. Larger files consist of several parts."""


@dataclass(frozen=True)
class DailyTable:
    """A table with the rows of a day in files of one size.

    Attributes:
        folder: Its folder.
        parts: Number of parts in each file.
        files: Number of files.
        bytes: Size of all files.
    """

    folder: str
    parts: int
    files: int
    bytes: int


def create_rows(parts: int) -> pa.Table:
    """Create the rows of a day, with parts in order of arrival, and the rows of a part in order of shards."""
    source, number_base = Payloads(), 1 << 185
    distinct = pa.array([source.payload(RECORD_BYTES) for _ in range(DISTINCT)], pa.binary())
    count, shard_rows = parts * PART_ROWS, PART_ROWS // SHARDS
    rows = pa.array(range(count), pa.int64())
    number = pc.cast(rows, pa.string())
    shards = pa.array([f"shardId-{shard:012}" for shard in range(SHARDS)])
    shard = pa.array([row // shard_rows % SHARDS for row in range(count)], pa.int32())
    step = timedelta(days=1) // (parts * shard_rows)
    arrivals = [DAY + step * (row // PART_ROWS * shard_rows + row % shard_rows) for row in range(count)]
    return pa.table(
        [
            pa.repeat(pa.scalar("orders"), count),
            shards.take(shard),
            pc.binary_join_element_wise(str(number_base)[:-7], pc.utf8_lpad(number, 7, "0"), ""),
            pa.repeat(pa.scalar(0, pa.int64()), count),
            pc.binary_join_element_wise("customer", number, "-"),
            distinct.take(pa.array([row % DISTINCT for row in range(count)])),
            pa.array(arrivals, pa.timestamp("us", tz="UTC")),
            pa.nulls(count, pa.string()),
        ],
        schema=RECORD_SCHEMA,
    )


def create_table(folder: str, rows: pa.Table, parts: int) -> DailyTable:
    """Create a table of rows, with this number of parts in each file, as a landing writes them."""
    filesystem = PositionedTable(folder).files
    files = []
    for first in range(0, rows.num_rows, parts * PART_ROWS):
        writer = DataFileWriter(filesystem, 1)
        for batch in rows.slice(first, parts * PART_ROWS).to_batches(PART_ROWS // SHARDS):
            writer.write(batch["shard_id"][0].as_py(), batch)
        files += writer.close()
    delta = DeltaTable.create(folder, schema=TABLE_SCHEMA, partition_by=["arrival_date"])
    delta.create_write_transaction(
        [
            AddAction(
                path=file.path,
                size=file.size,
                partition_values={"arrival_date": file.arrival_date},
                modification_time=int(DAY.timestamp() * 1000),
                data_change=True,
                stats=file.statistics(),
            )
            for file in files
        ],
        mode="append",
        schema=delta.schema(),
        partition_by=["arrival_date"],
    )
    return DailyTable(folder, parts, len(files), sum(file.size for file in files))
