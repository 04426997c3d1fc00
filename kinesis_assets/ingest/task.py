"""One task of a landing: it reads a group of shards and writes their records to Parquet files."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

import pyarrow as pa

from kinesis_assets.errors import KinesisAssetsError, ShardError
from kinesis_assets.ingest.manifest import Landing, ShardLanding, encode
from kinesis_assets.ingest.reading_facts import ReadingFacts
from kinesis_assets.ingest.shard_group import ShardGroup
from kinesis_assets.ingest.task_progress import TaskProgress
from kinesis_assets.ingest.worker_tuning import configure_allocators, freeze_loaded_objects
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.quota import Quota
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.columns import binaries
from kinesis_assets.kinesis.transport.memory_limiter import MemoryLimiter
from kinesis_assets.table.data_files.data_file_writer import DataFileWriter, FileLayout
from kinesis_assets.table.positions.range_stats import RangeStats
from kinesis_assets.table.run_files.progress import ProgressFiles
from kinesis_assets.table.run_files.stop_marker import StopMarker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.records.record import Records
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.transport.waits import Wait
    from kinesis_assets.table.store.storage import TableFolder

BYTES_IN_FLIGHT = 128 << 20
"""Maximum memory of a task's pages, from the response to the written file. It holds three pages of the
largest possible size, or fifty with bodies of 1 MB."""


@dataclass(frozen=True, slots=True)
class LandingJob:
    """The settings that every task of a landing needs. It can be pickled and holds no secrets.

    Attributes:
        stream: The stream's name or ARN, for calls.
        settings: The client's settings.
        folder: The table's folder.
        batch_id: The attempt's batch id, written to every row.
        read_until: Time in seconds since the epoch after which no page is requested, because its records
            could not be committed in time. A shard that has returned only empty pages is exempt.
        layout: The sizes of the data files.
        progress_interval: Seconds from one file about the progress of a task to the next.
    """

    stream: str
    settings: ClientSettings
    folder: TableFolder
    batch_id: int
    read_until: float
    layout: FileLayout = FileLayout()
    progress_interval: float = inf


def landing_task(
    job: LandingJob, groups: Sequence[tuple[Sequence[ShardRange], Allowance]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark's `mapInArrow` runs in each task: `land_group` for its number.

    It yields the encoded manifest.

    Args:
        job: The settings that all tasks share.
        groups: By task number, the ranges of the task and its share of the allowance.
    """

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch["id"].to_pylist():
                landing = land_group(job, *groups[number])
                freeze_loaded_objects()
                yield pa.RecordBatch.from_arrays([binaries([encode(landing)])], ["landing"])

    return run


def land_group(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
    """Read a task's shards concurrently and write their records to shared files."""
    configure_allocators()
    timing = job.settings.timing
    clock = timing.clock
    quota = Quota(allowance.within(job.read_until - clock.time()), clock)
    limiter = MemoryLimiter(BYTES_IN_FLIGHT)
    client = client_of(job.stream, job.settings)
    writer = DataFileWriter(job.folder.open(), job.batch_id, job.layout)
    stop_event = threading.Event()
    readings = [ShardReading(client, range_, quota, stop_event, limiter) for range_ in ranges]
    group = ShardGroup(readings, stop_event, job.settings.max_pool_connections, clock)

    def write(reading: ShardReading, records: Records) -> Iterable[Wait]:
        shard_id = reading.range.shard_id
        writer.write(shard_id, record_batch(client.stream, shard_id, records))
        return ()

    with writer:
        marker = StopMarker(job.folder, job.batch_id)
        files = ProgressFiles(job.folder, job.batch_id)
        progress = TaskProgress(files, readings, clock, job.progress_interval)
        with _watched(marker, stop_event, group.cancel_pauses, progress, timing.stop_poll_seconds):
            errors = group.read(write)
        return Landing(tuple(writer.close()), tuple(map(_shard_landing, readings, errors)))


@contextmanager
def _watched(
    marker: StopMarker,
    stop_event: threading.Event,
    on_stop: Callable[[], None],
    progress: TaskProgress,
    interval: float,
) -> Iterator[None]:
    """Watch for a stop marker within the context, and write the progress.

    Args:
        marker: The marker.
        stop_event: Set when the marker exists.
        on_stop: Called after that.
        progress: The progress of the task.
        interval: Seconds between two checks.
    """
    done = threading.Event()

    def watch() -> None:
        # A landing that ends sooner, as in a continuous run, makes no request for the marker.
        while not done.wait(interval) and not stop_event.is_set():
            # The landing itself raises the errors of a store that cannot be read.
            with suppress(OSError, pa.ArrowException, KinesisAssetsError):
                if marker.is_set():
                    stop_event.set()
                    on_stop()
                progress.note()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        with suppress(OSError, pa.ArrowException, KinesisAssetsError):
            progress.end()


@lru_cache(maxsize=8)
def client_of(stream: str, settings: ClientSettings) -> StreamClient:
    """Return a client, which the worker process keeps from task to task to save CPU and connections."""
    # The reader retries itself, because the SDK's retry quota would be shared by all shards.
    return StreamClient(stream, settings, attempts=1)


def _shard_landing(reading: ShardReading, error: ShardError | None) -> ShardLanding:
    return ShardLanding(
        shard_id=reading.range.shard_id,
        stats=RangeStats(
            start=reading.range.start,
            through=reading.position,
            first_sequence_number=reading.first_sequence_number,
            last_sequence_number=reading.position.sequence_number if reading.records else None,
            rows=reading.records,
            bytes=reading.bytes,
            checksum=reading.checksum,
        ),
        end=reading.end,
        error=error,
        facts=ReadingFacts(
            bad_records=reading.bad_records,
            outside_hash_range=reading.outside_hash_range,
            first_arrival=reading.first_arrival,
            last_arrival=reading.last_arrival,
            millis_behind_latest=reading.millis_behind_latest,
            gaps=tuple(reading.gaps),
            throttles=reading.throttles,
        ),
        tip_time=reading.tip_time,
    )
