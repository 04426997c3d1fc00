"""What it costs to read the same rows in small files and in large ones: where a file stops being small.

python -m benchmarks.sections.file_sizes is the reader in Spark, which takes orders; its endpoint is a table's
folder.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from benchmarks.data.payloads import Payloads
from benchmarks.harness.measure import GB, Command, Spread, started
from benchmarks.harness.section import Section, table
from benchmarks.harness.worker_protocol import Order, Read, private_stdout, take_orders
from kinesis_assets.kinesis.records.arrow import RECORD_SCHEMA
from kinesis_assets.table.data_file import FILE_BYTES, TABLE_SCHEMA
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.maintenance.compaction import SMALL_BYTES, SMALL_FILES_TODAY
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from benchmarks.harness.measure import Child

ROUNDS = 5
TENTH = 0.1
"""Of what a file's rows cost: where its own cost is no more, larger files are hardly cheaper."""

MIB = 1 << 20
RECORD_BYTES = 1000
SHARDS = 8
DISTINCT = 4096
DAY = datetime(2026, 11, 1, tzinfo=UTC)
PART_ROWS = 504
"""Of one file of 256 KiB."""

PARTS_OF_FILE = [1, 4, 16, 64, 256, 512]
"""Files of 256 KiB to 128 MiB, 256 MB of records."""

WHOLE = "all rows, CPU s/GB"
HOUR = "an hour of a shard, CPU ms"
COUNT = "count, CPU ms"
SPARK = "all rows in Spark, CPU s/GB"


@dataclass(frozen=True)
class Sized:
    """A table with the day's rows in files of one size.

    Attributes:
        folder: Its folder.
        parts: Of each file.
        files: How many.
        bytes: Of all files.
    """

    folder: str
    parts: int
    files: int
    bytes: int


@dataclass(frozen=True)
class Costs:
    """What each reader takes.

    Attributes:
        tables: What was read.
        records: How many of them are in each table.
        of: CPU seconds by reader and by the parts of a file.
    """

    tables: Sequence[Sized]
    records: int
    of: Mapping[str, Mapping[int, Spread]]

    @property
    def gb(self) -> float:
        """10^9 bytes of record data in each table."""
        return self.records * RECORD_BYTES / GB

    @property
    def mib(self) -> float:
        """Of the files of a table."""
        return max(each.bytes for each in self.tables) / MIB

    def alone(self, reader: str) -> float:
        """CPU seconds that a file costs by itself, whatever is in it."""
        return self._line(reader)[0]

    def enough(self, reader: str) -> float:
        """MiB of a file whose own cost is a `TENTH` of what its rows cost."""
        of_file, of_rows = self._line(reader)
        return of_file / TENTH / (of_rows / self.mib)

    def _line(self, reader: str) -> tuple[float, float]:
        """What all tables together say that a file costs, and that the rows of all files do."""
        medians = [self.of[reader][each.parts].median for each in self.tables]
        of_file, of_rows = np.polyfit([each.files for each in self.tables], medians, 1)
        return float(of_file), float(of_rows)


