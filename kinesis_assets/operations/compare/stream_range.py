"""The range of a stream that is compared with a table, and how Spark reads it.

Each shard's range has a fixed start and end. A read that does not cover all of it fails: no record may be
missing in the comparison because it has expired, or because a response wrongly reported the tip.

An aggregate in which the range starts or ends is read as a whole, and its user records that are not in the
range are marked so, because the table may have rows of them.

A table whose rows do not name the position of their record may have rows of records shortly before the range,
and of those that arrived since its end. These records are read too, and marked as outside of the range.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from kinesis_assets.errors import DataLost, InvalidInput, ReadFailed, ShardError
from kinesis_assets.ingest.shard_lists import check_unlisted_parents
from kinesis_assets.ingest.task import BYTES_IN_FLIGHT, client_of, configure_allocators
from kinesis_assets.kinesis.data_loss import Expiry
from kinesis_assets.kinesis.listing_retries import retry_listing
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange, count_before_end
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA, record_batch
from kinesis_assets.kinesis.start_positions import DEFAULT, StartPositions, checked_starts, read_start
from kinesis_assets.kinesis.stream import ancestors
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Turns, iterate
from kinesis_assets.spark.session import parallelism
from kinesis_assets.table.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.records.records import Records
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.kinesis.stream import Shard, StreamListing, StreamSummary
    from kinesis_assets.spark.arrow_steps import ArrowStep

STREAM_COLUMNS = {column.name: column.type for column in COLUMNS if column.name in RECORD_SCHEMA.names}
"""The columns of a record that expressions see, with their types."""

PLACE = ("shard_id", "sequence_number", "sub_sequence_number", "approximate_arrival_timestamp")
"""The columns that say which record it is. They are always read."""

INSIDE = "__inside"
"""The column that says whether a record is in the range."""

_TIP_GRACE = timedelta(seconds=2)
"""A shard counts as read up to a time only after a response this long after it. Records may arrive late."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Window:
    """The start and the end of the range, as they were given.

    Attributes:
        start: Inclusive.
        end: Exclusive: where a read of the rest would start.
        ends_unnamed: Whether `end` applies to shards that it does not name.
    """

    start: StartPositions
    end: StartPositions
    ends_unnamed: bool = True

    @classmethod
    def of(cls, start: str, end: str | None, now: datetime) -> Window:
        """Parse a window.

        Args:
            start: A time with a UTC offset, or a start in one of the forms of `StartPositions.of`.
            end: Likewise; None for now.
            now: The service's clock.

        Raises:
            InvalidInput: One of them is invalid.
        """
        first = _positions(read_start(start))
        if end is None:
            return cls(first, StartPositions(Position.at_timestamp(now)))
        last = read_start(end)
        return cls(first, _positions(last), ends_unnamed=isinstance(last, str) or DEFAULT in last)


def _positions(written: str | Mapping[str, str]) -> StartPositions:
    try:
        time = datetime.fromisoformat(written.strip()) if isinstance(written, str) else None
    except ValueError:
        time = None
    if time is None:
        return StartPositions.of(written)
    try:
        return StartPositions(Position.at_timestamp(time))
    except OverflowError:
        raise InvalidInput(f"{written}: is before the year 1 or after the year 9999 in UTC") from None


class ComparedShard(msgspec.Struct, frozen=True):
    """What is read of a shard, and which part of it is the range.

    Attributes:
        after: The position of its start if that is inside an aggregate; otherwise None.
        since: The first arrival time of the range; None if it starts with the reading.
        until: The first arrival time after the range; None for no such end.
        up_to: The position of its end; None for no such end.
    """

    reading: ShardRange
    after: Position | None
    since: datetime | None
    until: datetime | None
    up_to: Position | None


@dataclass(frozen=True, slots=True)
class StreamRange:
    """The range of a stream.

    Attributes:
        listing: The stream when it was planned.
        start: By shard id, the start of the range.
        end: By shard id, its end.
    """

    listing: StreamListing
    shards: Sequence[ComparedShard]
    start: Mapping[str, Position]
    end: Mapping[str, Position]


def plan_range(
    client: StreamClient, window: Window, margin: timedelta | None = None, *, latest: bool = False
) -> StreamRange:
    """Plan what is read of each shard.

    Args:
        margin: How long before and after the range records are read too; None if only the range is. It has
            no meaning at a position: no record before a start is read, and all records after an end.
        latest: With a margin, read all records after the range, because the table keeps the last of a key.

    Raises:
        InvalidInput: The window is empty, does not fit the stream, or starts before the oldest records.
        StreamError: The stream cannot be reached, or there is no complete list of its shards.
    """

    def plan(listing: StreamListing) -> StreamRange:
        check_unlisted_parents(client, listing)
        starts = _checked("--from", client, window.start, listing)
        ends = _checked("--to", client, _end(window, listing), listing)
        summary = listing.summary
        for shard_id, start in starts.items():
            _refuse_invalid(summary, shard_id, start, ends[shard_id])
        shards = [
            _compared(shard, starts[shard.shard_id], ends[shard.shard_id], summary, margin, latest=latest)
            for shard in listing.shards
            if not shard.ends_at(starts[shard.shard_id])
        ]
        return StreamRange(listing, shards, starts, ends)

    return retry_listing(client, plan)


