"""The checks of raw and derived tables in a tick of the sensor."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kinesis_assets.dagster.checks.derived_evaluation import DerivedEvaluation, DerivedProgress, DerivedState
from kinesis_assets.dagster.checks.evaluation import ChecksProgress, Evaluation
from kinesis_assets.dagster.checks.results import CheckResult, Reports, duration
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.errors import (
    KinesisAssetsError,
    PauseUnreadable,
    TableMissing,
    TickTooLong,
    reason_of,
    without_secrets,
)
from kinesis_assets.table.run_files.pause import read_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import dagster as dg

    from kinesis_assets.dagster.catalog_entries import CatalogEntries
    from kinesis_assets.dagster.derived_tables import CheckedTable
    from kinesis_assets.dagster.settings.check_settings import Checks
    from kinesis_assets.dagster.stream import ListedShards, OpenStream
    from kinesis_assets.derive.source import Source
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.format import SourceFormat
    from kinesis_assets.table.run_files.pause import Pause
    from kinesis_assets.table.snapshot import TableSnapshot

    _OpenSource = Callable[[str, AssumedRole | None, SourceFormat | None], Source]

    Share = Callable[[Sequence[Callable[[], Any]]], list[Any]]
    """Calls functions, and returns the result or the error of each. Some may get no time to end."""

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

BLIND_SECONDS = 3600.0
"""Seconds of failing ticks after which `time_to_loss` fails, long before any record expires."""

_STREAM_NOT_EVALUATED = "stream %s: the checks cannot be evaluated, and are in the next tick: %s"


def check_events(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    listed: ListedShards,
    *,
    before: ChecksProgress,
    now: float,
    waiting: Collection[str],
    failing: Mapping[str, str],
    pause: Pause | None,
    entries: CatalogEntries,
    refuse_if_over: Callable[[], None],
) -> tuple[list[dg.AssetCheckEvaluation], ChecksProgress]:
    """Evaluate the checks, and return the results that are to be reported outside of a run.

    For the arguments, see `Evaluation`, whose progress runs and metrics use also if no check is defined.
    Raises what `refuse_if_over` raises, which is called before a result is stored.
    """
    try:
        evaluation = Evaluation(
            opened,
            instance,
            *listed,
            machine_time=datetime.fromtimestamp(now, UTC),
            waiting=waiting,
            failing=failing,
            pause=pause,
            before=before,
            entries=entries,
        )
    except KinesisAssetsError as error:
        _log.warning(_STREAM_NOT_EVALUATED, opened.name, reason_of(error))
        failed, _ = failing_check_events(
            opened,
            instance,
            error,
            before=before,
            failing=failing,
            now=now,
            refuse_if_over=refuse_if_over,
        )
        return failed, before
    refuse_if_over()
    reports = Reports.of(instance, opened.names.raw_key, opened.checks.reading_no_rows)
    return reports.report(evaluation.results, now), evaluation.progress


def failing_check_events(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    error: Exception,
    *,
    before: ChecksProgress,
    failing: Mapping[str, str],
    now: float,
    reads_table: bool = True,
    refuse_if_over: Callable[[], None] = lambda: None,
) -> tuple[list[dg.AssetCheckEvaluation], Evaluation | None]:
    """Return the checks that fail in a tick that fails, and the evaluation of the table if that can be read.

    They follow from the table, the cursor and the clock. Raises what `refuse_if_over` raises, which is called
    before a result is stored.

    Args:
        before: What the checks remember of the last tick that succeeded.
        failing: The shards that had failed in their last run by then, see `Evaluation`.
        reads_table: Whether there is time to read the table.
    """
    evaluation = _without_service(opened, instance, before, failing, now) if reads_table else None
    results: Sequence[CheckResult] = []
    since, loss = before.at, before.loss
    if evaluation is not None:
        results, since = evaluation.results, evaluation.known_at
        loss = evaluation.progress.loss or loss
    seconds = None if since is None else max(0.0, now - since)
    hours = None if loss is None else max(0.0, loss - now) / 3600
    of_table = [result for result in results if not result.passed]
    reason = without_secrets(str(error)).rstrip(".")
    failed = [*_while_ticks_fail(opened.checks, of_table, reason, seconds, hours)]
    refuse_if_over()
    reports = Reports.of(instance, opened.names.raw_key, [result.name for result in failed])
    return reports.report(failed, now), evaluation


def _without_service(
    opened: OpenStream,
    instance: dg.DagsterInstance,
    before: ChecksProgress,
    failing: Mapping[str, str],
    now: float,
) -> Evaluation | None:
    """Evaluate the checks from the table; None if it cannot be read either."""
    snapshot: TableSnapshot | None = None
    pause: Pause | None = None
    try:
        with suppress(TableMissing):
            snapshot = opened.table.snapshot()
        with suppress(PauseUnreadable):
            pause = read_pause(opened.table)
        return Evaluation(
            opened,
            instance,
            None,
            snapshot,
            machine_time=datetime.fromtimestamp(now, UTC),
            waiting=(),
            failing=failing,
            pause=pause,
            before=before,
        )
    except Exception as error:  # noqa: BLE001  # the tick fails, and its checks have to say so in any case
        _log.warning(_STREAM_NOT_EVALUATED, opened.name, reason_of(error))
        return None


def _while_ticks_fail(
    checks: Checks, failed: Sequence[CheckResult], reason: str, seconds: float | None, hours: float | None
) -> Iterator[CheckResult]:
    """Yield the results that fail while ticks do: those of the table, and those that nobody can evaluate.

    Args:
        failed: Those of the table.
        reason: Why the ticks fail.
        seconds: For how long it has been unknown whether there are unread records; None for as long as the
            sensor remembers.
        hours: The time until the first unread record may expire; None if it is unknown.
    """
    blind = "the sensor cannot check the stream"
    if seconds is not None:
        blind = f"the sensor has not been able to check the stream for {duration(seconds)}"
    names, lag, time_to_loss = {result.name for result in failed}, checks.lag, checks.time_to_loss
    for result in failed:
        found = f"{result.description[:1].upper()}{result.description[1:]}"
        yield replace(result, description=f"{blind}: {reason}. {found}")
    if lag is not None and "lag" not in names and (seconds is None or seconds > lag.max_seconds):
        facts = {} if seconds is None else {"worst lag (s)": round(seconds, 1)}
        description = f"{blind}: {reason}. It is unknown what has arrived since"
        yield CheckResult("lag", False, lag.severity, description, facts)
    is_long = seconds is None or seconds > BLIND_SECONDS
    if time_to_loss is not None and "time_to_loss" not in names and is_long:
        facts = {} if hours is None else {"least time to loss (h)": round(hours, 2)}
        description = f"{blind}: {reason}. {_expiry(hours)}"
        yield CheckResult("time_to_loss", False, time_to_loss.severity, description, facts)


def _expiry(hours: float | None) -> str:
    """Return when records expire that nobody reads."""
    if hours is None:
        return "It is unknown when unread records expire"
    return f"Unread records may expire {f'in {duration(hours * 3600)}' if hours else 'already'}"


def one_by_one(reads: Sequence[Callable[[], _T]]) -> list[_T | Exception]:
    """Call functions, and return the result or the error of each."""
    return [*map(_outcome, reads)]


def _outcome(read: Callable[[], _T]) -> _T | Exception:
    try:
        return read()
    except Exception as error:  # noqa: BLE001  # no table may stop the sensor, which requests the stream's runs
        return error


MAX_TABLES = 20
"""The maximum number of tables of which a tick evaluates the checks, because it must end within a minute.
Those that were evaluated longest ago come first."""


_TABLE_NOT_EVALUATED = "table %s: the checks cannot be evaluated, and are in a later tick: %s"


def derived_check_events(
    instance: dg.DagsterInstance,
    tables: Sequence[CheckedTable],
    before: Mapping[str, DerivedProgress],
    now: float,
    *,
    failing: Mapping[str, str] = MappingProxyType({}),
    max_tables: int = MAX_TABLES,
    entries: CatalogEntries | None = None,
    share: Share = one_by_one,
    refuse_if_over: Callable[[], None] = lambda: None,
) -> tuple[list[dg.AssetCheckEvaluation], dict[str, DerivedProgress]]:
    """Evaluate the checks of derived tables, and return the results that are to be reported.

    A table whose checks cannot be evaluated, or whose store does not answer, leaves the others their time.
    `failing` says why the last run of each table failed, for those that fail.

    Raises what `refuse_if_over` raises, which is called before a result is stored.
    """
    progress = {table.name: before.get(table.name, DerivedProgress()) for table in tables}
    turns = sorted(tables, key=lambda table: progress[table.name].at or 0.0)[:max_tables]
    states = share([partial(DerivedState.of, table) for table in turns])
    opened = _opened(turns, states, share)  # afterwards, so that each source has what these have consumed
    events: list[dg.AssetCheckEvaluation] = []
    for table, state in zip(turns, states, strict=True):
        remembered = msgspec.structs.replace(progress[table.name], at=now, failing=failing.get(table.name))
        found = state
        if isinstance(state, DerivedState):
            evaluate = partial(DerivedEvaluation, table, state, remembered, now, opened, entries=entries)
            (found,) = share([evaluate])
            if isinstance(found, TickTooLong):  # it comes first in the next tick
                remembered = msgspec.structs.replace(remembered, at=progress[table.name].at)
        results, progress[table.name] = _results(table, found, remembered, now)
        refuse_if_over()
        reports = Reports.of(instance, table.key, table.checks.reading_no_rows)
        events += reports.report(results, now)
    return events, progress


def overdue_check_events(
    instance: dg.DagsterInstance,
    tables: Sequence[CheckedTable],
    before: Mapping[str, DerivedProgress],
    now: float,
    error: Exception,
) -> list[dg.AssetCheckEvaluation]:
    """Return the checks of derived tables that fail because no tick has evaluated them for long."""
    events: list[dg.AssetCheckEvaluation] = []
    for table in tables:
        since = before.get(table.name, DerivedProgress()).read_at
        if since is not None and (results := _of_unreadable(table, error, now - since)):
            events += Reports.of(instance, table.key, table.checks.reading_no_rows).report(results, now)
    return events


def _opened(
    tables: Sequence[CheckedTable], states: Sequence[DerivedState | Exception], share: Share
) -> _OpenSource:
    """Open each source of the tables that can be read, and return what returns it, or raises its error."""
    first = {
        table.source: table
        for table, state in zip(tables, states, strict=True)
        if isinstance(state, DerivedState)
    }
    opens = [partial(open_source, uri, table.role, table.source_format) for uri, table in first.items()]
    sources = dict(zip(first, share(opens), strict=True))

    def opened(uri: str, role: AssumedRole | None, format_: SourceFormat | None) -> Source:
        del role, format_  # a source is the same for all tables that consume it
        source: Source | Exception = sources[uri]
        if isinstance(source, Exception):
            raise source
        return source

    return opened


def _results(
    table: CheckedTable, found: DerivedEvaluation | Exception, before: DerivedProgress, now: float
) -> tuple[Sequence[CheckResult], DerivedProgress]:
    """Return the results of a table, and what is remembered."""
    if not isinstance(found, Exception):
        return found.results, found.progress
    _log.warning(_TABLE_NOT_EVALUATED, table.uri, reason_of(found))
    since = now if before.read_at is None else before.read_at
    return _of_unreadable(table, found, now - since), msgspec.structs.replace(before, read_at=since)


def _of_unreadable(table: CheckedTable, error: Exception, seconds: float) -> list[CheckResult]:
    """Return the lag of a table whose checks cannot be evaluated, if that lasts."""
    lag = table.checks.lag
    if lag is None or seconds <= lag.max_seconds:
        return []
    description = f"the checks could not be evaluated for {duration(seconds)}: {without_secrets(str(error))}"
    return [CheckResult("lag", False, lag.severity, description, {"lag_seconds": round(seconds, 1)})]
