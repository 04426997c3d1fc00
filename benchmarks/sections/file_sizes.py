"""What it costs to read the same rows in small and in large files, and which files count as small."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from benchmarks.data.daily_table import DAY, RECORD_BYTES, SHARDS, DailyTable, create_rows, create_table
from benchmarks.harness.section import Section, markdown_table
from benchmarks.harness.spread import Spread
from benchmarks.harness.units import GB, MIB
from benchmarks.harness.worker import Command, running
from kinesis_assets.table.data_file import FILE_BYTES
from kinesis_assets.table.maintenance.compaction import SMALL_BYTES
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.harness.worker import Worker

ROUNDS = 5
SMALL_SHARE = 0.1
"""Share of the cost of a file's rows at which the cost of the file itself hardly matters."""

PARTS_PER_FILE = [1, 4, 16, 64, 256, 512]
"""Files of 256 KiB to 128 MiB, with 256 MB of records in total."""

ALL_ROWS = "all rows, CPU s/GB"
HOUR = "an hour of a shard, CPU ms"
COUNT = "count, CPU ms"
SPARK = "all rows in Spark, CPU s/GB"

_SPARK = Command.module("Spark", "benchmarks.workers.spark_scan")


@dataclass(frozen=True)
class Costs:
    """What each reader costs.

    Attributes:
        tables: The tables that were read.
        records: Number of records in each table.
        seconds: CPU seconds by reader and by the number of parts in a file.
    """

    tables: Sequence[DailyTable]
    records: int
    seconds: Mapping[str, Mapping[int, Spread]]

    @property
    def gb(self) -> float:
        """Record data in each table, in units of 10^9 bytes."""
        return self.records * RECORD_BYTES / GB

    @property
    def mib(self) -> float:
        """Size of the files of a table."""
        return max(table.bytes for table in self.tables) / MIB

    def per_file(self, reader: str) -> float:
        """Return the CPU seconds that a file costs, independently of its rows."""
        return self._line(reader)[0]

    def sufficient_mib(self, reader: str) -> float:
        """Return the size of a file whose own cost is `SMALL_SHARE` of the cost of its rows."""
        file, rows = self._line(reader)
        return file / SMALL_SHARE / (rows / self.mib)

    def _line(self, reader: str) -> tuple[float, float]:
        """Return the costs of a file and of the rows of all files, from a regression over all tables."""
        medians = [self.seconds[reader][table.parts].median for table in self.tables]
        file, rows = np.polyfit([table.files for table in self.tables], medians, 1)
        return float(file), float(rows)


def read_all_rows(folder: str) -> int:
    """Read all rows, and return their number."""
    rows = 0
    for batch in DeltaTable(folder).to_pyarrow_dataset().to_batches():
        rows += batch.num_rows
    return rows


def read_hour(folder: str) -> int:
    """Read the rows of one shard and one hour, and return their number."""
    arrival = pc.field("approximate_arrival_timestamp")
    start = DAY + timedelta(hours=12)
    dataset = DeltaTable(folder).to_pyarrow_dataset()
    condition = (
        (pc.field("shard_id") == f"shardId-{3:012}")
        & (arrival >= pa.scalar(start))
        & (arrival < pa.scalar(start + timedelta(hours=1)))
    )
    return int(dataset.to_table(filter=condition).num_rows)


def count_rows(folder: str) -> int:
    """Return the number of rows from the statistics of the files."""
    return int(DeltaTable(folder).to_pyarrow_dataset().count_rows())


READERS: Mapping[str, Callable[[str], int]] = {ALL_ROWS: read_all_rows, HOUR: read_hour, COUNT: count_rows}


def measure(parts_per_file: Sequence[int], *, parts: int, rounds: int, spark: bool = True) -> Costs:
    """Let each reader read each table once in each round.

    Args:
        parts_per_file: Number of parts in the files of each table.
        parts: Number of parts of the whole day.
        rounds: Number of rounds.
        spark: Whether Spark is one of the readers.
    """
    with ExitStack() as stack:
        worker = stack.enter_context(running(_SPARK)) if spark else None
        rows = create_rows(parts)
        tables = [
            create_table(stack.enter_context(tempfile.TemporaryDirectory()), rows, number)
            for number in parts_per_file
        ]
        records = rows.num_rows
        del rows
        for table in (tables[-1], tables[0]):
            _measure_readers(table, records, worker)  # warms up
        seconds: dict[str, dict[int, list[float]]] = {}
        for _ in range(rounds):
            for table in tables:
                for reader, each in _measure_readers(table, records, worker).items():
                    seconds.setdefault(reader, {}).setdefault(table.parts, []).append(each)
    spreads = {
        reader: {number: Spread.of(each) for number, each in by_parts.items()}
        for reader, by_parts in seconds.items()
    }
    return Costs(tables, records, spreads)


