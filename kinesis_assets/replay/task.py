"""Fill in missing records: one Spark job reads ranges again and writes the records that the table lacks.

It works as landing does: tasks write files, and only files whose manifests are returned are committed.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.ingest.manifest import decode_all, encode
from kinesis_assets.ingest.packing import packed
from kinesis_assets.ingest.shard_group import ShardGroup
from kinesis_assets.ingest.task import BYTES_IN_FLIGHT, LandingJob, client_of
from kinesis_assets.ingest.task_progress import TaskProgress
from kinesis_assets.ingest.worker_tuning import configure_allocators
from kinesis_assets.kinesis.limits import Allowance
from kinesis_assets.kinesis.quota import Quota
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.checksums import checksum
from kinesis_assets.kinesis.transport.memory_limiter import MemoryLimiter
from kinesis_assets.kinesis.transport.waits import to_thread
from kinesis_assets.replay.existing_keys import ExistingKeys
from kinesis_assets.replay.manifest import FillResult, ShardFillResult
from kinesis_assets.replay.manifest_checks import check_filling
from kinesis_assets.spark.parallelism import parallelism
from kinesis_assets.table.data_files.data_file_writer import DataFileWriter
from kinesis_assets.table.positions.range_stats import RangeStats
from kinesis_assets.table.run_files.progress import ProgressFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from pyspark.sql import SparkSession

    from kinesis_assets.errors import ShardError
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.records.record import Records
    from kinesis_assets.kinesis.transport.waits import NonBlocking
    from kinesis_assets.table.data_files.file_stats import FileStats


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
    return fill_result_of([row[0] for row in rows], job, ranges)


def fill_result_of(contents: Sequence[object], job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
    """Decode and check the manifests of the tasks.

    Args:
        contents: One encoded manifest per task.
        job: The job.
        ranges: The ranges that the tasks read.

    Raises:
        LandingFailed: A manifest is invalid, or together they do not match the ranges.
    """
    landing = job.landing
    result = sum(decode_all(f"stream {landing.stream}", contents, FillResult), FillResult())
    check_filling(landing.stream, landing.batch_id, ranges, result)
    return result


def _task(
    job: FillJob, groups: Sequence[Sequence[ShardRange]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch["id"].to_pylist():
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

    def write_missing(reading: ShardReading, records: Records) -> NonBlocking[None]:
        shard_id = reading.range.shard_id
        batch = record_batch(client.stream, shard_id, records)
        missing = yield from to_thread(lambda: existing.missing(shard_id, batch))  # reads files
        in_window = pc.greater_equal(batch["approximate_arrival_timestamp"], job.not_before)
        missing = pc.and_(missing, in_window)
        with suppress(OSError, pa.ArrowException, KinesisAssetsError):  # only the log needs it
            progress.note()
        if missing.true_count:
            writer.write(shard_id, batch.filter(missing))
            counts[shard_id].add(records, missing)

    clock = landing.settings.timing.clock
    quota = Quota(Allowance(seconds=landing.read_until - clock.time()), clock)
    limiter, stop = MemoryLimiter(BYTES_IN_FLIGHT), threading.Event()
    readings = [ShardReading(client, range_, quota, stop, limiter) for range_ in ranges]
    files = ProgressFiles(landing.folder, landing.batch_id)
    progress = TaskProgress(files, readings, clock, landing.progress_interval)
    with writer:
        group = ShardGroup(readings, stop, landing.settings.max_pool_connections, clock)
        errors = group.read(write_missing)
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
