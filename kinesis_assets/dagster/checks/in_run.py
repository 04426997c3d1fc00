"""The checks of a raw table in a run. It continues with what the sensor remembers of its last tick."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.evaluation import Evaluation
from kinesis_assets.dagster.checks.remembered import remembered_checks
from kinesis_assets.dagster.checks.run_reports import RunReports
from kinesis_assets.dagster.names import raw_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import dagster as dg

    from kinesis_assets.dagster.checks.result import CheckResult
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing

SENSOR_SILENT = 600.0
"""Seconds after its last tick from which the sensor counts as stopped."""


class RunChecks(RunReports):
    """The checks of a stream in one run.

    Args:
        step: The step of the run that materializes the raw asset.
        opened: The stream.
        listing: The stream's shards at the start of the run.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        step: dg.StepExecutionContext,
        opened: OpenStream,
        listing: StreamListing,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(
            step, raw_key(opened.name), opened.checks.reading_no_rows, f"stream {opened.name}", clock
        )
        self._opened = opened
        self._listing = listing

    def _evaluated(self, now: float) -> Sequence[CheckResult]:
        remembered = remembered_checks(self._step.instance, self._opened.name)
        before = remembered.progress
        ticks = before.at is not None and abs(now - before.at) < SENSOR_SILENT
        return Evaluation(
            self._opened,
            self._step.instance,
            self._listing,
            self._opened.table.snapshot(),
            machine_time=datetime.fromtimestamp(now, UTC),
            waiting=remembered.waiting if ticks else (),
            before=before,
        ).results
