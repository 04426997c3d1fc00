"""What a position says about unread records: how old they may be, and when an idle shard is read again.

All times are those of the service's clock, which also wrote the positions.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.data_loss import has_unread_rest
from kinesis_assets.kinesis.stream import CLOCK_STEP, SHORTEST_RETENTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.table.positions.positions import ShardPosition

SHORTEST_WAIT = timedelta(minutes=1)
"""The shortest wait from one read that found nothing to the next."""

TIP_REFRESH = timedelta(hours=1)
"""An idle shard's tip time is committed again at this age, well within the shortest retention of 24 h."""

_FRACTION_OF_RETENTION = 1 / 6
"""The part of the retention within which each shard is read, whatever the setting says."""


def is_behind(shard: ShardPosition) -> bool:
    """Return whether a shard may have unread records since its last read, which did not reach the tip."""
    if shard.tip_time is None or has_unread_rest(shard.position, shard.gaps[-1] if shard.gaps else None):
        return True
    return shard.last_arrival is not None and shard.last_arrival > shard.tip_time + CLOCK_STEP


def lag_of(
    shard: ShardPosition,
    now: datetime,
    *,
    waiting_since: float | None = None,
    idle: timedelta = timedelta(0),
) -> timedelta | None:
    """Return the lag of a shard: the maximum age of its oldest unread record; None if it is unknown.

    Events, metrics, checks and the command line all have it from here. A shard that was read to its tip has
    no unread record until something shows that it has, or until its next read is overdue.

    Args:
        waiting_since: Since when it is known to have unread records although it was read to its tip, or its
            runs fail, in seconds since the epoch; None if that is not so.
        idle: The longest time from one read to the next of a shard without new records. Pass zero, if a run
            has just read the shard, or has failed to.
    """
    if shard.complete_until is None:
        return None
    if is_behind(shard):
        lag = now - shard.complete_until
    elif waiting_since is not None:
        lag = timedelta(seconds=now.timestamp() - waiting_since)
    else:
        lag = now - shard.complete_until - idle
    return max(lag, timedelta())


def loss_time(shard: ShardPosition, to_fill: Iterable[Gap] = ()) -> datetime | None:
    """Return when the first record that is still to be read may expire; None if it is unknown.

    An unknown retention counts as the shortest one. Of a shard that no run has read, the records count that
    arrived since it was first planned or listed: nobody knows how old the others are.

    Args:
        to_fill: What a catch-up has skipped and is still to add, see `ranges_to_fill`.
    """
    hours = shard.retention_hours
    retention = SHORTEST_RETENTION if hours is None else timedelta(hours=hours)
    since = [gap.since for gap in to_fill] + ([] if shard.finished else [shard.complete_until])
    return min((time + retention for time in since if time is not None), default=None)


def time_to_loss(shard: ShardPosition, now: datetime, to_fill: Iterable[Gap] = ()) -> timedelta | None:
    """Return the time until `loss_time`, which is negative if it is over; None if it is unknown."""
    loss = loss_time(shard, to_fill)
    return None if loss is None else loss - now


def loss_times(
    shards: Mapping[str, ShardPosition], to_fill: Mapping[str, Iterable[Gap]]
) -> dict[str, datetime]:
    """Return the `loss_time` of each shard of which it is known."""
    times = {shard_id: loss_time(shard, to_fill.get(shard_id, ())) for shard_id, shard in shards.items()}
    return {shard_id: time for shard_id, time in times.items() if time is not None}


def safe_until(shard: ShardPosition, to_fill: Iterable[Gap] = ()) -> datetime | None:
    """Return the time before which no record can expire that is still to be read, see `loss_time`.

    None if it is unknown, or if nothing is to be read.
    """
    hours = shard.retention_hours
    times = [] if shard.finished else [shard.safe_until]
    times += [
        None if gap.since is None or hours is None else gap.since + timedelta(hours=hours) for gap in to_fill
    ]
    return None if None in times else min((time for time in times if time is not None), default=None)


def longest_wait(shard: ShardPosition, max_idle: timedelta) -> timedelta:
    """Return the maximum time from one read of a shard to the next, of which the settings set a maximum."""
    if shard.retention_hours is None:
        return max_idle
    return min(max_idle, timedelta(hours=shard.retention_hours) * _FRACTION_OF_RETENTION)


def wait_after_empty_read(shard: ShardPosition, longest: timedelta) -> timedelta:
    """Return the time from the last read to its tip to the next, if nothing else shows whether it is due.

    It is as long as the shard had been quiet at its last read, so each wait is about twice the one before.
    """
    since = shard.last_arrival or shard.wanted_from
    quiet = shard.tip_time - since if since is not None and shard.tip_time is not None else timedelta(0)
    return min(longest, max(quiet, SHORTEST_WAIT))


def time_since_read(shard: ShardPosition, now: datetime) -> timedelta:
    """Return the time from the last read of a shard to its tip until now, even if now is the earlier one."""
    return timedelta.max if shard.tip_time is None else abs(now - shard.tip_time)
