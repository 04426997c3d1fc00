"""The checks of a derived table in a run. It continues with what the sensor remembers of its last tick."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.derived_evaluation import (
    DerivedEvaluation,
    DerivedProgress,
    DerivedState,
)
from kinesis_assets.dagster.checks.remembered import remembered_checks
from kinesis_assets.dagster.checks.run_reports import RunReports

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import dagster as dg

    from kinesis_assets.dagster.checked_table import CheckedTable
    from kinesis_assets.dagster.checks.result import CheckResult


class DerivedRunChecks(RunReports):
    """The checks of a derived table in one run.

    Args:
        step: The step of the run that materializes the table's asset.
        table: The table.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self, step: dg.StepExecutionContext, table: CheckedTable, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(step, table.key, table.checks.reading_no_rows, f"table {table.uri}", clock)
        self._table = table

    def _evaluated(self, now: float) -> Sequence[CheckResult]:
        return evaluated(self._step.instance, self._table, now)


def evaluated(instance: dg.DagsterInstance, table: CheckedTable, now: float) -> list[CheckResult]:
    """Evaluate the checks of a derived table outside of the sensor.

    Args:
        instance: The instance whose daemon evaluates the sensor.
        table: The table.
        now: The time, in seconds since the epoch.

    Raises:
        TableError: The table or its source cannot be read at present.
    """
    before = remembered_checks(instance, table.stream).derived.get(table.name, DerivedProgress())
    return DerivedEvaluation(table, DerivedState.of(table), before, now).results
