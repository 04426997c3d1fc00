"""The results of checks, and which of them are reported: those that changed, or that Dagster does not show.

An event costs time and space, so a result that Dagster shows already is not reported again. Dagster shows a
check's last execution if it was for the asset's latest materialization, or in the same run. A
materialization hides the results for earlier ones, so each run evaluates the checks again.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.dagster_internals import (
    check_target,
    latest_check_executions,
    report_check,
    report_check_of_run,
)
from kinesis_assets.errors import KinesisAssetsError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kinesis_assets.dagster.settings.check_settings import Severity
    from kinesis_assets.table.run_files.pause import Pause


WORST = 20
"""The maximum number of rows in a check's metadata. It says how many more there are."""

PAUSED = "paused"
"""The metadata of each result of a paused stream: by whom, since when, why, and how to resume it."""

_OF_READING = frozenset({"lag", "time_to_loss", "every_shard_read"})
"""The checks that say whether a stream is read."""

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check.

    Attributes:
        severity: Severity if it did not pass.
        description: What was found, and what to do about it.
    """

    name: str
    passed: bool
    severity: Severity
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dagster_severity(self) -> dg.AssetCheckSeverity:
        """The severity in Dagster."""
        return dg.AssetCheckSeverity[self.severity]

    def while_paused(self, pause: Pause) -> CheckResult:
        """Return the result of a paused stream, which is neither well nor broken.

        The checks that say whether it is read are warnings, until records are about to expire.
        """
        paused = f"The stream is {pause}"
        if self.name not in _OF_READING:
            passed, severity, description = self.passed, self.severity, f"{self.description}. {paused}"
        elif self.name == "time_to_loss" and not self.passed:
            passed, severity, description = False, self.severity, f"{paused}. {self.description}"
        else:
            passed, severity, description = False, "WARN", paused
        metadata = {PAUSED: str(pause), **self.metadata}
        return CheckResult(self.name, passed, severity, description, metadata)

    def of(self, key: dg.AssetKey) -> dg.AssetCheckResult:
        """Return the result as the op of a check returns it."""
        return dg.AssetCheckResult(
            passed=self.passed,
            asset_key=key,
            check_name=self.name,
            severity=self.dagster_severity,
            description=self.description,
            metadata=dict(self.metadata),
        )


def worst(rows: Sequence[Mapping[str, str]], what: str = "shards") -> dict[str, Any]:
    """Return the metadata with the first rows of a table, worst first, and the number of those left out."""
    if not rows:
        return {}
    shown: dict[str, Any] = {
        what: dg.MetadataValue.table([dg.TableRecord(dict(row)) for row in rows[:WORST]])
    }
    if len(rows) > WORST:
        shown[f"{what} not shown"] = len(rows) - WORST
    return shown


def duration(seconds: float) -> str:
    """Return a duration for people, such as `45 s`, `12 min`, `3.5 h` or `2.0 days`."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds / _HOUR:.1f} h"
    return f"{seconds / _DAY:.1f} days"