def _measure_readers(table: DailyTable, records: int, worker: Worker | None) -> dict[str, float]:
    """Return the CPU seconds of each reader for a table."""
    seconds = {}
    for reader, read in READERS.items():
        started = time.process_time()
        rows = read(table.folder)
        seconds[reader] = time.process_time() - started
        assert 0 < rows == (records if reader != HOUR else rows), (reader, rows)
    if worker is not None:
        seconds[SPARK] = worker.read(table.folder, "", records).usage.cpu
    return seconds


def describe(costs: Costs) -> str:
    """Return the text of the section."""
    units = {
        reader: (1 / costs.gb, 2) if reader in (ALL_ROWS, SPARK) else (1000, 0) for reader in costs.seconds
    }
    rows = [
        [
            f"{table.bytes / table.files / MIB:,.2f}",
            f"{table.files:,}",
            *(
                by_parts[table.parts].scaled(units[reader][0]).text(units[reader][1])
                for reader, by_parts in costs.seconds.items()
            ),
        ]
        for table in costs.tables
    ]
    middle, large = costs.tables[-3:-1]
    by_reader = [
        [
            reader.partition(", CPU")[0],
            f"{costs.per_file(reader) * 1000:.2f}",
            f"{costs.sufficient_mib(reader):.1f}",
            f"{by_parts[middle.parts].median / by_parts[large.parts].median:.2f}",
        ]
        for reader, by_parts in costs.seconds.items()
    ]
    sizes = [f"{table.bytes / table.files / MIB:.0f}" for table in (middle, large)]
    columns = [
        "reader",
        "cost of a file, CPU ms",
        "size for 10%, MiB",
        f"{sizes[0]} MiB relative to {sizes[1]}",
    ]
    today = DEFAULT_LIMITS.small_files_today * max(costs.per_file(reader) for reader in costs.seconds)
    return (
        f"The tables contain {costs.records:,} records of {RECORD_BYTES:,} bytes of one day from {SHARDS} "
        f"shards, in {costs.mib:,.0f} MiB of files as a landing writes them. They are read with delta-rs and "
        "pyarrow, including the time to open the table, and by a warm Spark session. The figures are medians "
        "of CPU time, one table after the other in each round, with the lowest and the highest.\n\n"
        + markdown_table(["MiB per file", "files", *costs.seconds], rows)
        + "\n\n"
        "The second table shows a linear regression, on which a few large files have little influence: what "
        "a file costs independently of its rows, and the size at which that is 10% of what its rows cost. "
        "The last column shows the measured cost of files below the threshold relative to larger ones.\n\n"
        + markdown_table(columns, by_reader)
        + "\n\n"
        f"Maintenance considers files under {SMALL_BYTES // MIB} MiB as small and compacts them to about "
        f"{FILE_BYTES // MIB} MiB. The threshold is {SMALL_BYTES / MIB / _largest(costs):.1f} times the "
        "largest size above for readers of rows. Larger files help where rows are not read: each file is an "
        "entry of every checkpoint, which each load reads (see Growth, table size), and one more request in "
        f"a bucket, which is not measured here. The {DEFAULT_LIMITS.small_files_today} small files that "
        f"maintenance leaves in the current day cost a reader of all of them at most {today:.1f} CPU s."
    )


def _largest(costs: Costs) -> float:
    """Return the size that is sufficient for all readers, except for the one that reads no rows."""
    return max(costs.sufficient_mib(reader) for reader in costs.seconds if reader != COUNT)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    costs = measure(PARTS_PER_FILE, parts=PARTS_PER_FILE[-1], rounds=ROUNDS)
    return Section("Reading files of different sizes", describe(costs))
