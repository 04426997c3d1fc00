"""The checks in a run that has committed rows."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from types import SimpleNamespace

import dagster as dg
import pytest

from kinesis_assets.dagster.checks.evaluation import ChecksProgress
from kinesis_assets.dagster.checks.in_run import DerivedRunChecks, RunChecks, evaluated_raw
from kinesis_assets.dagster.checks.results import INTERVAL, CheckResult, Reports, RunReports
from kinesis_assets.dagster.sensor import sensor_cursor
from kinesis_assets.dagster.sensor.sensor_runs import Failing, ShardBackoff
from kinesis_assets.dagster.settings.check_settings import Checks
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import ReadFailed, ShardThrottled, TableUnreachable
from kinesis_assets.ingest.outcome import ShardOutcome, ShardState
from support.checked_tables import checked_table
from support.mentions import assert_mentions
from support.run_results import reading_facts
from support.shard_ids import A, B

pytestmark = pytest.mark.slow


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
    table = checked_table("orders", "orders", "clicks")
    with caplog.at_level(logging.WARNING):
        DerivedRunChecks(step, table, opened=None).report()
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


class _CountedOfStream(RunChecks):
    """Checks of a stream that record which shards fail whenever they are evaluated."""

    def __init__(self, instance):
        step = SimpleNamespace(instance=instance, run_id="run")
        opened = SimpleNamespace(name="clicks", names=StreamNames("clicks"), checks=Checks())
        super().__init__(step, opened, listing=None, clock=lambda: 1000.0)
        self.found = []

    def _evaluated(self, now):
        del now
        self.found.append(dict(self._failing))
        return []


def test_a_shard_that_starts_or_ceases_to_fail_is_evaluated_at_once(instance):
    checks = _CountedOfStream(instance)
    outcomes = {"a": ShardOutcome("a", ShardState.FAILED, error=ShardThrottled("a", "throttled"))}
    for failed in (set(), set(), {"a"}, {"a"}, set()):
        checks.report_after(outcomes, failed)
    assert checks.found == [{}, {"a": "a: throttled"}, {}]


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


def test_results_that_were_repeated_count_as_reported_by_the_run(instance):
    key = dg.AssetKey("orders")
    instance.report_runless_asset_event(dg.AssetCheckEvaluation(key, "lag", passed=False))

    class OnceUnreachable(RunReports):
        """Checks whose table can be read from the second attempt on."""

        attempts = 0

        def _evaluated(self, now):
            del now
            self.attempts += 1
            if self.attempts == 1:
                raise TableUnreachable("s3://lake/orders", "gone")
            return [CheckResult("lag", True, "ERROR", "well")]

    times = iter([1000.0, 1000.0 + INTERVAL])

    @dg.asset
    def orders(context):
        step = context.get_step_execution_context()
        checks = OnceUnreachable(step, key, ["lag"], "orders", lambda: next(times))
        checks.report()
        # The sensor reports a result for a materialization outside of the run, and Dagster shows that.
        instance.report_runless_asset_event(dg.AssetMaterialization(key))
        instance.report_runless_asset_event(dg.AssetCheckEvaluation(key, "lag", passed=False))
        checks.report()

    dg.materialize([orders], instance=instance)
    assert Reports.of(instance, key, ["lag"]).executions["lag"].evaluation.passed


@pytest.mark.parametrize(("ticked_ago", "passed"), [(60, False), (7200, True)])
def test_an_execution_of_the_checks_leaves_out_what_a_sensor_found_that_has_stopped(
    daemon, source, monkeypatch, ticked_ago, passed
):
    source.create(1)
    daemon.commit([A], by=None)
    now = time.time()
    memory = sensor_cursor.Cursor(
        backoff=ShardBackoff({A: Failing(1, now, "run")}),
        checks=ChecksProgress(at=now - ticked_ago, waiting={A: now - 7200}),
    )
    # An instance in memory does not store the states of sensors.
    monkeypatch.setattr(sensor_cursor, "sensor_cursors", lambda *_: [memory.encode()])
    found = {each.name: each.passed for each in evaluated_raw(daemon.instance, daemon.opened)}
    assert (found["lag"], found["every_shard_read"]) == (passed, passed)


MINUTE = 60.0


class _Late:
    """A stream whose shards have waited to be read for an hour, as its sensor has found."""

    def __init__(self, daemon, source):
        source.create(2)
        daemon.commit([A, B], by=None)
        source.put(A, 3)
        source.put(B, 3)
        self.daemon, self.now = daemon, time.time()
        self.tick()
        self.now += 60 * MINUTE
        self.tick()

    def tick(self):
        self.daemon.clock = lambda: self.now
        self.daemon.tick()

    def lag_in_run(self, *results):
        """Return the result of the check in a run with these results, a minute after the last one."""
        opened = self.daemon.opened
        step = SimpleNamespace(instance=self.daemon.instance, run_id="run")
        checks = RunChecks(step, opened, opened.client.listing(), lambda: self.now)
        for result in results:
            checks.add(result)
            self.now += MINUTE
        return next(each for each in checks._evaluated(self.now) if each.name == "lag")


@pytest.fixture
def late(daemon, source, monkeypatch):
    # An instance in memory does not store the states of sensors.
    monkeypatch.setattr(sensor_cursor, "sensor_cursors", lambda *_: [daemon.cursor])
    return _Late(daemon, source)


def shards_in(result):
    return [record.data["shard"] for record in result.metadata["shards"].records]


def test_the_lag_in_a_run_is_that_of_the_shards_that_it_has_not_read(late):
    result = late.lag_in_run(late.daemon.commit([A], by=None))
    assert (result.passed, shards_in(result)) == (False, [B])


def test_a_run_that_has_read_all_late_shards_reports_no_lag(late):
    result = late.lag_in_run(late.daemon.commit([A, B], by=None))
    assert (result.passed, result.metadata["worst lag (s)"]) == (True, 0)


def with_failure(result, shard_id):
    """Return a result in which a shard has failed too, which was last read ten minutes before."""
    outcome = ShardOutcome(
        shard_id,
        ShardState.FAILED,
        facts=reading_facts(),
        lag_ms=int(10 * MINUTE * 1000),
        error=ReadFailed(shard_id, "denied"),
    )
    return replace(result, outcomes={**result.outcomes, shard_id: outcome})


def test_a_shard_that_fails_in_a_run_is_listed_since_the_sensor_found_it(late):
    result = late.lag_in_run(with_failure(late.daemon.commit([A], by=None), B))
    assert (result.passed, shards_in(result)) == (False, [B])
    assert result.metadata["worst lag (s)"] == pytest.approx(61 * MINUTE, abs=MINUTE)


def test_a_shard_in_which_the_last_tick_found_nothing_is_listed_once_it_fails(late):
    read = late.daemon.commit([A, B], by=None)
    late.tick()
    late.now += 5 * MINUTE
    result = late.lag_in_run(with_failure(read, B))
    assert (result.passed, shards_in(result)) == (True, [B])
    assert result.metadata["worst lag (s)"] == pytest.approx(6 * MINUTE, abs=5)


def test_without_a_sensor_a_shard_that_fails_counts_from_its_last_read(late):
    read = late.daemon.commit([A, B], by=None)
    late.now += 20 * MINUTE
    result = late.lag_in_run(with_failure(read, B))
    assert shards_in(result) == [B]
    assert result.metadata["worst lag (s)"] == pytest.approx(11 * MINUTE, abs=5)


def test_a_shard_that_was_read_in_the_run_before_it_failed_counts_from_then(late):
    read = late.daemon.commit([A, B], by=None)
    result = late.lag_in_run(read, with_failure(read, B))
    assert (result.passed, shards_in(result)) == (True, [B])
    assert result.metadata["worst lag (s)"] == pytest.approx(2 * MINUTE, abs=5)