def day(parts: int) -> pa.Table:
    """A day's rows in the order of arrival by parts, and in each by shard."""
    source, chance = Payloads(), 1 << 185
    distinct = pa.array([source.payload(RECORD_BYTES) for _ in range(DISTINCT)], pa.binary())
    count, of_shard = parts * PART_ROWS, PART_ROWS // SHARDS
    rows = pa.array(range(count), pa.int64())
    number = pc.cast(rows, pa.string())
    shards = pa.array([f"shardId-{shard:012}" for shard in range(SHARDS)])
    shard = pa.array([row // of_shard % SHARDS for row in range(count)], pa.int32())
    step = timedelta(days=1) // (parts * of_shard)
    arrivals = [DAY + step * (row // PART_ROWS * of_shard + row % of_shard) for row in range(count)]
    return pa.table(
        [
            pa.repeat(pa.scalar("orders"), count),
            shards.take(shard),
            pc.binary_join_element_wise(str(chance)[:-7], pc.utf8_lpad(number, 7, "0"), ""),
            pa.repeat(pa.scalar(0, pa.int64()), count),
            pc.binary_join_element_wise("customer", number, "-"),
            distinct.take(pa.array([row % DISTINCT for row in range(count)])),
            pa.array(arrivals, pa.timestamp("us", tz="UTC")),
            pa.nulls(count, pa.string()),
        ],
        schema=RECORD_SCHEMA,
    )


def written(folder: str, rows: pa.Table, parts: int) -> Sized:
    """A table of those rows in files of so many parts each, as a landing writes them."""
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
    return Sized(folder, parts, len(files), sum(file.size for file in files))


def whole(folder: str) -> int:
    """All rows; how many."""
    rows = 0
    for batch in DeltaTable(folder).to_pyarrow_dataset().to_batches():
        rows += batch.num_rows
    return rows


def hour(folder: str) -> int:
    """One shard's rows of an hour; how many."""
    arrival = pc.field("approximate_arrival_timestamp")
    begin = DAY + timedelta(hours=12)
    dataset = DeltaTable(folder).to_pyarrow_dataset()
    wanted = (
        (pc.field("shard_id") == f"shardId-{3:012}")
        & (arrival >= pa.scalar(begin))
        & (arrival < pa.scalar(begin + timedelta(hours=1)))
    )
    return int(dataset.to_table(filter=wanted).num_rows)


def count(folder: str) -> int:
    """How many rows there are."""
    return int(DeltaTable(folder).to_pyarrow_dataset().count_rows())


READERS: Mapping[str, Callable[[str], int]] = {WHOLE: whole, HOUR: hour, COUNT: count}


def measure(parts_of_file: Sequence[int], *, parts: int, rounds: int, spark: bool = True) -> Costs:
    """Let each reader read each table once in each round.

    Args:
        parts_of_file: Of the files of each table.
        parts: Of the whole day.
        rounds: How often.
        spark: Whether Spark is one of the readers.
    """
    with ExitStack() as stack:
        child = stack.enter_context(started(_SPARK)) if spark else None
        rows = day(parts)
        tables = [
            written(stack.enter_context(tempfile.TemporaryDirectory()), rows, each) for each in parts_of_file
        ]
        records = rows.num_rows
        del rows
        for of in (tables[-1], tables[0]):
            _costs(of, records, child)  # warms up
        taken: dict[str, dict[int, list[float]]] = {}
        for _ in range(rounds):
            for of in tables:
                for reader, seconds in _costs(of, records, child).items():
                    taken.setdefault(reader, {}).setdefault(of.parts, []).append(seconds)
    spreads = {reader: {of: Spread.of(seconds) for of, seconds in by.items()} for reader, by in taken.items()}
    return Costs(tables, records, spreads)


def _costs(of: Sized, records: int, child: Child | None) -> dict[str, float]:
    """CPU seconds of each reader for a table, Spark if it is one."""
    seconds = {}
    for reader, read in READERS.items():
        began = time.process_time()
        found = read(of.folder)
        seconds[reader] = time.process_time() - began
        assert 0 < found == (records if reader != HOUR else found), (reader, found)
    if child is not None:
        seconds[SPARK] = child.work(of.folder, "", records).usage.cpu
    return seconds


def told(of: Costs) -> str:
    """The section's text."""
    units = {reader: (1 / of.gb, 2) if reader in (WHOLE, SPARK) else (1000, 0) for reader in of.of}
    rows = [
        [
            f"{each.bytes / each.files / MIB:,.2f}",
            f"{each.files:,}",
            *(_text(costs[each.parts], *units[reader]) for reader, costs in of.of.items()),
        ]
        for each in of.tables
    ]
    middle, large = of.tables[-3:-1]
    by_reader = [
        [
            reader.partition(", CPU")[0],
            f"{of.alone(reader) * 1000:.2f}",
            f"{of.enough(reader):.1f}",
            f"{by[middle.parts].median / by[large.parts].median:.2f}",
        ]
        for reader, by in of.of.items()
    ]
    sizes = [f"{each.bytes / each.files / MIB:.0f}" for each in (middle, large)]
    columns = ["reader", "a file by itself, CPU ms", "a tenth at, MiB", f"{sizes[0]} MiB beside {sizes[1]}"]
    today = SMALL_FILES_TODAY * max(of.alone(reader) for reader in of.of)
    return (
        f"A day's {of.records:,} records of {RECORD_BYTES:,} bytes from {SHARDS} shards in {of.mib:,.0f} MiB "
        "of files as a landing writes them, read through delta-rs and pyarrow, opening the table included, "
        "and by a warm Spark. Median CPU, one table after the other in each round, with the lowest and the "
        f"highest.\n\n{table(['MiB a file', 'files', *of.of], rows)}\n\n"
        "By the line through these, which few large files bend little: what a file costs by itself, and the "
        "size at which that is a tenth of what its rows cost. Beside it, as measured, what files below the "
        "threshold cost as a multiple of larger ones.\n\n"
        + table(columns, by_reader)
        + f"\n\nMaintenance takes files under {SMALL_BYTES // MIB} MiB for small and gathers them to about "
        f"{FILE_BYTES // MIB} MiB: for whoever reads rows, {SMALL_BYTES / MIB / _largest(of):.1f} times the "
        "size of that tenth. Larger ones are for what is not read: each file is an entry of every "
        "checkpoint, which each load reads (see Growth, table size), and a request more in a bucket, which "
        f"is not measured here. The {SMALL_FILES_TODAY} small files that it leaves to a day that is not over "
        f"cost a reader of them all {today:.1f} CPU s at most."
    )


def _largest(of: Costs) -> float:
    """MiB that are enough for all readers but the one that reads no rows."""
    return max(of.enough(reader) for reader in of.of if reader != COUNT)


def _text(seconds: Spread, unit: float, digits: int) -> str:
    return Spread(seconds.median * unit, seconds.low * unit, seconds.high * unit).text(digits)


def section(full: bool) -> Section:
    """Of the report."""
    del full
    costs = measure(PARTS_OF_FILE, parts=PARTS_OF_FILE[-1], rounds=ROUNDS)
    return Section("Reading files of different sizes", told(costs))


_SPARK = Command.module("Spark", "benchmarks.sections.file_sizes")


def _scanned(spark: SparkSession, order: Order) -> Read:
    """All rows of the data files in a folder, in Spark."""
    spark.read.parquet(f"{order.url}/arrival_date=*").write.format("noop").mode("overwrite").save()
    return Read(order.records, order.records * RECORD_BYTES)


def main() -> None:
    """Take orders to read a table in Spark."""
    from pyspark.sql import SparkSession  # noqa: PLC0415  # the readers beside it need none

    marks = private_stdout()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    take_orders(lambda order: lambda: _scanned(spark, order), marks)
    spark.stop()


if __name__ == "__main__":
    main()
