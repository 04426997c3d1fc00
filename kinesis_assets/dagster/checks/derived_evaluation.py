"""The checks of a derived table that need neither a run nor a scan of its rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.results import CheckResult, counted, duration
from kinesis_assets.dagster.checks.table_checks import (
    BadRecords,
    FileFacts,
    check_bad_records,
    check_compaction_debt,
    check_unmatched_records,
    count_committed,
    file_facts,
    unmatched_records,
)
from kinesis_assets.derive.commit_entry import Definition, Kind
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable, refuse_rewritten, refuse_unknown_rows
from kinesis_assets.derive.new_rows import Backlog, backlog_of, refuse_next_run
from kinesis_assets.derive.policy import Deletion, OnDeleted
from kinesis_assets.errors import (
    PositionsMissing,
    PositionsUnreadable,
    SourceCommitsMissing,
    SourceRowsDeleted,
    SourceRowsMissing,
    TableMissing,
    TableOfAnotherSource,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.dagster.catalog_entries import CatalogEntries
    from kinesis_assets.dagster.derived_tables import CheckedTable
    from kinesis_assets.dagster.settings.check_settings import (
        DerivedContinuityCheck,
        DerivedDataLossCheck,
        DerivedLagCheck,
    )
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derived_table import CommitEntries, DerivedSnapshot
    from kinesis_assets.derive.source import Source
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.format import SourceFormat


_MAX_COMMITS = 200
"""The maximum number of commits that are examined in one go, from the newest one."""

_MAX_LOSSES = 20
"""The number of losses that are remembered."""

_LOST = frozenset({Deletion.EXPIRED, Deletion.INCOMPLETE, Deletion.FORGOTTEN})


def check_consumption_lag(check: DerivedLagCheck, backlog: Backlog, now: float) -> CheckResult:
    """Check that a derived table is not late."""
    age = 0.0 if backlog.since is None else max(0.0, now - backlog.since)
    passed = age <= check.max_seconds
    if backlog.since is None:
        description = "all rows of the source are consumed"
    else:
        description = f"{_what(backlog)} not consumed, and may have waited for {duration(age)}"
    if not passed:
        description += (
            f", more than {duration(check.max_seconds)}. See whether runs of the table fail, or are not "
            "requested"
        )
    facts: dict[str, float] = {"lag (s)": round(age, 1)}
    if backlog.commits is not None:
        facts["unconsumed commits"] = backlog.commits
    return CheckResult("lag", passed, check.severity, description, facts)


def check_consumption_continuity(
    check: DerivedContinuityCheck, problem: str | None, backlog: Backlog | None, restarts: str | None = None
) -> CheckResult:
    """Check that a derived table can continue where it ended in its source.

    Args:
        problem: Why it cannot; None if no reason was found.
        backlog: What the table has not consumed; None if that is unknown.
        restarts: Why its next run starts it again, as on_deleted: rebuild allows; None if it does not.
    """
    if problem is not None:
        description = problem
    elif restarts is not None:
        description = f"the next run starts the table again, and loses nothing: {restarts}"
    elif backlog is not None and backlog.has_more:
        description = "no commit is missing among the newest ones of the source; the table is far behind them"
    else:
        description = "the source has all commits that come after the table's position"
    return CheckResult("continuity", problem is None, check.severity, description)


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """What one commit of a derived table gave up.

    Attributes:
        at: The time of the commit, in seconds since the epoch.
        rows: Number of rows of the source, as far as it is known.
    """

    at: float
    rows: int
    sentence: str


class Losses(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a derived table gave up.

    Attributes:
        through: Id of the last commit that was examined; None before the first.
        newest: The newest losses, newest first.
    """

    through: int | None = None
    newest: tuple[Loss, ...] = ()