def _end(window: Window, listing: StreamListing) -> StartPositions:
    """Return the end of the range, in which the ancestors of the shards that it names end at their end.

    Consumers store nothing of an ancestor any more. They have read it before its children.

    Raises:
        InvalidInput: Another shard has no end.
    """
    named = window.end.shards.keys() | window.end.ended
    done = ancestors(listing.shards, named) - named
    end = msgspec.structs.replace(window.end, ended=window.end.ended | done)
    unnamed = [shard.shard_id for shard in listing.shards if shard.shard_id not in named | done]
    if unnamed and not window.ends_unnamed:
        raise InvalidInput(
            f"--to: stream {listing.summary.identity.name}: the map contains no end of {', '.join(unnamed)}: "
            f"add them, or a '{DEFAULT}' for them, such as TRIM_HORIZON if the other consumer has read none "
            "of their records"
        )
    return end


def _checked(
    option: str, client: StreamClient, positions: StartPositions, listing: StreamListing
) -> dict[str, Position]:
    try:
        return checked_starts(client, positions, listing)
    except InvalidInput as error:
        raise InvalidInput(f"{option}: {error}") from error


def _refuse_invalid(summary: StreamSummary, shard_id: str, start: Position, end: Position) -> None:
    name = summary.identity.name
    oldest = summary.oldest_kept
    time, until = start.timestamp, end.timestamp
    numbers = start.sequence_number, end.sequence_number
    is_empty = time is not None and until is not None and until <= time
    is_backward = None not in numbers and int(numbers[1] or 0) < int(numbers[0] or 0)
    if is_empty or is_backward:
        raise InvalidInput(
            f"stream {name}: nothing is between {start} and {end} in {shard_id}; use a later end"
        )
    if time is not None and max(time, summary.identity.created) < oldest:
        raise InvalidInput(
            f"stream {name}: the range starts at {start}, but the stream keeps {summary.retention_hours} h: "
            f"records that arrived before {oldest:%Y-%m-%dT%H:%M:%SZ} may have expired. Use a later start"
        )


def _compared(
    shard: Shard,
    start: Position,
    end: Position,
    summary: StreamSummary,
    margin: timedelta | None,
    *,
    latest: bool,
) -> ComparedShard:
    now = summary.service_time
    until, up_to = end.timestamp, None if shard.ends_at(end) or not end.sequence_number else end
    if end.kind is PositionKind.TRIM_HORIZON:
        until = _EPOCH  # nothing of the shard is in the range
    after = None if start.sub_sequence_number is None else start
    first, last, last_number = start, until, up_to
    if after is not None:
        first = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=after.sequence_number)
    if up_to is not None:
        last_number = msgspec.structs.replace(up_to, sub_sequence_number=None)
    if margin is not None:
        oldest = summary.oldest_kept
        if start.timestamp is not None:
            first = Position.at_timestamp(max(start.timestamp - margin, min(oldest, start.timestamp)))
        last = min(end.timestamp + margin, now) if end.timestamp is not None and not latest else now
        last_number = None
    created = summary.identity.created
    if start.timestamp is not None:
        complete_until = max(start.timestamp, created)
    else:
        complete_until = now if start.kind is PositionKind.TRIM_HORIZON else created
    reading = ShardRange(
        shard_id=shard.shard_id,
        start=first,
        bounds=Bounds(until=last),
        hash_range=None,  # the mode in which the records arrived is unknown
        closed=shard.closed,
        tip_not_before=None if last is None else last + _TIP_GRACE,
        expiry=Expiry(
            complete_until=complete_until, retention_hours=summary.retention_hours, on_data_loss="fail"
        ),
        up_to=last_number,
    )
    return ComparedShard(reading, after, start.timestamp, until, up_to)


def no_records(spark: SparkSession) -> DataFrame:
    """Return a DataFrame with the columns of a record and no rows, for the analysis of expressions."""
    nulls = (f"CAST(NULL AS {kind}) AS {name}" for name, kind in STREAM_COLUMNS.items())
    return spark.range(0).selectExpr(*nulls)


