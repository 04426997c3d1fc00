"""Where another consumer is in the shards that it stores, and the start of each shard that follows from it.

These rules apply to a listed shard that the consumer does not store:

- It is finished if one of its descendants is stored. Consumers delete what they stored of a shard once its
  children are being read, and wait for no parent that they do not store.
- It starts at TRIM_HORIZON if a parent of it is listed or stored: its records follow those of its parents.
- Otherwise the consumer may have read any of its records, so its start must be given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.settings import PageSizes
from kinesis_assets.kinesis.stream import ancestors

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kinesis_assets.kinesis.stream import Shard, StreamListing

_GIVEN = "the consumer stores no position that is fixed in time: starts at the given one"


@dataclass(frozen=True, slots=True)
class ConsumerShard:
    """Where another consumer is in a shard.

    Attributes:
        source: Where it stores this, such as "lease shardId-000000000000".
        position: The position at which the consumer would go on; None if it has none that is fixed in time.
        ended: It has read the shard to its end.
        hash_range: The hash range that it stores; None if it stores none.
    """

    source: str
    stored: str
    position: Position | None
    ended: bool = False
    hash_range: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a shard.

    Attributes:
        position: The position; None if the consumer has read the shard to its end.
        reason: Why, if it is not what the consumer stores.
    """

    position: Position | None
    reason: str | None = None


def starts_of(
    listing: StreamListing, consumer: Mapping[str, ConsumerShard], default: Position | None
) -> tuple[dict[str, Start], dict[str, str]]:
    """Return the start of each listed shard, and why a shard has none, by shard id.

    Args:
        consumer: Where the consumer is, by shard id.
        default: The start of shards for which it has no position; None to refuse them.
    """
    continued = ancestors(listing.shards, consumer)
    listed = {shard.shard_id for shard in listing.shards}
    starts, refused = {}, {}
    for shard in listing.shards:
        stored = consumer.get(shard.shard_id)
        found = (
            _start_of_unstored(shard, default, known=listed | consumer.keys(), continued=continued)
            if stored is None
            else _start(shard, stored, default)
        )
        if isinstance(found, str):
            refused[shard.shard_id] = found
        else:
            starts[shard.shard_id] = found
    return starts, refused


def _start_of_unstored(
    shard: Shard, default: Position | None, *, known: set[str], continued: set[str]
) -> Start | str:
    if shard.shard_id in continued:
        reason = "not stored, but a shard that was split or merged from it is: the consumer is done with it"
        return Start(None, reason)
    if not known.isdisjoint(shard.parents):
        return Start(Position(PositionKind.TRIM_HORIZON), "not stored: the consumer has not begun to read it")
    if default is not None:
        return Start(default, _GIVEN)
    return (
        "the consumer stores nothing about it, nor about a parent, so it is unknown which of its records it "
        "has read. Give the start of such shards with --default"
    )


def _start(shard: Shard, stored: ConsumerShard, default: Position | None) -> Start | str:
    """Return the start of a shard that the consumer stores, or why it has none."""
    if reason := mismatch(shard, stored):
        return reason
    if stored.ended:
        return Start(None)
    if stored.position is not None:
        return Start(stored.position)
    if default is not None:
        return Start(default, _GIVEN)
    return (
        f"{stored.source} is at {stored.stored}, whose time is not stored. Give the start of such shards "
        "with --default"
    )


def mismatch(shard: Shard, stored: ConsumerShard) -> str | None:
    """Return why what a consumer stores is not about a shard; None if it may be."""
    if stored.hash_range not in {None, shard.hash_range}:
        return (
            f"{stored.source} has the hash range {'-'.join(stored.hash_range or ())}, but the stream lists "
            f"{'-'.join(shard.hash_range)}: it is that of another stream. Correct the stream or the name of "
            "the lease table"
        )
    if stored.ended and not shard.closed:
        return (
            f"{stored.source} says that it was read to its end, but the stream lists it as open. If that "
            "persists, it is the shard of an older stream with this name"
        )
    number = None if stored.position is None else stored.position.sequence_number
    if number is not None and int(number) < int(shard.starting_sequence_number):
        return (
            f"{stored.source} is at {number}, which is before the shard's first sequence number "
            f"{shard.starting_sequence_number}: it is that of another stream, or of an older stream of this "
            "name. Correct the stream or the name of the lease table"
        )
    return None


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """A record of a shard with all its sub-records.

    Attributes:
        last_sub: The sub-sequence number of its last sub-record; 0 if it is no aggregate.
    """

    last_sub: int
    arrival: datetime


class RecordReader:
    """Reads single records of a stream by their sequence numbers."""

    def __init__(self, client: StreamClient) -> None:
        settings = replace(client.settings, page_sizes=PageSizes(page=1, smallest_request=1))
        self._client = StreamClient(str(client.address), settings)

    def at(self, shard: Shard, sequence_number: str) -> WholeRecord | None:
        """Return a record; None if it cannot be read, for example because it has expired.

        Raises:
            ShardError: The shard cannot be read.
        """
        start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=sequence_number)
        range_ = ShardRange(shard.shard_id, start, Bounds(), hash_range=None, closed=shard.closed)
        found = None
        for records in ShardReading(self._client, range_):
            own = [record for record in records if record.sequence_number == sequence_number]
            if own:
                found = WholeRecord(own[-1].sub_sequence_number, own[-1].arrival)
            if len(own) < len(records) or not records.continued:
                break
        return found
