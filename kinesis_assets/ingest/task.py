"""One task of a landing: it reads a group of shards and writes their records to Parquet files."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from kinesis_assets.errors import KinesisAssetsError, ShardError
from kinesis_assets.ingest.manifest import Landing, ShardLanding, encode
from kinesis_assets.ingest.shard_group import SideBySide
from kinesis_assets.ingest.worker_tuning import give_memory_back, settle
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.quota import Budget
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.columns import binaries
from kinesis_assets.kinesis.transport.memory_limiter import Room
from kinesis_assets.table.data_file import DataFileWriter
from kinesis_assets.table.stop_marker import StopObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.reading.reading import ShardRange
    from kinesis_assets.kinesis.records.wire import Records
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.transport.awaitables import Wait
    from kinesis_assets.table.storage import TableFolder

BYTES_IN_FLIGHT = 128 << 20
"""Memory that the pages of a task take together, from the wire to the writer: three of the largest there are,
or fifty whose bodies have 1 MB."""

SECONDS_BETWEEN_LOOKS = 1.0
"""How often a task looks whether it is told to stop."""


@dataclass(frozen=True, slots=True)
class LandingJob:
    """What every task of a landing needs to know. Can be pickled; carries no secret.

    Attributes:
        stream: The stream's name or its ARN, as calls name it.
        settings: How to reach it.
        folder: The table's folder.
        batch_id: Written into every row.
        read_until: No page is begun later, seconds since the epoch, but of a shard that has given empty ones
            alone: its records could not be committed.
    """

    stream: str
    settings: ClientSettings
    folder: TableFolder
    batch_id: int
    read_until: float


def landing_task(
    job: LandingJob, groups: Sequence[tuple[Sequence[ShardRange], Allowance]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark's `mapInArrow` runs for each task number; it returns a manifest.

    Args:
        job: What all groups have in common.
        groups: By task number, the ranges of the task and its share of the allowance.
    """

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch["id"].to_pylist():
                landing = land_group(job, *groups[number])
                settle()
                yield pa.RecordBatch.from_arrays([binaries([encode(landing)])], ["landing"])

    return run


def land_group(job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
    """One task's work: read its shards side by side, write what comes to shared files."""
    give_memory_back()
    budget, room = Budget(allowance.within(job.read_until - time.time())), Room(BYTES_IN_FLIGHT)
    client = client_of(job.stream, job.settings)
    writer = DataFileWriter(job.folder.open(), job.batch_id)
    stopping = threading.Event()
    readings = [ShardReading(client, range_, budget, stopping, room) for range_ in ranges]
    side_by_side = SideBySide(readings, stopping)

    def take(reading: ShardReading, records: Records) -> Iterable[Wait]:
        shard_id = reading.range.shard_id
        writer.write(shard_id, record_batch(client.stream, shard_id, records))
        return ()

    with writer:
        with _watching(StopObject(job.folder, job.batch_id), stopping, side_by_side.hurry):
            errors = side_by_side.read(take)
        return Landing(tuple(writer.close()), tuple(map(_shard_landing, readings, errors)))


@contextmanager
def _watching(stop: StopObject, stopping: threading.Event, then: Callable[[], None]) -> Iterator[None]:
    """Within, an event is set soon after the stop object is, and then something is called."""
    over = threading.Event()

    def watch() -> None:
        while not stopping.is_set():
            # A store that cannot be looked at tells of no stop; the landing itself tells of the store.
            with suppress(OSError, pa.ArrowException, KinesisAssetsError):
                if stop.is_set():
                    stopping.set()
                    then()
            if over.wait(SECONDS_BETWEEN_LOOKS):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


@lru_cache(maxsize=8)
def client_of(stream: str, settings: ClientSettings) -> StreamClient:
    """Kept by a worker process from task to task: making one costs CPU, and new connections."""
    # The reader tries again by itself: the SDK's budget of retries would be one for all shards.
    return StreamClient(stream, settings, attempts=1)


def _shard_landing(reading: ShardReading, error: ShardError | None) -> ShardLanding:
    return ShardLanding(
        shard_id=reading.range.shard_id,
        position=reading.position,
        end=reading.end,
        rows=reading.records,
        bytes=reading.bytes,
        checksum=reading.checksum,
        first_sequence_number=reading.first_sequence_number,
        bad_records=reading.bad_records,
        outside_hash_range=reading.outside_hash_range,
        first_arrival=reading.first_arrival,
        last_arrival=reading.last_arrival,
        millis_behind_latest=reading.millis_behind_latest,
        tip_time=reading.tip_time,
        gaps=tuple(reading.gaps),
        error=error,
    )
