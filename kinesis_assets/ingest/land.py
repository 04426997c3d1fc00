"""Landing: one Spark job that takes shards' ranges from the wire to Parquet files.

Each task reads its shards and writes the files itself, so records never cross into the JVM. What a task
returns tells which files it wrote and how far each shard got. Only what came back counts: a retried,
speculated or half-dead attempt leaves files that nothing points at.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from heapq import heapreplace
from typing import TYPE_CHECKING, Annotated

import msgspec
import pyarrow as pa

from kinesis_assets.errors import KinesisAssetsError, ShardError
from kinesis_assets.ingest.manifest import decode_all, encode
from kinesis_assets.ingest.manifest_checks import check_landing
from kinesis_assets.ingest.shard_group import SideBySide
from kinesis_assets.ingest.worker_memory import give_memory_back
from kinesis_assets.ingest.worker_tuning import settle
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.quota import Budget
from kinesis_assets.kinesis.reading.call_pacing import BYTES_PER_SECOND
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.columns import binaries
from kinesis_assets.kinesis.transport.memory_limiter import Room
from kinesis_assets.spark.session import end_tagged, tagged
from kinesis_assets.table.data_file import DataFile, DataFileWriter
from kinesis_assets.table.stop_marker import StopObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.records.wire import Records
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.transport.awaitables import Wait
    from kinesis_assets.table.storage import TableFolder

BYTES_IN_FLIGHT = 128 << 20
"""Memory that the pages of a task take together, from the wire to the writer: three of the largest there are,
or fifty whose bodies have 1 MB."""

_BYTES_OF_ANY = 200_000
"""What a range weighs though nothing may be in it: to ask costs the CPU of landing so many bytes."""

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


Count = Annotated[int, msgspec.Meta(ge=0)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


class ShardLanding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a shard got; all of it stands in the landed files.

    Attributes:
        shard_id: The shard.
        position: Where the next read begins.
        end: What ended the range; None if an error did.
        rows: Records landed.
        bytes: Their payload bytes.
        checksum: Over them all, see `checksums.checksum`.
        first_sequence_number: Of the first of them; None if there are none.
        bad_records: Those of them that are damaged aggregates.
        outside_hash_range: Those of them that belong to another shard.
        first_arrival: Arrival of the first of them.
        last_arrival: Of the last of them.
        millis_behind_latest: As the last answer told it; None if none came.
        tip_time: When the tip was seen (service's clock), if it was.
        gaps: Where records may be missing among them, if that was gone past.
        error: What ended the range early.
    """

    shard_id: str
    position: Position
    end: RangeEnd | None
    rows: Count
    bytes: Count
    checksum: Count
    first_sequence_number: str | None
    bad_records: Count
    outside_hash_range: Count
    first_arrival: Time | None
    last_arrival: Time | None
    millis_behind_latest: Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)] | None
    tip_time: Time | None
    gaps: tuple[Gap, ...]
    error: ShardError | None


class Landing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came back of a landing: its files and its shards. Nothing is committed yet."""

    files: tuple[DataFile, ...] = ()
    shards: tuple[ShardLanding, ...] = ()

    def __add__(self, other: Landing) -> Landing:
        return Landing(self.files + other.files, self.shards + other.shards)

    @property
    def rows(self) -> int:
        """Records landed."""
        return sum(shard.rows for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Their payload bytes."""
        return sum(shard.bytes for shard in self.shards)


def land(spark: SparkSession, job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
    """Read ranges of different shards and write them to files in the table's folder.

    Ranges must not depend on each other: a child goes into a later landing than its parents.
    A shard that fails ends its own range only; any other error fails the job.

    Args:
        spark: Where.
        job: What all ranges have in common.
        ranges: What to read; the first ones are begun first.
        allowance: What they may read together.

    Raises:
        LandingFailed: What came back cannot be true.
    """
    shares = allowance.shares(min(len(ranges), parallelism(spark)))
    tasks = len(shares)
    groups = list(zip(packed(ranges, tasks), shares, strict=True))
    numbers = spark.range(0, tasks, 1, tasks)
    with tagged(spark, _tag(job.batch_id)):
        rows = numbers.mapInArrow(_task(job, groups), "landing binary").collect()
    return landing_of([row[0] for row in rows], job, ranges)


def landing_of(contents: Sequence[object], job: LandingJob, ranges: Sequence[ShardRange]) -> Landing:
    """The landing whose tasks returned these manifests.

    Raises:
        LandingFailed: One of them is no manifest, or together they cannot be those of these ranges.
    """
    landing = sum(decode_all(job.stream, contents, Landing), Landing())
    check_landing(job.stream, job.batch_id, ranges, landing)
    return landing


def packed(ranges: Sequence[ShardRange], tasks: int) -> list[list[ShardRange]]:
    """Ranges over tasks: the largest expected first, each to the task that has least so far.

    Those of which nothing is known count as the largest known. Within a task they keep their order.
    """
    expected = [_expected(range_) for range_ in ranges]
    largest = max((size for size in expected if size is not None), default=0.0)
    weights = [_BYTES_OF_ANY + (largest if size is None else size) for size in expected]
    loads = [(0.0, task) for task in range(tasks)]
    taken: list[list[int]] = [[] for _ in range(tasks)]
    for number in sorted(range(len(ranges)), key=lambda number: -weights[number]):
        load, task = loads[0]
        taken[task].append(number)
        heapreplace(loads, (load + weights[number], task))
    return [[ranges[number] for number in sorted(numbers)] for numbers in taken]


def _expected(range_: ShardRange) -> float | None:
    """Bytes that a range may take of those that are expected."""
    if range_.expected is None:
        return None
    bytes_, seconds = range_.bounds.max_bytes, range_.bounds.max_seconds
    most = [bytes_, None if seconds is None else seconds * BYTES_PER_SECOND]
    return min([range_.expected, *(each for each in most if each is not None)])


def end_landing(spark: SparkSession, batch_id: int) -> None:
    """End an attempt's landing from another thread; `land` raises soon."""
    end_tagged(spark, _tag(batch_id))


def _tag(batch_id: int) -> str:
    return f"kinesis-{batch_id}"


def parallelism(spark: SparkSession) -> int:
    """Tasks that run at once; Spark Connect does not tell unless it was configured."""
    # Here, since tasks import this module too and have no need of it.
    from pyspark.sql.utils import is_remote  # noqa: PLC0415

    if is_remote():
        return int(spark.conf.get("spark.default.parallelism", "2") or 2)
    return spark.sparkContext.defaultParallelism


def _task(
    job: LandingJob, groups: Sequence[tuple[Sequence[ShardRange], Allowance]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
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
