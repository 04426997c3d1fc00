"""Shards and their lineage."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.kinesis.position import NUMBER, Position

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
"""The names of streams and of shards (AWS API reference, CreateStream and Shard)."""

SHORTEST_RETENTION = timedelta(hours=24)
"""The minimum retention of a stream (AWS API reference, DecreaseStreamRetentionPeriod). A younger record
cannot have expired, even if the retention was increased later."""

_HASH_KEYS = 1 << 128

ALL_HASH_KEYS = ("0", str(_HASH_KEYS - 1))
"""The first and the last hash key of a stream; of a shard, if its own are not known."""


class Shard(msgspec.Struct, frozen=True):
    """A shard as ListShards returns it.

    Attributes:
        parents: The ids of the shards that were split or merged into this one: none, one or two.
        hash_range: The first and last hash key, both inclusive, as decimal text (they have 128 bits).
        starting_sequence_number: The lower bound of the shard's sequence numbers, as decimal text.
        closed: Whether it accepts no more records, because it was split or merged.
        ending_sequence_number: The EndingSequenceNumber of a closed shard, as decimal text. It may be smaller
            or larger than the number of the last record; it only serves to recognize a position at the end.
    """

    shard_id: str
    parents: tuple[str, ...]
    hash_range: tuple[str, str]
    starting_sequence_number: str
    closed: bool = False
    ending_sequence_number: str | None = None

    def ends_at(self, position: Position) -> bool:
        """Whether a position of another consumer means that it has read this shard to its end."""
        return self.ending_sequence_number is not None and position == Position.after(
            self.ending_sequence_number
        )


def is_well_formed(shard: Shard) -> bool:
    """Whether a shard's names and numbers have the form that the service documents."""

    def all_match(pattern: re.Pattern[str], *values: Any) -> bool:
        return all(isinstance(value, str) and pattern.fullmatch(value) for value in values)

    numbers = (*shard.hash_range, shard.starting_sequence_number, shard.ending_sequence_number or "0")
    return all_match(NAME, shard.shard_id, *shard.parents) and all_match(NUMBER, *numbers)


def in_lineage_order(shards: Iterable[Shard]) -> list[Shard]:
    """Sort shards by their starting sequence number and id, which puts parents before children."""
    # A child is created after its parents were closed, so its start is above all of their numbers.
    return sorted(shards, key=lambda shard: (int(shard.starting_sequence_number), shard.shard_id))


def ancestors(shards: Iterable[Shard], of: Iterable[str]) -> set[str]:
    """Return the ids of the shards from which some of the listed shards were split or merged, at any time."""
    parents = {shard.shard_id: shard.parents for shard in shards}
    pending = [shard_id for shard_id in of if shard_id in parents]
    found: set[str] = set()
    while pending:
        for parent in parents.get(pending.pop(), ()):
            if parent not in found:
                found.add(parent)
                pending.append(parent)
    return found


def covers_all_hash_keys(shards: Iterable[Shard]) -> bool:
    """Whether the open shards cover every hash key, as those of a stream always do.

    Source: https://docs.aws.amazon.com/streams/latest/dev/key-concepts.html (partition keys map to 128 bits)
    """
    ranges = sorted(tuple(map(int, shard.hash_range)) for shard in shards if not shard.closed)
    following = 0
    for first, last in ranges:
        if first > following:
            return False
        following = max(following, last + 1)
    return following == _HASH_KEYS


def unfinished_parents(
    parents: Iterable[str], *, known: Container[str], finished: Container[str]
) -> tuple[str, ...]:
    """Return the parents that must be read to their end before their child.

    Args:
        known: The id of every shard that is listed now or was ever recorded. A parent that is not among them
            was trimmed before the stream was first listed, so its child does not wait for it.
        finished: The ids of the shards that have been read to their end.
    """
    return tuple(parent for parent in parents if parent in known and parent not in finished)
