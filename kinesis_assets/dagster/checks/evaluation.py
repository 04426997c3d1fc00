"""Evaluate the checks of a raw table that need neither a run nor a scan of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.commit_checks import (
    MAX_COMMITS,
    ContinuityProgress,
    check_continuity,
    check_no_accepted_data_loss,
    gaps_of_table,
    verify_new_commits,
)
from kinesis_assets.dagster.checks.recorded_checks import (
    LateMirror,
    check_consumer,
    check_lease_table,
    lateness,
    recorded_state,
)
from kinesis_assets.dagster.checks.shard_checks import (
    Unread,
    check_every_shard_read,
    check_lag,
    check_time_to_loss,
    lags,
    latest_time,
    readable,
    unread_shards,
    waiting_shards,
)
from kinesis_assets.dagster.checks.table_checks import (
    DAMAGED,
    BadRecords,
    FileFacts,
    check_bad_records,
    check_compaction_debt,
    count_reported,
    file_facts,
)
from kinesis_assets.ingest.idle_shards import loss_times
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.table.positions.amendments import ranges_to_fill

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    import dagster as dg

    from kinesis_assets.dagster.catalog_entries import CatalogEntries
    from kinesis_assets.dagster.checks.results import CheckResult
    from kinesis_assets.dagster.settings.check_settings import Checks
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.run_files.pause import Pause
    from kinesis_assets.table.snapshot import TableSnapshot


class ChecksProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of the checks from tick to tick. If it is lost, they count and verify from the start again.

    Attributes:
        at: Time of the last tick, in seconds since the epoch.
        unread: The shards that are not known to be read to their tip.
        waiting: Since when shards at their tip wait to be read.
        archived_gaps: The gaps of shards that may be in the archive.
        archive: The archive's newest segment when it was read; None if it was not, or was empty.
        late_mirror: Since when the lease table of the settings is late; None if it is not.
        loss: When the first unread record may expire, in seconds since the epoch; None if it is unknown.
        retention_hours: The stream's retention; None if it is unknown.
    """

    at: float | None = None
    unread: dict[str, Unread] = {}
    waiting: dict[str, float] = {}
    continuity: ContinuityProgress = ContinuityProgress()
    archived_gaps: dict[str, tuple[Gap, ...]] = {}
    archive: int | None = None
    files: FileFacts | None = None
    records: BadRecords = BadRecords()
    late_mirror: LateMirror | None = None
    loss: float | None = None
    retention_hours: int | None = None

    def unverified(self) -> ChecksProgress:
        """Return this without what can be read again, but with the breaks that were found."""
        continuity = ContinuityProgress(breaks=self.continuity.breaks)
        return ChecksProgress(self.at, self.unread, self.waiting, continuity, late_mirror=self.late_mirror)


@dataclass(frozen=True)
class TableState:
    """The newest version of a raw table with positions."""

    snapshot: TableSnapshot
    positions: StreamPositions
    amendment: Amendment | None