def read_range(
    spark: SparkSession, client: StreamClient, shards: Sequence[ComparedShard], columns: Collection[str]
) -> DataFrame:
    """Return the records as a DataFrame, which fails unless it reads all of each shard's range.

    Args:
        columns: The columns that are read besides `PLACE`.
    """
    names = [name for name in STREAM_COLUMNS if name in {*PLACE, *columns}]
    tasks = max(1, min(len(shards), parallelism(spark)))
    groups = [shards[first::tasks] for first in range(tasks)]
    ddl = ", ".join([*(f"{name} {STREAM_COLUMNS[name]}" for name in names), f"{INSIDE} boolean"])
    task = _task(str(client.address), client.settings, groups, names)
    return spark.range(0, tasks, 1, tasks).mapInArrow(task, ddl)


def _task(
    stream: str, settings: ClientSettings, groups: Sequence[Sequence[ComparedShard]], names: Sequence[str]
) -> ArrowStep:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        configure_allocators()
        client = client_of(stream, settings)
        for number in (number for batch in numbers for number in batch["id"].to_pylist()):
            try:
                yield from read_shards(client, groups[number], names)
            except ShardError as error:
                # Spark shows the last line of the traceback that names an error.
                raise RuntimeError(f"{type(error).__name__}: {error}") from None

    return run


def read_shards(
    client: StreamClient, shards: Sequence[ComparedShard], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read shards concurrently, and yield the batches of all as they are read.

    Args:
        names: The columns of a batch, which `INSIDE` follows.

    Raises:
        ShardError: A shard could not be read up to the end of its range.
    """
    return iterate(_read(client, shards, names))


async def _read(
    client: StreamClient, shards: Sequence[ComparedShard], names: Sequence[str]
) -> AsyncGenerator[pa.RecordBatch]:
    limiter = MemoryLimiter(BYTES_IN_FLIGHT)
    turns = Turns(client.settings.max_pool_connections, client.settings.timing.clock)
    ready: asyncio.Queue[pa.RecordBatch | None] = asyncio.Queue(1)

    async def read(shard: ComparedShard) -> None:
        reading = ShardReading(client, shard.reading, None, turns, limiter)
        async with turns, aclosing(reading.batches()) as batches:
            while (records := await _next(shard, batches)) is not None:
                batch = _batch(client.stream, shard, records, names)
                del records
                await ready.put(batch)
                del batch
            await _confirm_end(client, shard, reading, turns)

    async def read_all() -> None:
        try:
            await asyncio.gather(*map(read, shards))
        finally:
            turns.stop()
            await ready.put(None)

    reader = asyncio.create_task(read_all())
    try:
        while (batch := await ready.get()) is not None:
            yield batch
            del batch
        await reader
    finally:
        reader.cancel()


async def _next(shard: ComparedShard, batches: AsyncGenerator[Records]) -> Records | None:
    try:
        return await anext(batches, None)
    except DataLost:
        raise DataLost(
            shard.reading.shard_id,
            "records of the range have expired, or may have, before they were read; compare a range that "
            "starts later",
        ) from None


def _batch(stream: str, shard: ComparedShard, records: Records, names: Sequence[str]) -> pa.RecordBatch:
    batch = record_batch(stream, shard.reading.shard_id, records)
    arrivals = batch["approximate_arrival_timestamp"]
    first = 0 if shard.after is None else count_before_end(records, None, shard.after)
    end = count_before_end(records, None, shard.up_to)
    inside = pa.array([first <= number < end for number in range(len(records))], pa.bool_())
    if shard.since is not None:
        inside = pc.and_(inside, pc.greater_equal(arrivals, shard.since))
    if shard.until is not None:
        inside = pc.and_(inside, pc.less(arrivals, shard.until))
    columns = [batch[name] for name in names]
    return pa.RecordBatch.from_arrays([*columns, inside], [*names, INSIDE])


async def _confirm_end(
    client: StreamClient, shard: ComparedShard, reading: ShardReading, turns: Turns
) -> None:
    """Check that a reading has covered its range; raise `ReadFailed` otherwise."""
    shard_id, last = shard.reading.shard_id, int(reading.position.sequence_number or 0)
    if reading.end is RangeEnd.TIP:
        again = msgspec.structs.replace(shard.reading, start=reading.position, expiry=None)
        async with aclosing(ShardReading(client, again, None, turns).batches()) as batches:
            found = await anext(batches, None)
        if found is not None:
            raise ReadFailed(
                shard_id,
                f"the service reported the tip before record {found.numbers[0]}, so it did not return all; "
                "run the comparison again",
            )
    is_at_end = shard.reading.up_to is not None and reading.end is RangeEnd.BOUND
    if shard.up_to is not None and not is_at_end and last < int(shard.up_to.sequence_number or 0):
        raise ReadFailed(
            shard_id, f"the range ends at {shard.up_to}, but the stream has no record there; correct the end"
        )
