"""How long shards have been unread: remembered from tick to tick where the positions do not show it.

The positions store when a shard was last read to its tip, but not when a shard that is behind was last read,
nor when a shard that was never read could have been.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.ingest.idle_shards import is_behind, lag_of, longest_wait
from kinesis_assets.kinesis.shards import unfinished_parents

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping
    from datetime import datetime

    from kinesis_assets.table.positions.positions import ShardPosition

_REMEMBERED = timedelta(days=1).total_seconds()
"""Seconds for which a shard is remembered that no list and no commit names any more. A stale list must not
make it unknown how long the shard is unread."""


class Unread(msgspec.Struct, frozen=True, array_like=True):
    """A shard that is not known to be read to its tip.

    Attributes:
        seen_until: Its `ShardPosition.seen_until`, in seconds since the epoch; None if it was never read.
        since: When this was first found, in seconds since the epoch.
        found: When the shard was last listed or recorded, in seconds since the epoch.
    """

    seen_until: float | None
    since: float
    found: float


def readable(shards: Mapping[str, ShardPosition]) -> dict[str, ShardPosition]:
    """Return the shards that a run can read: neither finished nor waiting for their parents."""
    finished = {shard_id for shard_id, shard in shards.items() if shard.finished}
    return {
        shard_id: shard
        for shard_id, shard in shards.items()
        if not shard.finished and not unfinished_parents(shard.parents, known=shards, finished=finished)
    }


def unread_shards(
    before: Mapping[str, Unread],
    shards: Mapping[str, ShardPosition],
    now: datetime,
    *,
    finished: Container[str],
) -> dict[str, Unread]:
    """Return the shards that are not known to be read to their tip, with the time since when.

    Args:
        before: What this returned at the previous tick.
        shards: The shards that can be read.
        now: The time.
        finished: The shards that were read to their end.
    """
    time = now.timestamp()
    found = {
        shard_id: entry
        for shard_id, entry in before.items()
        if shard_id not in shards and shard_id not in finished and time - entry.found < _REMEMBERED
    }
    for shard_id, shard in shards.items():
        if not is_behind(shard):
            continue
        seen_until = None if shard.seen_until is None else shard.seen_until.timestamp()
        known = before.get(shard_id)
        unchanged = known is not None and known.seen_until == seen_until
        # A clock that was ahead at the first tick must not hide the shard.
        since = min(known.since, time) if known is not None and unchanged else time
        found[shard_id] = Unread(seen_until, since, time)
    return found


def unread_for(
    shards: Mapping[str, ShardPosition], unread: Mapping[str, Unread], now: datetime
) -> dict[str, timedelta]:
    """Return by shard id for how long it was not read.

    Args:
        shards: The shards that can be read.
        unread: What `unread_shards` returned for them.
        now: The time.
    """
    found = {
        shard_id: now - shard.tip_time
        for shard_id, shard in shards.items()
        if shard.tip_time is not None and shard_id not in unread
    }
    return found | {
        shard_id: timedelta(seconds=now.timestamp() - entry.since) for shard_id, entry in unread.items()
    }


def lags(
    shards: Mapping[str, ShardPosition], now: datetime, *, waiting: Mapping[str, float], idle: timedelta
) -> dict[str, timedelta | None]:
    """Return by shard id what `lag_of` returns.

    Args:
        shards: The shards that can be read.
        now: The time.
        waiting: Since when shards at their tip wait to be read, see `waiting_shards`.
        idle: The longest time by the settings from one read to the next of a shard without new records.
    """
    return {
        shard_id: lag_of(shard, now, waiting_since=waiting.get(shard_id), idle=longest_wait(shard, idle))
        for shard_id, shard in shards.items()
    }


def waiting_shards(before: Mapping[str, float], waiting: Iterable[str], now: datetime) -> dict[str, float]:
    """Return by shard id since when some shards wait to be read, in seconds since the epoch.

    Args:
        before: What this returned at the previous tick.
        waiting: The shards that wait now.
        now: The time.
    """
    time = now.timestamp()
    return {shard_id: min(before.get(shard_id, time), time) for shard_id in waiting}


def latest_time(shards: Mapping[str, ShardPosition], *clocks: datetime) -> datetime:
    """Return the latest of some clocks and of the times that the table records.

    Each clock may be behind, and shards must not appear to be read for that reason.

    Args:
        shards: The shards.
        clocks: The times of the clocks.
    """
    return max(*clocks, *(shard.tip_time for shard in shards.values() if shard.tip_time is not None))
