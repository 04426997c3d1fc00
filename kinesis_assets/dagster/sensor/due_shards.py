"""Which shards a tick of the sensor requests, and in which runs: those that may have unread records.

A shard that was read to its tip is probed. It is requested if the probe finds something, and otherwise only
after the longest wait, in case the service was wrong. If the service does not answer, or if it repeats what
a run did not confirm, each wait is about twice the one before.

An idle run passes over finished shards, so that it can be one run over one range of partitions. After splits
and merges, the open shards of a stream are not contiguous in Dagster's order, and each of their ranges would
have an idle run of its own. A finished shard costs a run no call, and is not reported.
"""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.partition_ranges import (
    PARTITION_TAG,
    SHARD_TAG,
    continuous_run_tags,
    range_tags,
    reporting_news,
)
from kinesis_assets.ingest.idle_shards import is_behind, longest_wait, time_since_read, wait_after_empty_read
from kinesis_assets.ingest.plan import stored_positions
from kinesis_assets.kinesis.position import may_return
from kinesis_assets.kinesis.reading.probes import SHARD_END, Probe, Prober

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kinesis_assets.dagster.sensor.sensor_runs import EndedRun
    from kinesis_assets.dagster.stream import ListedShards, OpenStream
    from kinesis_assets.errors import StreamError
    from kinesis_assets.table.positions.positions import ShardPosition


_SECONDS = 10.0
"""The time for the probes of a tick, because a tick must end within a minute."""

_LARGEST_BATCH = 64


class Signal(msgspec.Struct, frozen=True, array_like=True):
    """The finding of a probe in a shard, for which a run was requested.

    Attributes:
        found: See `Prober.probe`.
        refuted: Whether a run ended without an error since, although the position has not passed it.
    """

    found: str
    refuted: bool = False


class DueShards:
    """The shards of one tick that are due.

    Args:
        failing: The shards whose last run failed. They are due once they no longer wait.

    Attributes:
        signals: The signals for the next tick.
    """

    def __init__(
        self,
        opened: OpenStream,
        listed: ListedShards,
        *,
        signals: Mapping[str, Signal],
        ended: Iterable[EndedRun],
        failing: Collection[str],
    ) -> None:
        settings, listing, shards = opened.settings, listed.listing, listed.shards
        # A run may have used up its allowance before it read a shard, and succeeded.
        allowances = (settings.max_run_records, settings.max_run_bytes, settings.max_run_seconds)
        has_read_all = all(allowance is None for allowance in allowances)
        read = {shard_id for run in ended for shard_id in run.materialized if has_read_all}
        self.signals = {
            shard_id: Signal(signal.found, refuted=signal.refuted or shard_id in read)
            for shard_id, signal in signals.items()
            if shard_id in shards and not _is_done(shards[shard_id], signal)
        }
        self._opened = opened
        self._listing = listing
        self._now = listing.summary.service_time
        self._max_idle = timedelta(seconds=opened.settings.max_idle_seconds)
        self._shards = shards
        self._failing = failing
        # Of other shards a run must find out what has become of them.
        self._open = {shard.shard_id for shard in listing.shards if not shard.closed}
        self._prober = Prober(opened.client, _SECONDS)

    @property
    def error(self) -> StreamError | None:
        """Why some shards could not be probed; None if all probes succeeded."""
        return self._prober.error

    def within(self, ranges: Iterable[Sequence[str]], most: int) -> list[Sequence[str]]:
        """Return the part of each range from its first to its last due shard.

        The shards between are read too: that costs as much as a probe, and is one run instead of several.

        Args:
            ranges: The ranges. Those without a due shard are left out.
            most: The maximum number of ranges to return. The ranges after them are not probed.
        """
        ranges = list(ranges)
        shard_ids = {shard_id for range_ in ranges for shard_id in range_}
        overdue = {*filter(self._is_unknown, shard_ids), *self.waited(shard_ids)}  # without a probe
        due = islice(filter(None, (self._due_part(range_, overdue) for range_ in ranges)), most)
        return list(due)

    def _due_part(self, range_: Sequence[str], overdue: Collection[str]) -> Sequence[str]:
        known = [index for index, shard_id in enumerate(range_) if shard_id in overdue]
        first = self._first(range_[: known[0]] if known else range_)
        if first is None and not known:
            return []
        start = known[0] if first is None else first
        end = max([start, *known]) + 1
        last = self._first(range_[: end - 1 : -1])
        return range_[start : end if last is None else len(range_) - last]

    def _is_unknown(self, shard_id: str) -> bool:
        """Whether a shard is not idle, as far as is known."""
        if shard_id not in self._open or shard_id in self._failing:
            return True
        return is_behind(self._shards[shard_id])

    def waited(self, shard_ids: Iterable[str]) -> set[str]:
        """Return the idle shards whose time has come; if there are any, also those past half of it.

        All of them are read in the same run.
        """
        waited = {
            shard_id: time_since_read(shard, self._now) / longest_wait(shard, self._max_idle)
            for shard_id in shard_ids
            if not self._is_unknown(shard_id)
            for shard in (self._shards[shard_id],)
        }
        if max(waited.values(), default=0.0) < 1:
            return set()
        return {shard_id for shard_id, part in waited.items() if part >= 1 / 2}

    def finished_between(self, keys: Sequence[str], waited: Collection[str]) -> set[str]:
        """Return the finished shards that lie between two due idle ones, with no other shard between these.

        The archived positions are read if there may be some of these shards among them.

        Args:
            keys: The newest partitions in Dagster's order.

        Raises what `plan.stored_positions` raises.
        """
        due = [index for index, shard_id in enumerate(keys) if shard_id in waited]
        if not due:
            return set()
        opened, shards = self._opened, self._shards
        between = keys[due[0] : due[-1] + 1]
        archived = [shard_id for shard_id in between if shard_id not in shards]
        if archived:
            on_recreated = opened.policy.on_recreated
            _, positions = stored_positions(opened.table, self._listing, on_recreated, archived)
            if positions is not None and positions.identity == self._listing.summary.identity:
                shards = {**positions.shards, **shards}
        passed: set[str] = set()
        gap: list[str] | None = None  # the finished shards since the last due one; None after any other shard
        for shard_id in between:
            if shard_id in waited:
                passed.update(gap or ())
                gap = []
            elif gap is not None and shard_id in shards and shards[shard_id].finished:
                gap.append(shard_id)
            else:
                gap = None
        return passed

    def _first(self, shard_ids: Sequence[str]) -> int | None:
        """Return the index of the first due shard, by probes. Few are made if that is one of the first."""
        start, size = 0, 1
        while start < len(shard_ids):
            batch = shard_ids[start : start + size]
            found = self._prober.probe(map(self._probe, batch))
            for index, shard_id in enumerate(batch):
                if self._is_due(shard_id, found):
                    return start + index
            start, size = start + size, min(2 * size, _LARGEST_BATCH)
        return None

    def _probe(self, shard_id: str) -> Probe:
        shard = self._shards[shard_id]
        return Probe(shard_id, shard.position, shard.tip_time or self._now, shard.last_arrival)

    def _is_due(self, shard_id: str, found: Mapping[str, str | None]) -> bool:
        if shard_id in found:
            signal, before = found[shard_id], self.signals.pop(shard_id, None)
            if signal is None:
                return False
            if before is None or not before.refuted or before.found != signal:
                self.signals[shard_id] = Signal(signal)
                return True
            self.signals[shard_id] = before
        shard = self._shards[shard_id]
        wait = wait_after_empty_read(shard, longest_wait(shard, self._max_idle))
        return time_since_read(shard, self._now) >= wait