class Evaluation:
    """One evaluation of a stream's checks.

    Args:
        listing: The stream's shards; None if the service does not answer, and the table names the stream.
        snapshot: The newest version of the table; None if the table does not exist.
        shards: The position of each shard; None if the list is not newer than the positions in the table.
        waiting: The shards that wait to be read: their last run failed, or something arrived in them.
        failing: The shards that failed in their last run, with a sentence about it.
        entries: Registers the table in the Data Catalog; None if nothing is registered.

    Attributes:
        results: The result of each check that is defined and can be evaluated.
        progress: What is remembered for the next evaluation.
        losses: When the first record of each shard that is still to be read may expire, if known.
        lags: The lag of each shard that can be read.
        known_at: When it was last known what is unread, in seconds since the epoch: at the last tick that
            succeeded, or when all shards had been read to their tip. None if it never was.
    """

    def __init__(
        self,
        opened: OpenStream,
        instance: dg.DagsterInstance,
        listing: StreamListing | None,
        snapshot: TableSnapshot | None,
        shards: Mapping[str, ShardPosition] | None = None,
        *,
        machine_time: datetime,
        waiting: Collection[str],
        failing: Mapping[str, str],
        pause: Pause | None,
        before: ChecksProgress,
        max_commits: int = MAX_COMMITS,
        entries: CatalogEntries | None = None,
    ) -> None:
        self._opened = opened
        self._entries = entries
        self._checks: Checks = opened.checks
        state = None if snapshot is None else _state_of(snapshot, listing)
        recorded = {} if state is None else state.positions.shards
        self._shards = recorded if shards is None else shards
        hours = before.retention_hours if listing is None else listing.summary.retention_hours
        if listing is None and hours is not None:  # it may be lower than runs have recorded
            self._shards = {
                shard_id: msgspec.structs.replace(
                    shard, retention_hours=min(shard.retention_hours or hours, hours)
                )
                for shard_id, shard in recorded.items()
            }
        clocks = [machine_time] if listing is None else [machine_time, listing.summary.service_time]
        self._now = latest_time({**recorded, **self._shards}, *clocks)
        amendment = None if state is None else state.amendment
        to_fill = ranges_to_fill(amendment, self._shards)
        self._to_fill = {shard_id: gaps.values() for shard_id, gaps in to_fill.items()}
        self._readable = readable(self._shards)
        known = [time for time in (before.at, _read_at(self._readable)) if time is not None]
        self.known_at = max(known, default=None)
        if listing is None and self.known_at is not None:  # anything may have arrived since
            waiting_since = dict.fromkeys(self._readable, self.known_at)
        else:
            waiting_since = waiting_shards(before.waiting, waiting, self._now)
        self.lags = lags(self._readable, self._now, waiting=waiting_since, idle=opened.max_idle)
        self.losses = loss_times(self._shards, self._to_fill)
        self._failing = failing
        finished = {shard_id for shard_id, shard in self._shards.items() if shard.finished}
        self.progress = msgspec.structs.replace(
            before,
            at=machine_time.timestamp(),
            unread=unread_shards(before.unread, self._readable, self._now, finished=finished),
            waiting=waiting_since,
            loss=min(self.losses.values()).timestamp() if self.losses else None,
            retention_hours=hours,
        )
        self.results = [*self._of_shards()]
        if self._checks.bad_records is not None:
            records = count_reported(instance, opened.names.raw_key, before.records, machine_time.timestamp())
            self.progress = msgspec.structs.replace(self.progress, records=records)
            self.results.append(check_bad_records(self._checks.bad_records, records, DAMAGED))
        if state is not None:
            self.results += self._of_table(state, max_commits)
        if pause is not None:
            self.results = [result.while_paused(pause) for result in self.results]

    def _of_shards(self) -> Iterator[CheckResult]:
        checks, now = self._checks, self._now
        if checks.lag is not None:
            yield check_lag(checks.lag, self.lags)
        if checks.time_to_loss is not None:
            yield check_time_to_loss(checks.time_to_loss, self._shards, now, self._to_fill)
        if checks.every_shard_read is not None:
            yield check_every_shard_read(
                checks.every_shard_read,
                self._readable,
                self.progress.unread,
                now,
                failing=self._failing,
                waiting=self.progress.waiting,
                idle=self._opened.max_idle,
            )

    def _of_table(self, state: TableState, max_commits: int) -> Iterator[CheckResult]:
        checks, before = self._checks, self.progress
        if checks.continuity is not None:
            continuity = verify_new_commits(
                self._opened.table, state.positions, before.continuity, self._now, max_commits=max_commits
            )
            self.progress = msgspec.structs.replace(self.progress, continuity=continuity)
            yield check_continuity(checks.continuity, continuity)
        if checks.no_accepted_data_loss is not None:
            chain = self._opened.table.chain
            gaps, newest = gaps_of_table(chain, state.positions, before.archived_gaps, before.archive)
            self.progress = msgspec.structs.replace(self.progress, archived_gaps=gaps, archive=newest)
            yield check_no_accepted_data_loss(
                checks.no_accepted_data_loss, state.positions, gaps, state.amendment, self._now
            )
        if checks.compaction_debt is not None:
            files, number = before.files, state.snapshot.version
            if files is None or files.may_be_outdated(number, self._now):
                present = state.snapshot.data_files()
                sizes = ((str(file.partition["arrival_date"]), file.size) for file in present)
                files = file_facts(sizes, number, self._now)
                self.progress = msgspec.structs.replace(self.progress, files=files)
            yield check_compaction_debt(checks.compaction_debt, files, "day")
        if checks.lease_table is not None and (lease_table := self._opened.settings.lease_table) is not None:
            now = self._now.timestamp()
            mirror = recorded_state(self._opened.table, lease_table, before.late_mirror)
            late = lateness(mirror, state.positions.commit_id, before.late_mirror, now)
            self.progress = msgspec.structs.replace(self.progress, late_mirror=late)
            yield check_lease_table(checks.lease_table, mirror, late, now)
        if checks.consumer is not None and (consumer := self._opened.settings.consumer) is not None:
            table, now = self._opened.table, self._now.timestamp()
            yield check_consumer(checks.consumer, table, consumer, self._readable.keys(), now)
        if self._entries is not None and (catalog := self._opened.settings.registration):
            key, version = self._opened.names.raw_key, state.snapshot.registrable
            if version and (result := self._entries.check(checks.catalog, key, catalog, version)):
                yield result


def _state_of(snapshot: TableSnapshot, listing: StreamListing | None) -> TableState | None:
    """Return the state of a stream's table; None if no run has committed yet."""
    if listing is None:
        owners = [*snapshot.owners]
        positions = snapshot.positions_of(owners[0]) if len(owners) == 1 else None
    else:
        positions = snapshot.positions(listing.summary.identity, or_older=True)
    if positions is None:
        return None
    identity = positions.identity if listing is None else listing.summary.identity
    return TableState(snapshot, positions, snapshot.amendment(identity))


def _read_at(shards: Mapping[str, ShardPosition]) -> float | None:
    """Return when all shards had been read to their tip; None if one never was."""
    tips = [shard.tip_time for shard in shards.values()]
    return None if None in tips else min((time.timestamp() for time in tips if time), default=None)