def counted(number: int, what: str) -> str:
    """Return a number with the plural of what it counts, such as `1 shard` or `3 shards`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


RENEWED_AFTER = 3600.0
"""Seconds after which a failure is reported again, with its present numbers."""


TIME_TO_REPORT = 120.0
"""Seconds after a materialization within which its run reports the checks, if it does."""


TIME_TO_EXECUTE = 300.0
"""Seconds for which a check is left to the run that has planned it, whose process may have died."""


@dataclass(frozen=True)
class Reports:
    """The checks of one asset as Dagster shows them.

    A check has one row for each run, which each result of the run updates, and one for each result outside of
    a run. Dagster shows only the newest row, so a result outside of a run would hide what a run that goes on
    reports later.

    Attributes:
        executions: The newest row of each check, by the check's name.
        latest: The asset's latest materialization; None if it has none.
    """

    instance: dg.DagsterInstance
    key: dg.AssetKey
    executions: Mapping[str, Any]
    latest: dg.EventLogRecord | None

    @classmethod
    def of(cls, instance: dg.DagsterInstance, key: dg.AssetKey, names: Iterable[str]) -> Reports:
        """Read what Dagster shows."""
        keys = [dg.AssetCheckKey(key, name) for name in names]
        executions = {each.name: record for each, record in latest_check_executions(instance, keys).items()}
        records = instance.fetch_materializations(key, limit=1).records
        return cls(instance, key, executions, records[0] if records else None)

    @cached_property
    def running(self) -> Collection[str]:
        """The ids of the unfinished runs that execute or have reported a check, or materialize the asset."""
        records = [*self.executions.values(), *([] if self.latest is None else [self.latest])]
        run_ids = {record.run_id for record in records if record.run_id}
        runs = self.instance.get_runs(dg.RunsFilter(run_ids=sorted(run_ids))) if run_ids else []
        return {run.run_id for run in runs if not run.is_finished}

    def report(self, results: Iterable[CheckResult], now: float) -> list[dg.AssetCheckEvaluation]:
        """Report the due results of a tick, and return those that are to be reported outside of a run."""
        return [
            evaluation
            for result in results
            if not self._is_left(self.executions.get(result.name), now)
            for evaluation in self._due_beside_runs(result, now)
        ]

    def _due_beside_runs(self, result: CheckResult, now: float) -> list[dg.AssetCheckEvaluation]:
        """Report a due result in the row that Dagster shows; return it if it needs a row outside of a run."""
        record = self.executions.get(result.name)
        is_shown = self._is_shown(record)
        if is_shown and _is_same(record, result, now):
            return []
        if is_shown and record is not None and record.run_id in self.running:
            report_check_of_run(self.instance, record.event, self._evaluation(result, None))
            return []
        target = None if self.latest is None else check_target(self.latest)
        return [self._evaluation(result, target)]

    def due_in_run(
        self, results: Iterable[CheckResult], run_id: str, now: float, reported: Collection[str] = ()
    ) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the results that a run reports which materializes the asset.

        `reported` are the names of the checks that the run has reported.
        """
        for result in results:
            record = self.executions.get(result.name)
            is_own = record is not None and record.run_id == run_id
            if result.name in reported and not is_own:
                # Dagster would update the row of the run, but goes on showing a newer one.
                for evaluation in self._due_beside_runs(result, now):
                    self.instance.report_runless_asset_event(evaluation)
            elif not is_own or not _is_same(record, result, now):
                yield self._evaluation(result, None)

    def carried_over_in_run(self, run_id: str) -> Iterator[dg.AssetCheckEvaluation]:
        """Yield the last results that a run reports again which materializes the asset."""
        for record in self.executions.values():
            evaluation = _evaluation_of(record)
            if evaluation is not None and record.run_id != run_id:
                yield _without_target(evaluation)

    def _is_shown(self, record: Any) -> bool:
        evaluation = _evaluation_of(record)
        if evaluation is None:
            return False
        if self.latest is None or self.latest.run_id == record.run_id:
            return True
        target = evaluation.target_materialization_data
        return target is not None and target.storage_id == self.latest.storage_id

    def _is_left(self, record: Any, now: float) -> bool:
        """Return whether a run reports the check: it has just planned it, or materialized the asset."""
        if record is not None and record.run_id in self.running:
            if _evaluation_of(record) is not None:
                return False
            planned = record.create_timestamp if record.event is None else record.event.timestamp
            if abs(now - planned) < TIME_TO_EXECUTE:
                return True
        latest = self.latest
        return (
            latest is not None
            and abs(now - latest.timestamp) < TIME_TO_REPORT
            and latest.run_id in self.running
        )

    def _evaluation(self, result: CheckResult, target: Any) -> dg.AssetCheckEvaluation:
        return dg.AssetCheckEvaluation(
            asset_key=self.key,
            check_name=result.name,
            passed=result.passed,
            metadata=dict(result.metadata),
            target_materialization_data=target,
            severity=result.dagster_severity,
            description=result.description,
        )


def _evaluation_of(record: Any) -> dg.AssetCheckEvaluation | None:
    """Return the result of an execution; None if it has none, because its run has not ended or has failed."""
    evaluation = None if record is None else record.evaluation
    return evaluation if isinstance(evaluation, dg.AssetCheckEvaluation) else None


def _is_same(record: Any, result: CheckResult, now: float) -> bool:
    """Return whether a result is that of the last execution. A failure is renewed at times."""
    evaluation = _evaluation_of(record)
    if evaluation is None or evaluation.passed != result.passed:
        return False
    paused = evaluation.metadata.get(PAUSED)
    if (None if paused is None else paused.value) != result.metadata.get(PAUSED):
        return False
    if result.passed:
        return True
    recent = now - float(record.event.timestamp) < RENEWED_AFTER  # the row of a run may be as old as the run
    return recent and evaluation.severity is result.dagster_severity


def _without_target(evaluation: dg.AssetCheckEvaluation) -> dg.AssetCheckEvaluation:
    """Return a result without the materialization that it was for."""
    return dg.AssetCheckEvaluation(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        metadata=evaluation.metadata,
        severity=evaluation.severity,
        description=evaluation.description,
    )


_log = logging.getLogger(__name__)

INTERVAL = 30.0
"""Minimum seconds from one report of a continuous run to the next."""

_NOT_EVALUATED = "%s: the checks cannot be evaluated, so the run repeats their last results: %s"
_NOT_REPORTED = "%s: the run cannot report the checks, and goes on without them: %s"


class RunReports(ABC):
    """Reports the checks of one table in one run."""

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
        self._own: set[str] = set()

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
            due = reports.carried_over_in_run(run_id)
        else:
            due = reports.due_in_run(results, run_id, now, self._own)
        for evaluation in due:
            report_check(self._step, evaluation)
            self._own.add(evaluation.check_name)
