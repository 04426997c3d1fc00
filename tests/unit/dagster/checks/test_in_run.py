"""The checks in a run that has committed rows."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import dagster as dg
import pytest

from kinesis_assets.dagster.checked_table import CheckedTable
from kinesis_assets.dagster.checks.derived_in_run import DerivedRunChecks
from kinesis_assets.dagster.checks.in_run import RunChecks
from kinesis_assets.dagster.checks.reports import Reports
from kinesis_assets.dagster.checks.run_reports import INTERVAL, RunReports
from kinesis_assets.dagster.settings.derived_check_settings import DerivedChecks
from kinesis_assets.dagster.settings.stream_check_settings import Checks
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.errors import TableUnreachable
from support.mentions import assert_mentions


class _Unreachable:
    """A Dagster instance whose database does not respond."""

    def __getattr__(self, name):
        raise ConnectionError("the database does not respond")


def test_checks_that_cannot_be_reported_do_not_fail_the_run(caplog):
    step = SimpleNamespace(instance=_Unreachable(), run_id="run")
    opened = SimpleNamespace(name="clicks", names=StreamNames("clicks"), checks=Checks())
    with caplog.at_level(logging.WARNING):
        RunChecks(step, opened, listing=None).report()
    assert_mentions(caplog.text, "stream clicks: ", "checks", "the database does not respond")


def test_checks_of_a_derived_table_that_cannot_be_reported_do_not_fail_the_run(caplog):
    step = SimpleNamespace(instance=_Unreachable(), run_id="run")
    checks = DerivedChecks()
    table = CheckedTable(
        dg.AssetKey("orders"), StreamNames("clicks"), "orders", "clicks", OnDeleted.FAIL, (), checks
    )
    with caplog.at_level(logging.WARNING):
        DerivedRunChecks(step, table).report()
    assert_mentions(caplog.text, "table orders: ", "checks", "the database does not respond")


class _Counted(RunReports):
    """Checks that count how often they are evaluated."""

    evaluations = 0

    def _evaluated(self, now):
        del now
        self.evaluations += 1
        return []


@pytest.mark.parametrize(("seconds", "evaluations"), [(INTERVAL - 1, 1), (INTERVAL, 2), (-1, 2)])
def test_a_run_that_commits_often_evaluates_the_checks_at_times(instance, seconds, evaluations):
    times = iter([1000.0, 1000.0 + seconds])
    step = SimpleNamespace(instance=instance, run_id="run")
    checks = _Counted(step, dg.AssetKey("orders"), ["lag"], "orders", lambda: next(times))
    checks.report()
    checks.report()
    assert checks.evaluations == evaluations


class _NotEvaluated(RunReports):
    """Checks whose table cannot be read."""

    def _evaluated(self, now):
        del now
        raise TableUnreachable("s3://lake/orders", "gone")


def test_a_run_that_cannot_evaluate_the_checks_repeats_their_last_results(instance):
    key = dg.AssetKey("orders")
    last = dg.AssetCheckEvaluation(
        key, "lag", passed=False, severity=dg.AssetCheckSeverity.WARN, description="late"
    )
    instance.report_runless_asset_event(last)

    @dg.asset
    def orders(context):
        _NotEvaluated(context.get_step_execution_context(), key, ["lag"], "orders").report()

    result = dg.materialize([orders], instance=instance)
    shown = Reports.of(instance, key, ["lag"]).executions["lag"]
    assert (shown.run_id, shown.evaluation.passed) == (result.run_id, False)
    assert (shown.evaluation.severity, shown.evaluation.description) == (last.severity, "late")
