"""What a stream shows of a shard at a position, without reading on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.shards import Shard
    from kinesis_assets.kinesis.stream import StreamSummary

TIME_TO_READ = timedelta(hours=1)
"""A record that expires sooner does not count as there: the next run might find it gone."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A record that can be read.

    Attributes:
        sequence_number: Its number.
        arrival: When it arrived, UTC.
    """

    sequence_number: str
    arrival: datetime

    def __str__(self) -> str:
        return f"{self.sequence_number}, {self.arrival:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is of one shard.

    Attributes:
        target: A position; TRIM_HORIZON stands for that of `oldest`.
        first: The first record from there on; None if there is none.
        oldest: The oldest record that is there for longer than `TIME_TO_READ`; None if there is none.
    """

    target: Position
    first: Seen | None
    oldest: Seen | None


def look_at(client: StreamClient, shard: Shard, summary: StreamSummary, target: Position) -> Sight:
    """Look at a shard: two short reads.

    Args:
        client: The stream.
        shard: The shard, listed.
        summary: The stream's retention and clock.
        target: Where to look; not LATEST.

    Raises:
        ReadFailed: A call failed after bounded tries.
        ShardStalled: Neither a record nor the tip came.
    """
    horizon = summary.service_time - timedelta(hours=summary.retention_hours) + TIME_TO_READ
    beginning = Position(PositionKind.TRIM_HORIZON)
    if horizon > summary.identity.created:
        beginning = Position.at_timestamp(horizon)
    oldest = _first(client, shard, beginning)
    first = oldest if target.kind is PositionKind.TRIM_HORIZON else _first(client, shard, target)
    return Sight(target, first, oldest)


def _first(client: StreamClient, shard: Shard, position: Position) -> Seen | None:
    range_ = ShardRange(
        shard.shard_id, position, Bounds(max_records=1), shard.hash_range, closed=shard.closed
    )
    found = next(iter(ShardReading(client, range_)), None)
    return None if found is None else Seen(found[0].sequence_number, found[0].arrival)