def losses_of(entries: CommitEntries, newest: DerivedCommit, before: Losses) -> Losses:
    """Add what the commits since the last time gave up. Rows that were consumed before are not given up."""
    found = []
    with suppress(PositionsUnreadable):  # no run needs the earlier entries
        for commit in islice(entries.back_from(newest), _MAX_COMMITS):
            if commit.commit_id == before.through:
                break
            lost = [each for each in commit.given_up if each.deletion in _LOST]
            if lost:
                rows = sum(each.rows or 0 for each in lost)
                found.append(Loss(commit.at.timestamp(), rows, "; ".join(map(str, lost))))
    return Losses(newest.commit_id, (*found, *before.newest)[:_MAX_LOSSES])


def check_no_derived_data_loss(check: DerivedDataLossCheck, losses: Losses) -> CheckResult:
    """Check that a derived table gave up no rows of its source."""
    counting = [each for each in losses.newest if check.since is None or each.at >= check.since.timestamp()]
    if counting:
        newest = counting[0]
        description = (
            f"{counted(len(counting), 'commit')} gave up rows of the source, as on_deleted allows, the last "
            f"at {datetime.fromtimestamp(newest.at, UTC):%Y-%m-%dT%H:%M:%SZ}: {newest.sentence}. Keep rows "
            "longer (retention_days, keep_unconsumed_days) or consume them sooner; to accept the loss, set "
            "checks.no_accepted_data_loss.since to a later time"
        )
    else:
        description = "no rows of the source were given up"
    facts = {"commits": len(counting), "rows given up": sum(each.rows for each in counting)}
    return CheckResult("no_accepted_data_loss", not counting, check.severity, description, facts)


def _what(backlog: Backlog) -> str:
    """Return what is not consumed, with its verb."""
    if backlog.commits is None:
        return "rows that the source had when the table started are"
    if backlog.has_more:
        return f"{backlog.commits} commits of the source or more are"
    return f"{counted(backlog.commits, 'commit')} of the source {'is' if backlog.commits == 1 else 'are'}"


_BREAKS = (
    PositionsMissing,
    PositionsUnreadable,
    SourceCommitsMissing,
    SourceRowsDeleted,
    SourceRowsMissing,
    TableMissing,
    TableOfAnotherSource,
    TableRewritten,
    TableUnsuitable,
)
"""The errors with which every run of the table fails until somebody acts."""

_NEXT_RUN_EVERY = 600.0
"""Seconds after which it is determined again what the next run does, if nothing shows that it has changed."""


_MAX_REASON = 2000
"""The length of a reason that the sensor remembers: an error may name thousands of batches."""


class NextRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the next run of a table does that has not consumed all of its source.

    Attributes:
        at: When it was determined, in seconds since the epoch.
        refused: Why the run is refused; None if it is not.
        restarts: Why it starts the table again; None if it does not.
    """

    at: float
    commit: int
    amendment: int | None
    on_deleted: OnDeleted
    refused: str | None = None
    restarts: str | None = None


class DerivedProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a table's checks from tick to tick. If it is lost, they count from the start again.

    Attributes:
        unmatched: The records that no route matches, counted as `records`.
        read_at: When the table and its source were last read, in seconds since the epoch. If they never were,
            when that was first tried.
        next_run: What the next run does; None if the table has consumed its source.
        failing: That and why the last run of the table failed; None if it did not.
    """

    at: float | None = None
    records: BadRecords = BadRecords()
    unmatched: BadRecords = BadRecords()
    files: FileFacts | None = None
    losses: Losses = Losses()
    read_at: float | None = None
    next_run: NextRun | None = None
    failing: str | None = None


@dataclass(frozen=True, slots=True)
class DerivedState:
    """The newest version of a derived table.

    Attributes:
        snapshot: The version; None if there is no table yet.
        newest: The newest commit; None if there is none, or its record is missing or damaged.
    """

    snapshot: DerivedSnapshot | None
    newest: DerivedCommit | None = None

    @classmethod
    def of(cls, table: CheckedTable) -> DerivedState:
        """Read a table before its source is opened, which then has all that the table has consumed."""
        snapshot = DerivedTable(table.uri, role=table.role, format=table.format).existing()
        try:
            return cls(snapshot, None if snapshot is None else snapshot.newest)
        except PositionsUnreadable:
            return cls(snapshot)  # `refuse_rewritten` raises it again


