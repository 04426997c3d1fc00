"""The checks of a stream's shards, computed from the positions in the table.

How long shards have been unread: remembered from tick to tick where the positions do not show it. The
positions store when a shard was last read to its tip, but not when a shard that is behind was last read,
nor when a shard that was never read could have been.
"""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.results import CheckResult, counted, duration, worst
from kinesis_assets.ingest.idle_shards import is_behind, lag_of, longest_wait, time_to_loss
from kinesis_assets.kinesis.stream import unfinished_parents

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping
    from datetime import datetime

    from kinesis_assets.dagster.settings.check_settings import EveryShardReadCheck, LagCheck, TimeToLossCheck
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.table.positions.positions import ShardPosition


_HOUR = timedelta(hours=1)

_TIME_TO_READ = _HOUR
"""The time in which an idle shard is read whose next read is due. Its run may have to wait for others."""


def check_lag(check: LagCheck, of_shards: Mapping[str, timedelta | None]) -> CheckResult:
    """Check that no shard is late, by what `lags` returns."""
    known = sorted(
        ((lag.total_seconds(), shard_id) for shard_id, lag in of_shards.items() if lag is not None),
        reverse=True,
    )
    late = [(seconds, shard_id) for seconds, shard_id in known if seconds > check.max_seconds]
    bound = duration(check.max_seconds)
    if late:
        seconds, shard_id = late[0]
        description = (
            f"{counted(len(late), 'shard')} may have unread records that are older than {bound}: {shard_id} "
            f"for {duration(seconds)}. See whether runs fail, or read too little"
        )
    else:
        description = f"no shard has unread records that are older than {bound}"
    rows = [{"shard": shard_id, "lag": duration(seconds)} for seconds, shard_id in late or known if seconds]
    facts = {
        "worst lag (s)": round(known[0][0], 1) if known else 0.0,
        "late shards": len(late),
        **worst(rows),
        "shards with unknown lag": len(of_shards) - len(known),
    }
    return CheckResult("lag", not late, check.severity, description, facts)


def check_time_to_loss(
    check: TimeToLossCheck,
    shards: Mapping[str, ShardPosition],
    now: datetime,
    to_fill: Mapping[str, Collection[Gap]] = MappingProxyType({}),
) -> CheckResult:
    """Check that no record that is still to be read expires soon.

    Args:
        shards: The shards. Records expire in those that wait for their parents, too.
        to_fill: What catch-ups have skipped and are still to add, by shard id.
    """
    times = {
        shard_id: time_to_loss(shard, now, to_fill.get(shard_id, ()))
        for shard_id, shard in shards.items()
        if not shard.finished or shard_id in to_fill
    }
    known = sorted((time / _HOUR, shard_id) for shard_id, time in times.items() if time is not None)
    soon = [(hours, shard_id) for hours, shard_id in known if hours < check.min_hours]
    bound = duration(check.min_hours * 3600)
    if soon:
        hours, shard_id = soon[0]
        loss = f"in {duration(hours * 3600)}" if hours > 0 else "already"
        skipped = any(shard_id in to_fill for _, shard_id in soon)
        description = (
            f"unread records of {counted(len(soon), 'shard')} may expire in less than {bound}: those of "
            f"{shard_id} {loss}. Run these shards now"
            + (", and the catch-up again, which continues where it ended" if skipped else "")
            + ". If that fails, increase the stream's retention: it then keeps the records until a run can "
            "read them, which this check waits for"
        )
    else:
        description = f"no unread record expires in less than {bound}"
    rows = [
        {"shard": shard_id, "time to loss": duration(max(0.0, hours) * 3600)}
        for hours, shard_id in soon or known
    ]
    facts = {
        **({"least time to loss (h)": round(max(0.0, known[0][0]), 2)} if known else {}),
        "shards at risk": len(soon),
        **worst(rows),
        "shards with unknown time": len(times) - len(known),
    }
    return CheckResult("time_to_loss", not soon, check.severity, description, facts)


def check_every_shard_read(
    check: EveryShardReadCheck,
    shards: Mapping[str, ShardPosition],
    unread: Mapping[str, Unread],
    now: datetime,
    *,
    failing: Mapping[str, str],
    waiting: Mapping[str, float],
    idle: timedelta,
) -> CheckResult:
    """Check that every shard that can be read was read recently, and did not fail.

    Args:
        failing: The shards that failed in their last run, with a sentence about it.
        waiting: What `waiting_shards` returns.
        idle: The longest time by the settings from one read to the next of a shard without new records.
    """
    times = unread_for(shards, unread, now)
    oldest = sorted(((time, shard_id) for shard_id, time in times.items()), reverse=True)
    within = timedelta(hours=check.within_hours)
    bounds = dict.fromkeys(times, within)
    for shard_id in times.keys() - unread.keys():
        longest = longest_wait(shards[shard_id], idle) + _TIME_TO_READ
        if shard_id in waiting:  # it is idle no more
            idle_for = times[shard_id] - timedelta(seconds=now.timestamp() - waiting[shard_id])
            longest = min(longest, idle_for + within)
        bounds[shard_id] = max(within, longest)
    missed = {shard_id: time for time, shard_id in oldest if time > bounds[shard_id]}
    failed = {shard_id: reason for shard_id, reason in failing.items() if shard_id in shards}
    if failed:
        description = (
            f"{len(failed)} of {counted(len(times), 'shard')} failed when last read, the first is "
            f"{min(failed.values())}"
        )
    elif missed:
        shard_id, time = next(iter(missed.items()))
        bound = duration(min(bounds[shard_id] for shard_id in missed).total_seconds())
        description = (
            f"{len(missed)} of {counted(len(times), 'shard')} were not read for more than {bound}: "
            f"{shard_id} for {duration(time.total_seconds())}. See whether the sensor requests runs, and "
            "whether they fail"
        )
    else:
        bound = duration(max(bounds.values(), default=within).total_seconds())
        description = f"every shard that can be read was read in the last {bound}"
    rows = [
        {"shard": key, "not read for": duration(time.total_seconds()), "failure": failed.get(key, "")}
        for time, key in oldest
        if key in missed or key in failed
    ]
    facts = {
        "readable shards": len(times),
        "unread shards": len(missed),
        "failing shards": len(failed),
        **worst(rows),
    }
    return CheckResult("every_shard_read", not (missed or failed), check.severity, description, facts)


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
    """Return by shard id for how long it was not read, of the shards that can be read."""
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
        waiting: What `waiting_shards` returns.
        idle: The longest time by the settings from one read to the next of a shard without new records.
    """
    return {
        shard_id: lag_of(shard, now, waiting_since=waiting.get(shard_id), idle=longest_wait(shard, idle))
        for shard_id, shard in shards.items()
    }


def waiting_shards(before: Mapping[str, float], waiting: Iterable[str], now: datetime) -> dict[str, float]:
    """Return by shard id since when some shards wait to be read, in seconds since the epoch.

    `before` is what this returned at the previous tick.
    """
    time = now.timestamp()
    return {shard_id: min(before.get(shard_id, time), time) for shard_id in waiting}


def latest_time(shards: Mapping[str, ShardPosition], *clocks: datetime) -> datetime:
    """Return the latest of some clocks and of the times that the table records.

    Each clock may be behind, and shards must not appear to be read for that reason.
    """
    return max(*clocks, *(shard.tip_time for shard in shards.values() if shard.tip_time is not None))
