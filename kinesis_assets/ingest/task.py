"""One task of a landing: it reads a group of shards and writes their records to Parquet files.

It also tunes its Python worker: the memory allocators and the garbage collector.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
import threading
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from kinesis_assets.errors import KinesisAssetsError, ShardError
from kinesis_assets.ingest.manifest import Landing, ShardLanding, encode
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.reading.range import Quota
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.received_pages import decode
from kinesis_assets.kinesis.records.records import Records, binaries, record_batch
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Turns
from kinesis_assets.table.data_file_writer import DataFileWriter, FileLayout
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts
from kinesis_assets.table.run_files.task_files import Progress, ProgressFiles, StopMarker

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.reading.received_pages import Received
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.store.storage import TableFolder

    Handler = Callable[[ShardReading, Records], Awaitable[None]]


BYTES_IN_FLIGHT = 128 << 20
"""Maximum memory of a task's pages, from the response to the written file. It holds three pages of the
largest possible size, or fifty with bodies of 1 MB."""


@dataclass(frozen=True, slots=True)
class LandingJob:
    """The settings that every task of a landing needs. It can be pickled and holds no secrets.

    Attributes:
        stream: The stream's name or ARN, for calls.
        read_until: Time in seconds since the epoch after which no page is requested, because its records
            could not be committed in time. A shard that has returned only empty pages is exempt.
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
    job: LandingJob, groups: Sequence[tuple[Sequence[ShardRange], Allowance]], files: Sequence[str] = ()
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark's `mapInArrow` runs in each task: `land_group` for its number.

    It yields the encoded manifest. The rows have the number of a task, `id`. What was received of its shards
    is in `files`, or in the rows as `received`.

    Args:
        groups: By task number, the ranges of the task and its share of the allowance.
        files: By task number, the path of a file with what was received of its shards.
    """

    def run(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for index, number in enumerate(batch["id"].to_pylist()):
                if files:
                    received = decode(_mapped(files[number]))
                elif "received" in batch.schema.names:
                    received = decode(batch["received"][index].as_buffer())
                else:
                    received = {}
                ranges, allowance = groups[number]
                landing = land_group(job, ranges, allowance, received)
                freeze_loaded_objects()
                yield pa.RecordBatch.from_arrays([binaries([encode(landing)])], ["landing"])

    return run


def _mapped(path: str) -> mmap.mmap:
    """Return the content of a file, of which nothing is copied. It stays there when the file is deleted."""
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def land_group(
    job: LandingJob,
    ranges: Sequence[ShardRange],
    allowance: Allowance,
    received: Mapping[str, Received] = MappingProxyType({}),
) -> Landing:
    """Read a task's shards concurrently and write their records to shared files.

    Args:
        received: By shard id, what subscriptions have received. GetRecords reads the other shards.
    """
    configure_allocators()
    timing = job.settings.timing
    clock = timing.clock
    quota = Quota(allowance.within(job.read_until - clock.time()), clock)
    limiter = MemoryLimiter(BYTES_IN_FLIGHT)
    client = client_of(job.stream, job.settings)
    writer = DataFileWriter(job.folder.open(), job.batch_id, job.layout)
    turns = Turns(job.settings.max_pool_connections, clock)
    readings = [
        ShardReading(client, range_, quota, turns, limiter, received=received.get(range_.shard_id))
        for range_ in ranges
    ]

    async def write(reading: ShardReading, records: Records) -> None:
        shard_id = reading.range.shard_id
        writer.write(shard_id, record_batch(client.stream, shard_id, records))

    with writer:
        marker = StopMarker(job.folder, job.batch_id)
        files = ProgressFiles(job.folder, job.batch_id)
        progress = TaskProgress(files, readings, clock, job.progress_interval)
        with _watched(marker, turns, progress, timing.stop_poll_seconds):
            errors = read_all(readings, turns, write)
        return Landing(tuple(writer.close()), tuple(map(_shard_landing, readings, errors)))


@contextmanager
def _watched(marker: StopMarker, turns: Turns, progress: TaskProgress, interval: float) -> Iterator[None]:
    """Stop the turns once a stop marker exists, and write the progress, at an interval within the context."""
    done = threading.Event()

    def watch() -> None:
        # A landing that ends sooner, as in a continuous run, makes no request for the marker.
        while not done.wait(interval) and not turns.stopped:
            # The landing itself raises the errors of a store that cannot be read.
            with suppress(OSError, pa.ArrowException, KinesisAssetsError):
                if marker.is_set():
                    turns.stop()
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
        refused=reading.refused,
        tip_iterator=reading.tip_iterator,
    )


def read_all(readings: Sequence[ShardReading], turns: Turns, handler: Handler) -> list[ShardError | None]:
    """Read different shards to the ends of their ranges, and return for each the error that ended it early.

    Raises errors that are not a shard's own, after stopping the turns.

    Args:
        handler: Called with the records of each page as it is read.
    """
    errors: list[ShardError | None] = [None] * len(readings)

    async def following(number: int, batches: AsyncGenerator[Records]) -> Records | None:
        """Return the next records of a reading; None at its end or after an error.

        The handler is not called here: its errors would be taken for the shard's own, although the shard's
        position is already after the records that it was given.
        """
        try:
            return await anext(batches, None)
        except ShardError as error:
            errors[number] = error.with_traceback(None)  # its frames would keep the page in memory
            return None

    async def read(number: int, reading: ShardReading) -> None:
        try:
            async with turns, aclosing(reading.batches()) as batches:
                while (records := await following(number, batches)) is not None:
                    await handler(reading, records)
                    del records
        except Exception:
            turns.stop()
            raise

    turns.run(read(number, reading) for number, reading in enumerate(readings))
    return errors


class TaskProgress:
    """Writes how far a task is, at an interval in seconds. A task that is shorter writes nothing.

    Another thread reads the readings meanwhile.
    """

    def __init__(
        self, files: ProgressFiles, readings: Sequence[ShardReading], clock: Clock, interval: float
    ) -> None:
        self._files = files
        self._readings = readings
        self._first_lags = [0] * len(readings)
        self._clock = clock
        self._interval = interval
        self._due = clock.monotonic() + interval
        self._has_written = False

    def note(self) -> None:
        """Write how far the task is, if it is time. Raises as `ProgressFiles.write`."""
        progress = self._progress()
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + self._interval
            self._has_written = True
            self._write(progress)

    def end(self) -> None:
        """Write how far the task got, if it has written before. Raises as `ProgressFiles.write`."""
        if self._has_written:
            self._write(self._progress())

    def _write(self, progress: Progress) -> None:
        if self._readings:
            self._files.write(self._readings[0].range.shard_id, progress)

    def _progress(self) -> Progress:
        lags = [reading.millis_behind_latest or 0 for reading in self._readings]
        self._first_lags = list(map(max, self._first_lags, lags))
        return Progress(
            records=sum(reading.records for reading in self._readings),
            bytes=sum(reading.bytes for reading in self._readings),
            lag_ms=sum(lags),
            first_lag_ms=sum(self._first_lags),
        )


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGE = 32 << 20  # glibc's maximum; mapping memory for each page of records would cost CPU


@cache
def configure_allocators() -> None:
    """Make all threads share freed memory, and return most of it to the system.

    By default each thread keeps the memory that it has freed: Arrow's own allocator uses one heap for each
    thread, glibc up to eight arenas for each core. Since some threads read the pages that others write, a
    worker would keep several times the memory in use. One arena is enough, because only one thread at a time
    holds Python's lock.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE)
        mallopt(_M_TRIM_THRESHOLD, _LARGE)
        mallopt(_M_ARENA_MAX, 1)


@cache
def freeze_loaded_objects() -> None:
    """Exclude all objects that exist after a worker's first task from garbage collection.

    Spark collects garbage after each task and would traverse every module again: 40 ms of CPU for each task.
    """
    gc.collect()
    gc.freeze()