class DerivedEvaluation:
    """One evaluation of a derived table's checks.

    Attributes:
        results: The result of each check that is defined and can be evaluated.
        progress: What is remembered for the next evaluation.
    """

    def __init__(
        self,
        table: CheckedTable,
        state: DerivedState,
        before: DerivedProgress,
        now: float,
        open_source: Callable[[str, AssumedRole | None, SourceFormat | None], Source] = open_source,
        *,
        entries: CatalogEntries | None = None,
    ) -> None:
        self._table = table
        self._consumption = table.consumption
        self._checks = table.checks
        self._state = state
        self._now = now
        self._open_source = open_source
        self._entries = entries
        self.progress = msgspec.structs.replace(before, at=now, read_at=now)
        self.results = [
            *self._of_catalog(),
            *self._of_consumption(),
            *self._of_losses(),
            *self._of_records(),
            *self._of_routes(),
            *self._of_files(),
        ]

    def _of_catalog(self) -> Iterator[CheckResult]:
        snapshot, catalog = self._state.snapshot, self._consumption.settings.registration
        version = None if snapshot is None else snapshot.registrable
        if self._entries is not None and version is not None and catalog:
            result = self._entries.check(self._checks.catalog, self._table.key, catalog, version)
            if result is not None:
                yield result

    def _of_consumption(self) -> Iterator[CheckResult]:
        checks, backlog, problem, restarts = self._checks, None, None, None
        try:
            source = self._source()
            backlog = Backlog(None) if source is None else self._backlog(source)
            if source is not None and self._state.snapshot is not None:
                next_run = self._next_run(self._state.snapshot, source, backlog)
                self.progress = msgspec.structs.replace(self.progress, next_run=next_run)
                problem, restarts = (next_run.refused, next_run.restarts) if next_run else (None, None)
        except _BREAKS as error:
            problem = str(error)
        if backlog is not None and backlog.since is None and (problem or restarts):
            backlog = None  # its rows may not be those up to its position
        if problem is None and (backlog is None or backlog.since is not None):
            problem = self.progress.failing  # such as its function, or a group that cannot be computed again
        if checks.lag is not None and backlog is not None:
            yield check_consumption_lag(checks.lag, backlog, self._now)
        if checks.continuity is not None:
            yield check_consumption_continuity(checks.continuity, problem, backlog, restarts)

    def _source(self) -> Source | None:
        """Return the source; None if neither it nor the table exists. Raises the errors of `_BREAKS`."""
        snapshot, newest = self._state.snapshot, self._state.newest
        if snapshot is not None:
            refuse_unknown_rows(snapshot)
            if newest is None:
                refuse_rewritten(snapshot)  # raises the error of an entry that cannot be read
        if newest is not None and newest.definition is not None:
            newest.definition.check_owner(self._table.uri, self._table.name)
            newest.definition.check_same_table(self._table.uri, self._definition)
        try:
            table = self._table
            source = self._open_source(table.source, table.role, table.source_format)
        except TableMissing:
            if newest is not None:
                raise
            return None
        if snapshot is not None:
            snapshot.check_identity(source.origin_id, self._consumption.settings.partition_by)
        if source.end.commit is not None:  # this machine's clock may be behind
            self._now = max(self._now, time_of_id(source.end.commit))
        return source

    @property
    def _definition(self) -> Definition:
        table = self._consumption
        if table.groups:
            return Definition(kind=Kind.ROLLUP, key=table.groups)
        if table.is_router:
            return Definition(kind=Kind.ROUTER)
        return Definition(kind=Kind.UPSERT if table.unique else Kind.APPEND, key=table.unique)

    def _backlog(self, source: Source) -> Backlog | None:
        """Return what the table has not consumed; None if the commits are missing, which a policy accepts."""
        try:
            return backlog_of(source, None if self._state.newest is None else self._state.newest.cursor)
        except SourceCommitsMissing:
            return None

    def _next_run(self, snapshot: DerivedSnapshot, source: Source, backlog: Backlog | None) -> NextRun | None:
        """Return what the next run does; None if the table has consumed its source."""
        newest = self._state.newest
        if newest is None:
            return None
        if backlog is not None and backlog.since is None and not backlog.deleted:
            with suppress(TableRewritten):
                refuse_rewritten(snapshot)
                return None
        on_deleted, known = self._consumption.settings.on_deleted, self.progress.next_run
        found = NextRun(self._now, newest.commit_id, source.end.amendment, on_deleted)
        if known is not None and 0 <= self._now - known.at < _NEXT_RUN_EVERY:
            facts = msgspec.structs.replace(known, at=found.at, refused=None, restarts=None)
            if facts == found:
                return known
        try:
            cause = refuse_next_run(snapshot, source, on_deleted)
        except _BREAKS as error:
            return msgspec.structs.replace(found, refused=str(error)[:_MAX_REASON])
        return msgspec.structs.replace(found, restarts=None if cause is None else str(cause)[:_MAX_REASON])

    def _of_losses(self) -> Iterator[CheckResult]:
        check, state = self._checks.no_accepted_data_loss, self._state
        if check is None or state.snapshot is None:
            return
        if state.newest is not None:
            losses = losses_of(state.snapshot.table.entries, state.newest, self.progress.losses)
            self.progress = msgspec.structs.replace(self.progress, losses=losses)
        yield check_no_derived_data_loss(check, self.progress.losses)

    def _of_records(self) -> Iterator[CheckResult]:
        check, state = self._checks.bad_records, self._state
        if check is None or state.snapshot is None or state.newest is None:
            return
        before = self.progress.records
        records = count_committed(state.snapshot.table.entries, state.newest, before, self._now)
        self.progress = msgspec.structs.replace(self.progress, records=records)
        if before.hours or records.hours or state.newest.records is not None:  # the table counts its records
            yield check_bad_records(check, records, self._advice(state.snapshot))

    def _advice(self, snapshot: DerivedSnapshot) -> str:
        """Return what to do about bad records."""
        has_errors = "error" in {field["name"] for field in snapshot.schema["fields"]}
        settings, command = ("settings", "rebuild") if self._consumption.is_router else ("schema", "redrive")
        return (
            f"The {'column error' if has_errors else 'table of errors'} says why. Correct the {settings} and "
            f"run `kinesis-assets {command}`, or correct the producer"
        )

    def _of_routes(self) -> Iterator[CheckResult]:
        check, state = self._checks.unmatched_records, self._state
        if check is None or not self._consumption.is_router or state.snapshot is None or state.newest is None:
            return
        entries = state.snapshot.table.entries
        found = count_committed(
            entries, state.newest, self.progress.unmatched, self._now, count=unmatched_records
        )
        self.progress = msgspec.structs.replace(self.progress, unmatched=found)
        yield check_unmatched_records(check, found)

    def _of_files(self) -> Iterator[CheckResult]:
        check, snapshot = self._checks.compaction_debt, self._state.snapshot
        if check is None or snapshot is None:
            return
        files, now = self.progress.files, datetime.fromtimestamp(self._now, UTC)
        if files is None or files.may_be_outdated(snapshot.version, now):
            active = ((file.partition_name, file.size) for file in snapshot.data_files())
            files = file_facts(active, snapshot.version, now)
            self.progress = msgspec.structs.replace(self.progress, files=files)
        yield check_compaction_debt(check, files, "partition")
