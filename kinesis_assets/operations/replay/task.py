"""Fill in missing records: one Spark job reads ranges again and writes the records that the table lacks.

It works as landing does: tasks write files, and only files whose manifests are returned are committed. What
the table lacks is found from the statistics and keys of its data files. Spark tasks import this module, so it
does not read the table's log: the driver passes the files to it.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.ingest.land import packed
from kinesis_assets.ingest.manifest import JobResult, ShardResult, encode
from kinesis_assets.ingest.task import (
    BYTES_IN_FLIGHT,
    LandingJob,
    TaskProgress,
    client_of,
    configure_allocators,
    read_all,
)
from kinesis_assets.kinesis.reading.range import Allowance, Quota
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.records import checksum, record_batch
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Turns
from kinesis_assets.spark.session import parallelism
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.positions.range_stats import Count, RangeStats, Time
from kinesis_assets.table.run_files.task_files import ProgressFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime

    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.records.records import Records
    from kinesis_assets.spark.arrow_steps import ArrowStep
    from kinesis_assets.table.data_file import FileStats


@dataclass(frozen=True, slots=True)
class FillJob:
    """The parameters of every task of a replay. Can be pickled; contains no secret.

    Attributes:
        landing: The stream to read and the folder to write to.
        existing_files: The data files of one version of the table that may contain records of the ranges.
        not_before: Records that arrived before this time are skipped; `existing_files` may lack their files.
    """

    landing: LandingJob
    existing_files: tuple[FileStats, ...]
    not_before: datetime


def fill(spark: SparkSession, job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
    """Read the ranges of different shards again, and write missing records to files in the table's folder.

    The error of a shard ends only its own range; any other error fails the job.

    Raises:
        LandingFailed: The manifests are invalid.
    """
    tasks = max(1, min(len(ranges), parallelism(spark)))
    groups = packed(ranges, tasks)
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(_task(job, groups), "filling binary").collect()
    return FillResult.of([row[0] for row in rows], job.landing.stream, job.landing.batch_id, ranges)


def _task(job: FillJob, groups: Sequence[Sequence[ShardRange]]) -> ArrowStep:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch["id"].to_pylist()):
            result = fill_group(job, groups[number])
            yield pa.RecordBatch.from_pydict({"filling": [encode(result)]})

    return run


def fill_group(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
    """Run one task: read its shards concurrently, and write missing records to shared files."""
    configure_allocators()
    landing = job.landing
    client = client_of(landing.stream, landing.settings)
    filesystem = landing.folder.open()
    existing = ExistingKeys(filesystem, job.existing_files)
    writer = DataFileWriter(filesystem, landing.batch_id, landing.layout)
    counts: defaultdict[str, _MissingRecords] = defaultdict(_MissingRecords)

    async def write_missing(reading: ShardReading, records: Records) -> None:
        shard_id = reading.range.shard_id
        batch = record_batch(client.stream, shard_id, records)
        missing = await asyncio.to_thread(existing.missing, shard_id, batch)  # reads files
        in_window = pc.greater_equal(batch["approximate_arrival_timestamp"], job.not_before)
        missing = pc.and_(missing, in_window)
        with suppress(OSError, pa.ArrowException, KinesisAssetsError):  # only the log needs it
            progress.note()
        if missing.true_count:
            writer.write(shard_id, batch.filter(missing))
            counts[shard_id].add(records, missing)

    clock = landing.settings.timing.clock
    quota = Quota(Allowance(seconds=landing.read_until - clock.time()), clock)
    limiter, turns = MemoryLimiter(BYTES_IN_FLIGHT), Turns(landing.settings.max_pool_connections, clock)
    readings = [ShardReading(client, range_, quota, turns, limiter) for range_ in ranges]
    files = ProgressFiles(landing.folder, landing.batch_id)
    progress = TaskProgress(files, readings, clock, landing.progress_interval)
    with writer:
        errors = read_all(readings, turns, write_missing)
        written = tuple(writer.close())
    shards = tuple(
        counts[reading.range.shard_id].result(reading, error)
        for reading, error in zip(readings, errors, strict=True)
    )
    return FillResult(written, shards)


class _MissingRecords:
    """Counts the records of a shard that the table lacks."""

    def __init__(self) -> None:
        self._rows = self._bytes = self._checksum = 0
        self._first: str | None = None
        self._last: str | None = None

    def add(self, records: Records, missing: pa.BooleanArray) -> None:
        for record, is_missing in zip(records, missing.to_pylist(), strict=True):
            if is_missing:
                self._rows += 1
                self._bytes += len(record.data)
                self._checksum += checksum(record)
                self._first = self._first or record.sequence_number
                self._last = record.sequence_number

    def result(self, reading: ShardReading, error: ShardError | None) -> ShardFillResult:
        return ShardFillResult(
            shard_id=reading.range.shard_id,
            stats=RangeStats(
                start=reading.range.start,
                through=reading.position,
                first_sequence_number=self._first,
                last_sequence_number=self._last,
                rows=self._rows,
                bytes=self._bytes,
                checksum=self._checksum,
            ),
            end=reading.end,
            read=reading.records,
            first_read=reading.first_sequence_number,
            last_arrival=reading.last_arrival,
            error=error,
        )


_KEYS = ["sequence_number", "sub_sequence_number"]
_COLUMNS = ["shard_id", *_KEYS]
_BATCH_ROWS = 16_384

_OPEN_FILES = 4
"""Files that a task reads at once. Each takes memory for the key columns of one row group."""


class ExistingKeys:
    """Finds the records of a page that the table lacks. Safe to share between threads.

    A record has the same arrival time in the stream and in the table. So only files and row groups that may
    have rows with the page's arrival times are read, and only keys of the page are kept: memory use does not
    depend on the size of the table or of the range.
    """

    def __init__(self, filesystem: FileSystem, files: Sequence[FileStats]) -> None:
        self._filesystem = filesystem
        self._by_date: defaultdict[date, list[FileStats]] = defaultdict(list)
        for file in files:
            self._by_date[file.arrival_date].append(file)
        self._open_files = threading.BoundedSemaphore(_OPEN_FILES)

    def missing(self, shard_id: str, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return, for each record of a batch, whether it is missing from the table.

        Args:
            batch: Records, as `RECORD_SCHEMA`; at least one.
        """
        arrivals = pc.min_max(batch["approximate_arrival_timestamp"])
        first, last = arrivals["min"].as_py(), arrivals["max"].as_py()
        numbers = pc.unique(batch["sequence_number"])
        existing: set[tuple[str, int]] = set()
        for file in self._files(shard_id, first, last):
            with self._open_files, self._filesystem.open_input_file(file.path) as source:
                for found in _rows(pq.ParquetFile(source), shard_id, first, last):
                    existing.update(_keys(found.filter(pc.is_in(found["sequence_number"], numbers))))
        return pa.array([key not in existing for key in _keys(batch)], pa.bool_())

    def _files(self, shard_id: str, first: datetime, last: datetime) -> Iterator[FileStats]:
        for days in range((last.date() - first.date()).days + 1):
            for file in self._by_date.get(first.date() + timedelta(days), ()):
                if file.may_contain_shard(shard_id) and file.may_contain_arrivals(first, last):
                    yield file


