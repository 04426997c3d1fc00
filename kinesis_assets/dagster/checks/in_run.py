"""The checks of a raw table in a run that materializes it.

A materialization hides the results for earlier ones, so each run evaluates the checks again. It continues
with what the sensor remembers of its last tick.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.evaluation import Evaluation
from kinesis_assets.dagster.checks.remembered import remembered_checks
from kinesis_assets.dagster.checks.reports import Reports
from kinesis_assets.dagster.checks.settings import SCANNING
from kinesis_assets.dagster.dagster_internals import report_check
from kinesis_assets.dagster.names import raw_key
from kinesis_assets.errors import KinesisAssetsError

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing

_log = logging.getLogger(__name__)

SENSOR_SILENT = 600.0
"""Seconds after its last tick from which the sensor counts as stopped."""

INTERVAL = 30.0
"""Minimum seconds from one report of a continuous run to the next."""

_NOT_EVALUATED = "stream %s: the checks cannot be evaluated, so the run repeats their last results: %s"
_NOT_REPORTED = "stream %s: the run cannot report the checks, and goes on without them: %s"


class RunChecks:
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
        self._step = step
        self._opened = opened
        self._listing = listing
        self._clock = clock
        self._reported: float | None = None
        self._names = [name for name, _ in opened.checks.defined if name not in SCANNING]

    def report(self) -> None:
        """Report the results after a commit, unless that was done a short time ago."""
        now = self._clock()
        if not self._names or (self._reported is not None and 0 <= now - self._reported < INTERVAL):
            return
        self._reported = now
        try:
            self._report(now)
        except Exception as error:  # noqa: BLE001  # the rows are committed, and the run has to report them
            _log.warning(_NOT_REPORTED, self._opened.name, error)

    def _report(self, now: float) -> None:
        instance, run_id = self._step.instance, self._step.run_id
        reports = Reports.of(instance, raw_key(self._opened.name), self._names)
        remembered = remembered_checks(instance, self._opened.name)
        before = remembered.progress
        ticks = before.at is not None and abs(now - before.at) < SENSOR_SILENT
        try:
            evaluated = Evaluation(
                self._opened,
                instance,
                self._listing,
                machine_time=datetime.fromtimestamp(now, UTC),
                waiting=remembered.waiting if ticks else (),
                before=before,
            )
        except KinesisAssetsError as error:
            _log.warning(_NOT_EVALUATED, self._opened.name, error)
            for evaluation in reports.carried_over_in_run(sorted(reports.evaluated), run_id):
                report_check(self._step, evaluation)
            return
        for evaluation in reports.due_in_run(evaluated.results, run_id, now):
            report_check(self._step, evaluation)
