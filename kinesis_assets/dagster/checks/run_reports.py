"""The checks of a table in a run that materializes it.

A materialization hides the results for earlier ones, so each run evaluates the checks again.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.reports import Reports
from kinesis_assets.dagster.dagster_internals import report_check
from kinesis_assets.errors import KinesisAssetsError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import dagster as dg

    from kinesis_assets.dagster.checks.result import CheckResult

_log = logging.getLogger(__name__)

INTERVAL = 30.0
"""Minimum seconds from one report of a continuous run to the next."""

_NOT_EVALUATED = "%s: the checks cannot be evaluated, so the run repeats their last results: %s"
_NOT_REPORTED = "%s: the run cannot report the checks, and goes on without them: %s"


class RunReports(ABC):
    """Reports the checks of one table in one run.

    Args:
        step: The step of the run that materializes the asset.
        key: The asset.
        names: The names of its checks.
        subject: What the checks are of, for the log.
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(
        self,
        step: dg.StepExecutionContext,
        key: dg.AssetKey,
        names: Sequence[str],
        subject: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._step = step
        self._key = key
        self._names = names
        self._subject = subject
        self._clock = clock
        self._reported: float | None = None

    def report(self) -> None:
        """Report the results after a commit, unless that was done a short time ago."""
        now = self._clock()
        if not self._names or (self._reported is not None and 0 <= now - self._reported < INTERVAL):
            return
        self._reported = now
        try:
            self._report(now)
        except Exception as error:  # noqa: BLE001  # the rows are committed, and the run has to report them
            _log.warning(_NOT_REPORTED, self._subject, error)

    @abstractmethod
    def _evaluated(self, now: float) -> Sequence[CheckResult]:
        """Return the results at a time.

        Raises:
            KinesisAssetsError: The table cannot be read at present.
        """

    def _report(self, now: float) -> None:
        run_id = self._step.run_id
        reports = Reports.of(self._step.instance, self._key, self._names)
        try:
            results = self._evaluated(now)
        except KinesisAssetsError as error:
            _log.warning(_NOT_EVALUATED, self._subject, reason_of(error))
            for evaluation in reports.carried_over_in_run(sorted(reports.evaluated), run_id):
                report_check(self._step, evaluation)
            return
        for evaluation in reports.due_in_run(results, run_id, now):
            report_check(self._step, evaluation)
