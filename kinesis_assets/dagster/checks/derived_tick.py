"""The checks of a stream's derived tables in a tick of its sensor."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.derived_evaluation import (
    DerivedEvaluation,
    DerivedProgress,
    DerivedState,
)
from kinesis_assets.dagster.checks.reports import Reports
from kinesis_assets.dagster.checks.result import CheckResult, duration
from kinesis_assets.derive.source import open_source
from kinesis_assets.errors import reason_of
from kinesis_assets.errors.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import dagster as dg

    from kinesis_assets.dagster.checked_table import CheckedTable
    from kinesis_assets.derive.source import Source
    from kinesis_assets.kinesis.role import AssumedRole

MAX_TABLES = 20
"""The maximum number of tables of which a tick evaluates the checks, because it must end within a minute.
Those that were evaluated longest ago come first."""

_log = logging.getLogger(__name__)

_NOT_EVALUATED = "table %s: the checks cannot be evaluated, and are in a later tick: %s"


def derived_check_events(
    instance: dg.DagsterInstance,
    tables: Sequence[CheckedTable],
    before: Mapping[str, DerivedProgress],
    now: float,
    *,
    max_tables: int = MAX_TABLES,
) -> tuple[list[dg.AssetCheckEvaluation], dict[str, DerivedProgress]]:
    """Evaluate the checks of derived tables, and return the results that are to be reported.

    A table whose checks cannot be evaluated delays neither the others nor the stream.

    Args:
        instance: The instance with the events.
        tables: The tables.
        before: What the checks of each table remember of the previous ticks.
        now: The time of the tick, in seconds since the epoch.
        max_tables: The maximum number of tables.

    Returns:
        The results, and what the checks remember.
    """
    progress = {table.name: before.get(table.name, DerivedProgress()) for table in tables}
    turns = sorted(tables, key=lambda table: progress[table.name].at or 0.0)[:max_tables]
    states = [_state_of(table) for table in turns]
    opened = cache(open_source)  # after the tables, so that each source has what these have consumed
    events: list[dg.AssetCheckEvaluation] = []
    for table, state in zip(turns, states, strict=True):
        remembered = msgspec.structs.replace(progress[table.name], at=now)
        due, progress[table.name] = _evaluated(instance, table, state, remembered, now=now, opened=opened)
        events += due
    return events, progress


def _state_of(table: CheckedTable) -> DerivedState | Exception:
    """Return the newest version of a table, or why it cannot be read."""
    try:
        return DerivedState.of(table)
    except Exception as error:  # noqa: BLE001  # no table may stop the sensor, which requests the stream's runs
        return error


def _evaluated(
    instance: dg.DagsterInstance,
    table: CheckedTable,
    state: DerivedState | Exception,
    before: DerivedProgress,
    *,
    now: float,
    opened: Callable[[str, AssumedRole | None], Source],
) -> tuple[list[dg.AssetCheckEvaluation], DerivedProgress]:
    """Return the results of a table that are to be reported, and what is remembered."""
    found = state if isinstance(state, Exception) else _evaluation(table, state, before, now, opened)
    if isinstance(found, Exception):
        _log.warning(_NOT_EVALUATED, table.uri, reason_of(found))
        since = now if before.read_at is None else before.read_at
        progress = msgspec.structs.replace(before, read_at=since)
        results = _of_unreadable(table, found, now - since)
    else:
        results, progress = found.results, found.progress
    reports = Reports.of(instance, table.key, table.checks.reading_no_rows)
    return [*reports.due(results, now)], progress


def _evaluation(
    table: CheckedTable,
    state: DerivedState,
    before: DerivedProgress,
    now: float,
    opened: Callable[[str, AssumedRole | None], Source],
) -> DerivedEvaluation | Exception:
    """Return the evaluation of a table's checks, or why they cannot be evaluated."""
    try:
        return DerivedEvaluation(table, state, before, now, opened)
    except Exception as error:  # noqa: BLE001  # as above
        return error


def _of_unreadable(table: CheckedTable, error: Exception, seconds: float) -> list[CheckResult]:
    """Return the lag of a table whose checks cannot be evaluated, if that lasts."""
    lag = table.checks.lag
    if lag is None or seconds <= lag.max_seconds:
        return []
    description = f"the checks could not be evaluated for {duration(seconds)}: {without_secrets(str(error))}"
    return [CheckResult("lag", False, lag.severity, description, {"lag_seconds": round(seconds, 1)})]
