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
from kinesis_assets.derive.source import open_source
from kinesis_assets.errors import reason_of

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


def _state_of(table: CheckedTable) -> DerivedState | None:
    """Return the newest version of a table; None if it cannot be read."""
    try:
        return DerivedState.of(table)
    except Exception as error:  # noqa: BLE001  # no table may stop the sensor, which requests the stream's runs
        _log.warning(_NOT_EVALUATED, table.uri, reason_of(error))
        return None


def _evaluated(
    instance: dg.DagsterInstance,
    table: CheckedTable,
    state: DerivedState | None,
    before: DerivedProgress,
    *,
    now: float,
    opened: Callable[[str, AssumedRole | None], Source],
) -> tuple[list[dg.AssetCheckEvaluation], DerivedProgress]:
    """Return the results of a table that are to be reported, and what is remembered."""
    if state is None:
        return [], before
    try:
        evaluation = DerivedEvaluation(table, state, before, now, opened)
        reports = Reports.of(instance, table.key, table.checks.reading_no_rows)
        return [*reports.due(evaluation.results, now)], evaluation.progress
    except Exception as error:  # noqa: BLE001  # as above
        _log.warning(_NOT_EVALUATED, table.uri, reason_of(error))
        return [], before
