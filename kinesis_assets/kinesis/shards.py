"""Shards and how they descend from each other."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from datetime import datetime

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
"""Names of streams and of shards (AWS API reference, CreateStream and Shard)."""

LONGEST_NUMBER = 129
"""Digits of a `NUMBER`, at most."""

NUMBER = re.compile(f"0|[1-9][0-9]{{0,{LONGEST_NUMBER - 1}}}")
"""Sequence numbers and hash keys (AWS API reference, SequenceNumberRange and HashKeyRange)."""

SHORTEST_RETENTION = timedelta(hours=24)
"""No stream has a shorter one (AWS API reference, DecreaseStreamRetentionPeriod). What is younger cannot have
expired, even if the retention was raised since."""

_HASH_KEYS = 1 << 128


class Shard(msgspec.Struct, frozen=True):
    """A shard as ListShards gives it.

    The value of its EndingSequenceNumber is left out on purpose: it may be smaller or larger than the last
    record's, so nothing can be concluded from it.

    Attributes:
        shard_id: `shardId-000000000000` and so on.
        parents: The shards it was split or merged from: none, one or two.
        hash_range: First and last hash key, both inclusive, as decimal text (they have 128 bits).
        starting_sequence_number: No record of the shard is below it. Decimal text.
        closed: It takes no more records, since it was split or merged.
    """

    shard_id: str
    parents: tuple[str, ...]
    hash_range: tuple[str, str]
    starting_sequence_number: str
    closed: bool = False


def is_well_formed(shard: Shard) -> bool:
    """Whether its names and numbers are such as the service gives: they come from outside."""

    def all_match(pattern: re.Pattern[str], *values: Any) -> bool:
        return all(isinstance(value, str) and pattern.fullmatch(value) for value in values)

    numbers = (*shard.hash_range, shard.starting_sequence_number)
    return all_match(NAME, shard.shard_id, *shard.parents) and all_match(NUMBER, *numbers)


def in_lineage_order(shards: Iterable[Shard]) -> list[Shard]:
    """Parents before children, else by the shards' start (as integers) and id."""
    # A child is created after its parents were closed, so its start is above every number of theirs.
    return sorted(shards, key=lambda shard: (int(shard.starting_sequence_number), shard.shard_id))


def covers_all_hash_keys(shards: Iterable[Shard]) -> bool:
    """Whether the open shards have every hash key between them, as those of a stream always do.

    Source: https://docs.aws.amazon.com/streams/latest/dev/key-concepts.html (partition keys map to 128 bits)
    """
    ranges = sorted(tuple(map(int, shard.hash_range)) for shard in shards if not shard.closed)
    following = 0
    for first, last in ranges:
        if first > following:
            return False
        following = max(following, last + 1)
    return following == _HASH_KEYS


def missing_parents(
    shards: Sequence[Shard],
    known: Container[str],
    *,
    since: datetime,
    now: datetime,
    retention: timedelta = SHORTEST_RETENTION,
) -> list[str]:
    """The parents of new shards that a list must contain, and does not.

    A closed shard stays listed for a retention. So a parent cannot be missing while no shard that was opened
    unseen can have expired.

    Args:
        shards: The list.
        known: The shards that were listed before.
        since: When that was; before the first list, when the stream was created.
        now: The service's clock.
        retention: The stream's. With a longer one than the shortest, a parent may be missing because it had
            expired before the retention was raised.
    """
    if now - since >= retention:
        return []
    listed = {shard.shard_id for shard in shards}
    parents = {parent for shard in shards if shard.shard_id not in known for parent in shard.parents}
    return sorted(parent for parent in parents if parent not in listed and parent not in known)


def unfinished_parents(
    parents: Iterable[str], *, known: Container[str], finished: Container[str]
) -> tuple[str, ...]:
    """The parents that must be read to their end first.

    Args:
        parents: A shard's parents.
        known: Every shard listed now or ever recorded. A parent that is not among them was trimmed away
            before the stream was first seen: there is nothing of it to wait for.
        finished: The shards that have been read to their end.
    """
    return tuple(parent for parent in parents if parent in known and parent not in finished)