def _rows(
    parquet: pq.ParquetFile, shard_id: str, first: datetime, last: datetime
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of a shard's rows from the row groups that may have these arrival times."""
    groups = [
        index
        for index in range(parquet.num_row_groups)
        if _group_may_contain(parquet.metadata.row_group(index), shard_id, first, last)
    ]
    # One group at a time: an iteration over all of them would read ahead.
    for group in groups:
        for batch in parquet.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[group], columns=_COLUMNS, use_threads=False
        ):
            # Other writers may have used another type of text column.
            shards, numbers = (batch[name].cast(pa.string()) for name in ("shard_id", "sequence_number"))
            rows = pa.record_batch([numbers, batch["sub_sequence_number"]], _KEYS)
            yield rows.filter(pc.equal(shards, shard_id))


def _group_may_contain(group: pq.RowGroupMetaData, shard_id: str, first: datetime, last: datetime) -> bool:
    wanted: dict[str, tuple[Any, Any]] = {
        "shard_id": (shard_id, shard_id),
        "approximate_arrival_timestamp": (first, last),
    }
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema not in wanted:
            continue
        smallest, largest = wanted[column.path_in_schema]
        statistics = column.statistics
        known = statistics is not None and statistics.has_min_max
        if known and (statistics.min > largest or statistics.max < smallest):
            return False
    return True


def _keys(batch: pa.RecordBatch) -> Iterator[tuple[str, int]]:
    return zip(*(batch[name].to_pylist() for name in _KEYS), strict=True)


class ShardFillResult(ShardResult, frozen=True, forbid_unknown_fields=True):
    """The result of reading one shard again. Its rows are the records that the table lacked.

    Attributes:
        read: Number of records read.
        first_read: Sequence number of the first record read; None if none was read.
        last_arrival: Arrival of the last record read; None if none was read.
    """

    read: Count
    first_read: str | None
    last_arrival: Time | None

    def checks(self, range_: ShardRange) -> Iterator[tuple[bool, str]]:
        """Yield the checks of every shard, and that of the number of rows."""
        yield from super().checks(range_)
        yield self.stats.rows > self.read, "more rows than records"


class FillResult(JobResult[ShardFillResult], frozen=True, forbid_unknown_fields=True):
    """The result of a replay's Spark job."""
