"""The first record of a shard from a position on, to which a seek moves it, and its oldest readable one."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.transport.concurrency import Turns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import Shard, StreamSummary
    from kinesis_assets.table.positions.positions import ShardPosition

_Found = TypeVar("_Found")

_AT_ONCE = 16
"""The number of shards that are searched at once. Each allows five reads a second, and needs several."""

TIME_TO_READ = timedelta(hours=1)
"""A record that expires earlier than this counts as expired, because the next run might not find it."""

SETTLED = timedelta(minutes=1)
"""A catch-up moves a shard to its first record that is younger than this, or to an older one. Those before it
are visible to every read: records become visible within seconds, in the order of their sequence numbers."""


@dataclass(frozen=True, slots=True)
class FirstRecord:
    """A record that can be read.

    Attributes:
        arrival: Arrival time, UTC.
    """

    sequence_number: str
    arrival: datetime

    def __str__(self) -> str:
        return f"{self.sequence_number}, {self.arrival:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Target:
    """A position in a shard, and the records around it.

    Attributes:
        position: TRIM_HORIZON means that of `oldest`.
        first: The first record from there on; None if there is none.
        oldest: The oldest record that does not expire within `TIME_TO_READ`; None if there is none.
        unread: The first record that is not read yet; None if there is none, or if it was not looked for.
    """

    position: Position
    first: FirstRecord | None
    oldest: FirstRecord | None
    unread: FirstRecord | None = None


def of_each(
    client: StreamClient, shards: Sequence[Shard], find: Callable[[Shard, Turns], Awaitable[_Found]]
) -> dict[str, _Found]:
    """Return what a coroutine function finds in each shard, by shard id, with several shards at once.

    Raises the first error of a search, after canceling the others.
    """
    found: dict[str, _Found] = {}
    turns = Turns(_AT_ONCE, client.settings.timing.clock)

    async def search(shard: Shard) -> None:
        async with turns:
            found[shard.shard_id] = await find(shard, turns)

    turns.run(map(search, shards))
    return {shard.shard_id: found[shard.shard_id] for shard in shards}


async def read_target(
    client: StreamClient, shard: Shard, summary: StreamSummary, position: Position, turns: Turns
) -> Target:
    """Find the records around a position with two short reads.

    Args:
        shard: The shard, which the stream lists.
        position: Not LATEST.
        turns: Those of `of_each`.

    Raises:
        ReadFailed: A call failed after bounded retries.
        ShardStalled: The reads returned neither a record nor the end of the shard.
    """
    horizon = summary.oldest_kept + TIME_TO_READ
    start = Position(PositionKind.TRIM_HORIZON)
    if horizon > summary.identity.created:
        start = Position.at_timestamp(horizon)
    oldest = await _first_record(client, shard, start, turns)
    if position.kind is PositionKind.TRIM_HORIZON:
        return Target(position, oldest, oldest)
    return Target(position, await _first_record(client, shard, position, turns), oldest)


def first_record(client: StreamClient, shard: Shard, position: Position) -> FirstRecord | None:
    """Return the first record from a position on that can be read; None if there is none up to the tip.

    Raises what `read_target` raises.
    """
    found = of_each(client, [shard], lambda shard, turns: _first_record(client, shard, position, turns))
    return found[shard.shard_id]


async def _first_record(
    client: StreamClient, shard: Shard, position: Position, turns: Turns
) -> FirstRecord | None:
    range_ = ShardRange(
        shard.shard_id, position, Bounds(max_records=1), shard.hash_range, closed=shard.closed
    )
    async with aclosing(ShardReading(client, range_, turns=turns).batches()) as batches:
        records = await anext(batches, None)
    return None if records is None else FirstRecord(records[0].sequence_number, records[0].arrival)


async def newest_target(
    client: StreamClient, shard: Shard, summary: StreamSummary, recorded: ShardPosition, turns: Turns
) -> Target:
    """Find the first record since `SETTLED` or, if there is none, since twice as long ago, and so on.

    A catch-up moves the shard to this record. So a replay of what it skipped ends at a record that exists.

    Args:
        recorded: The shard in the table. The search ends at the time up to which a run has read it.
        turns: Those of `of_each`.

    Raises what `read_target` raises.
    """
    now = summary.service_time
    oldest = summary.oldest_kept
    end = max(oldest, recorded.complete_until or oldest)
    age = SETTLED
    while True:
        position = Position.at_timestamp(now - age)
        first = await _first_record(client, shard, position, turns)
        if first is not None or now - age <= end:
            return Target(position, first, None, await first_unread(client, shard, recorded.position, turns))
        age *= 2


async def first_unread(
    client: StreamClient, shard: Shard, position: Position, turns: Turns
) -> FirstRecord | None:
    """Return the first record from a position on, by three reads, because two responses may omit records."""
    found = [await _first_record(client, shard, position, turns) for _ in range(3)]
    return min(filter(None, found), key=lambda record: int(record.sequence_number), default=None)