def _is_done(shard: ShardPosition, signal: Signal) -> bool:
    """Whether a shard's position has passed what a signal is about."""
    if shard.finished or signal.found == SHARD_END:
        return shard.finished
    return not may_return(shard.position, signal.found)


RUNS_PER_TICK = 3
"""The maximum number of runs that a tick requests."""


def in_turn(ranges: Sequence[Sequence[str]], keys: Sequence[str], last: str | None) -> list[Sequence[str]]:
    """Return the ranges, first those that come after the last requested shard in Dagster's order."""
    if last not in keys:
        return list(ranges)
    after = set(keys[keys.index(last) + 1 :])
    return sorted(ranges, key=lambda range_: range_[0] not in after)


def run_requests(
    opened: OpenStream,
    ranges: Sequence[Sequence[str]],
    blocked: Collection[str],
    failing: Collection[str],
    derived: Collection[dg.AssetKey],
) -> list[dg.RunRequest]:
    """Return the request of a run over each range.

    Args:
        blocked: The shards whose single partitions runs that are over may block in Dagster's queue, see
            `continuous_run_tags`.
        failing: The shards whose last run failed. Dagster shows them as failed until they are reported.
        derived: The derived tables that the first run includes.
    """
    # There is no run key, because the key of a failed run would block its shards forever.
    return [
        dg.RunRequest(
            asset_selection=[opened.names.raw_key, *(() if number else derived)],
            asset_check_keys=[],  # by default the run would also execute the checks of these assets
            tags=_tags(opened, range_, blocked, failing),
        )
        for number, range_ in enumerate(ranges)
    ]


def _tags(
    opened: OpenStream, range_: Sequence[str], blocked: Collection[str], failing: Collection[str]
) -> dict[str, str]:
    """Return the tags of the run that is requested over a range."""
    if opened.settings.follow_for is not None:
        return continuous_run_tags(range_, opened.settings.follow_for, opened.handover)
    tags = range_tags(range_, as_range=not set(range_).isdisjoint(blocked))
    if PARTITION_TAG in tags:
        tags[SHARD_TAG] = f"{opened.names.partitions_name}/{tags[PARTITION_TAG]}"
    return reporting_news(tags) if set(range_).isdisjoint(failing) else tags
