"""Evaluate the checks of a derived table that need neither a run nor a scan of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.bad_records import BadRecords, check_bad_records
from kinesis_assets.dagster.checks.committed_records import UNDECODED, count_committed
from kinesis_assets.dagster.checks.consumption_checks import (
    Losses,
    check_consumption_continuity,
    check_consumption_lag,
    check_no_derived_data_loss,
    losses_of,
)
from kinesis_assets.dagster.checks.file_checks import FileFacts, check_compaction_debt, file_facts
from kinesis_assets.derive.backlog import Backlog, backlog_of
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rewritten import refuse_rewritten, refuse_unknown_rows
from kinesis_assets.derive.source import open_source
from kinesis_assets.errors import (
    PositionsMissing,
    PositionsUnreadable,
    SourceCommitsMissing,
    TableMissing,
    TableOfAnotherSource,
    TableRewritten,
)
from kinesis_assets.table.commit_ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.dagster.checked_table import CheckedTable
    from kinesis_assets.dagster.checks.result import CheckResult
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.derive.records import DerivedCommit
    from kinesis_assets.derive.source import Source
    from kinesis_assets.kinesis.role import AssumedRole

_BREAKS = (
    PositionsMissing,
    PositionsUnreadable,
    SourceCommitsMissing,
    TableOfAnotherSource,
    TableRewritten,
)
"""The errors with which every run of the table fails until somebody acts, or rebuilds the table."""


class DerivedProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a table's checks from tick to tick. If it is lost, they count from the start again.

    Attributes:
        at: Time of the last evaluation, in seconds since the epoch.
        records: The records of the commits that were counted.
        files: The facts about the data files.
        losses: What the commits gave up.
        read_at: When the table and its source were last read, in seconds since the epoch. If they never were,
            when that was first tried.
    """

    at: float | None = None
    records: BadRecords = BadRecords()
    files: FileFacts | None = None
    losses: Losses = Losses()
    read_at: float | None = None


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
        """Read a table. Do that before its source is opened, which then has all that the table has consumed.

        Raises:
            TableError: The table cannot be read at present, or is not a derived table.
        """
        try:
            snapshot = DerivedTable(table.uri, role=table.role).snapshot()
        except TableMissing:
            return cls(None)
        try:
            return cls(snapshot, snapshot.newest)
        except PositionsUnreadable:
            return cls(snapshot)  # `refuse_rewritten` raises it again


class DerivedEvaluation:
    """One evaluation of a derived table's checks.

    Args:
        table: The table.
        state: Its newest version.
        before: What is remembered of the last evaluation.
        now: The time of this machine's clock, in seconds since the epoch.
        open_source: Opens the newest version of a source.

    Attributes:
        results: The result of each check that is defined and can be evaluated.
        progress: What is remembered for the next evaluation.

    Raises:
        TableError: The table or its source cannot be read at present.
    """

    def __init__(
        self,
        table: CheckedTable,
        state: DerivedState,
        before: DerivedProgress,
        now: float,
        open_source: Callable[[str, AssumedRole | None], Source] = open_source,
    ) -> None:
        self._table = table
        self._checks = table.checks
        self._state = state
        self._now = now
        self._open_source = open_source
        self.progress = msgspec.structs.replace(before, at=now, read_at=now)
        self.results = [
            *self._of_consumption(),
            *self._of_losses(),
            *self._of_records(),
            *self._of_files(),
        ]

    def _of_consumption(self) -> Iterator[CheckResult]:
        checks, backlog, problem = self._checks, None, None
        try:
            backlog = self._backlog()
        except (*_BREAKS, TableMissing) as error:
            problem = str(error)
        if checks.lag is not None and backlog is not None:
            yield check_consumption_lag(checks.lag, backlog, self._now)
        if checks.continuity is not None:
            if backlog is not None and backlog.deleted and self._table.on_deleted is OnDeleted.FAIL:
                problem = (
                    f"the source {self._table.source} no longer has {'; '.join(backlog.deleted)}, so the "
                    "next run fails. Set on_deleted to ignore to keep what was derived from them, or to "
                    "rebuild to start again"
                )
            yield check_consumption_continuity(checks.continuity, problem, backlog)

    def _backlog(self) -> Backlog:
        """Return what the table has not consumed. Raises the errors of `_BREAKS`, and those of the class.

        Raises:
            TableMissing: The source no longer exists.
        """
        state = self._state
        if state.snapshot is not None:
            refuse_unknown_rows(state.snapshot)
            refuse_rewritten(state.snapshot)
        if state.newest is not None and state.newest.definition is not None:
            state.newest.definition.check_owner(self._table.uri, self._table.name)
        try:
            source = self._open_source(self._table.source, self._table.role)
        except TableMissing:
            if state.newest is not None:
                raise
            return Backlog(None)
        if source.end.commit is not None:  # this machine's clock may be behind
            self._now = max(self._now, time_of_id(source.end.commit))
        return backlog_of(source, None if state.newest is None else state.newest.cursor)

    def _of_losses(self) -> Iterator[CheckResult]:
        check, state = self._checks.no_accepted_data_loss, self._state
        if check is None or state.snapshot is None:
            return
        if state.newest is not None:
            losses = losses_of(state.snapshot.table.records, state.newest, self.progress.losses)
            self.progress = msgspec.structs.replace(self.progress, losses=losses)
        yield check_no_derived_data_loss(check, self.progress.losses)

    def _of_records(self) -> Iterator[CheckResult]:
        check, state = self._checks.bad_records, self._state
        if check is None or state.snapshot is None or state.newest is None:
            return
        records = count_committed(
            state.snapshot.table.records, state.newest, self.progress.records, self._now
        )
        self.progress = msgspec.structs.replace(self.progress, records=records)
        if records.hours or state.newest.records is not None:  # the table counts its records
            yield check_bad_records(check, records, UNDECODED)

    def _of_files(self) -> Iterator[CheckResult]:
        check, snapshot = self._checks.compaction_debt, self._state.snapshot
        if check is None or snapshot is None:
            return
        files, now = self.progress.files, datetime.fromtimestamp(self._now, UTC)
        version = snapshot.delta.version()
        if files is None or files.may_be_outdated(version, now):
            active = ((file.partition_name, file.size) for file in files_of(snapshot.delta))
            files = file_facts(active, version, now)
            self.progress = msgspec.structs.replace(self.progress, files=files)
        yield check_compaction_debt(check, files, "partition")
