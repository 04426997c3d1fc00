"""The sensor evaluates the checks without a run, and reports only what changed."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import dagster as dg
import pytest
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationPlanned

from kinesis_assets.dagster.checks.results import TIME_TO_EXECUTE, TIME_TO_REPORT, CheckResult, Reports
from kinesis_assets.dagster.partition_ranges import continuous_run_tags
from kinesis_assets.dagster.settings.check_settings import SCANNING
from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.delta.version import TableVersion
from kinesis_assets.table.positions.positions import Seek
from support.daemon import FIRST, LAST, Daemon
from support.forged_positions import forge_shards
from support.raw_checks import CHECKS
from support.shard_ids import A, B
from support.stream_names import raw_key

pytestmark = pytest.mark.slow

HOUR = 3600.0
FREE = {name for name, _ in CHECKS.defined} - SCANNING
TABLELESS = {"lag", "time_to_loss", "every_shard_read", "bad_records"}


@pytest.fixture
def checked(source, daemon: Daemon) -> Daemon:
    """The daemon of a stream with two shards, whose first records are committed and reported."""
    source.create(2)
    source.put(A, 3)
    daemon.tick()
    commit(daemon, A, B)
    return daemon


def commit(daemon, *shard_ids):
    """Commit a run and report its materializations, without its checks."""
    run = daemon.run({FIRST: shard_ids[0], LAST: shard_ids[-1]})
    result = daemon.commit(shard_ids, run.run_id)
    for shard_id in shard_ids:
        metadata = {"batch_id": str(result.batch_id)}
        event = dg.AssetMaterialization(raw_key(daemon.project.stream), partition=shard_id, metadata=metadata)
        daemon.report_event(run, event)
    daemon.end(run, dg.DagsterRunStatus.SUCCESS)


def forge(daemon, **changes):
    """Commit a change of the position of A that no run would commit."""
    forge_shards(daemon.opened.table, daemon.positions, A, **changes)


def evaluations(daemon):
    """Return the results that the next tick reports, by the name of the check."""
    events = daemon.tick().asset_events
    return {event.check_name: event for event in events if isinstance(event, dg.AssetCheckEvaluation)}


def executions(daemon):
    keys = [dg.AssetCheckKey(raw_key(daemon.project.stream), name) for name in FREE]
    return {
        key.name: record
        for key, record in daemon.instance.event_log_storage.get_latest_asset_check_execution_by_key(
            keys
        ).items()
    }


def latest(daemon):
    (record,) = daemon.instance.fetch_materializations(raw_key(daemon.project.stream), limit=1).records
    return record


def test_a_tick_reports_each_check_for_the_latest_materialization(checked):
    found = evaluations(checked)
    assert found.keys() == FREE
    assert all(event.passed for event in found.values())
    assert {event.target_materialization_data.storage_id for event in found.values()} == {
        latest(checked).storage_id
    }


def test_a_tick_before_the_first_run_reports_the_checks_of_shards(source, daemon):
    source.create(2)
    assert evaluations(daemon).keys() == TABLELESS


def test_a_tick_without_news_reports_nothing(checked):
    checked.tick()
    assert evaluations(checked) == {}


def test_a_tick_without_news_reads_no_positions_and_no_files_for_the_checks(checked, monkeypatch):
    checked.tick()
    monkeypatch.delattr(TableVersion, "data_files")
    assert evaluations(checked) == {}


def test_a_new_materialization_gets_the_results_again(checked, source):
    checked.tick()
    source.put(A, 1)
    commit(checked, A, B)
    found = evaluations(checked)
    assert found.keys() == FREE
    assert {event.target_materialization_data.storage_id for event in found.values()} == {
        latest(checked).storage_id
    }


def test_a_break_of_the_chain_turns_the_check_red_without_a_run(checked):
    checked.tick()
    forge(checked, position=Position.after("9" * 56))
    found = evaluations(checked)
    assert found.keys() == {"continuity"}
    assert not found["continuity"].passed
    assert found["continuity"].severity is dg.AssetCheckSeverity.ERROR
    assert evaluations(checked) == {}


def test_what_a_catch_up_is_still_to_add_turns_the_check_red_before_it_expires(checked):
    checked.tick()
    shard = checked.positions.shards[A]
    since = shard.tip_time - timedelta(hours=19)
    gap = Gap(after=shard.position, since=since, next_sequence_number=None, until=since, to_fill=True)
    jump = Seek(at=shard.tip_time, by="ann", before=shard.position, after=shard.position)
    forge(checked, gaps=(gap,), seeks=(jump,))
    found = evaluations(checked)
    assert not found["time_to_loss"].passed
    assert "no_accepted_data_loss" not in found  # it is green, as before
    checked.clock = lambda: shard.tip_time.timestamp() + 2 * HOUR
    assert not evaluations(checked)["no_accepted_data_loss"].passed


def test_a_lag_turns_the_check_red_and_a_run_turns_it_green(checked):
    checked.tick()
    now = checked.positions.shards[A].tip_time.timestamp()
    checked.clock = lambda: now + 24 * HOUR
    found = evaluations(checked)
    assert {name for name, event in found.items() if not event.passed} >= {"lag", "time_to_loss"}
    checked.clock = lambda: now
    found = evaluations(checked)
    assert found["lag"].passed
    assert found["time_to_loss"].passed


def test_a_failure_is_reported_again_after_an_hour(checked):
    forge(checked, position=Position.after("9" * 56))
    checked.tick()
    stored = executions(checked)["continuity"].create_timestamp
    checked.clock = lambda: stored + HOUR - 60
    assert "continuity" not in evaluations(checked)
    checked.clock = lambda: stored + HOUR + 60
    assert "continuity" in evaluations(checked)


def test_a_result_that_an_execution_in_the_ui_replaced_is_corrected(checked):
    checked.tick()
    key = raw_key(checked.project.stream)
    checked.instance.report_runless_asset_event(dg.AssetCheckEvaluation(key, "lag", passed=False))
    assert evaluations(checked)["lag"].passed


class Going:
    """A run that goes on for long, and reports its materializations and checks."""

    def __init__(self, daemon, tags=None):
        self.daemon, self.key = daemon, raw_key(daemon.project.stream)
        self.run = daemon.run(tags or {FIRST: A, LAST: B})
        self.own = set()
        self.now = time.time()
        daemon.clock = lambda: self.now

    def materialize(self):
        self.daemon.report_event(self.run, dg.AssetMaterialization(self.key, partition=A))
        return self

    def report(self, *failed):
        """Report the results of the checks as the run finds them, and return how many."""
        results = [CheckResult(name, name not in failed, "ERROR", "") for name in sorted(FREE)]
        reports = Reports.of(self.daemon.instance, self.key, FREE)
        due = [*reports.due_in_run(results, self.run.run_id, self.now, self.own)]
        for evaluation in due:
            kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION.value
            event = dg.DagsterEvent(kind, self.run.job_name, event_specific_data=evaluation)
            self.daemon.instance.report_dagster_event(event, self.run.run_id)
        self.own |= {evaluation.check_name for evaluation in due}
        return len(due)

    def tick(self):
        """Return how many results a tick reports, in the name of the run or outside of it."""
        before = self.reported
        return len(evaluations(self.daemon)) + self.reported - before

    @property
    def reported(self):
        """How many results are reported in the name of the run."""
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        return len(self.daemon.instance.get_records_for_run(self.run.run_id, of_type=kind).records)

    @property
    def red(self):
        """The checks that Dagster shows as failed for the latest materialization."""
        shown = executions(self.daemon)
        return {
            name
            for name, record in shown.items()
            if record.run_id == self.run.run_id and not record.evaluation.passed
        }


def test_a_run_and_the_sensor_do_not_repeat_the_results_of_each_other(checked):
    going = Going(checked).materialize()
    assert going.report() == len(FREE)
    forge(checked, position=Position.after("9" * 56))
    assert going.tick() == 1
    going.materialize()
    assert (going.report("continuity"), going.tick()) == (0, 0)
    assert going.red == {"continuity"}


def test_runs_beside_each_other_do_not_repeat_the_results_of_each_other(checked):
    going, other = Going(checked).materialize(), Going(checked).materialize()
    assert (going.report(), other.report()) == (len(FREE), len(FREE))
    assert (going.report(), other.report()) == (0, 0)
    going.report("continuity")
    shown, reported = executions(checked)["continuity"], other.reported
    assert not shown.evaluation.passed
    assert (other.report("continuity"), other.reported) == (0, reported)
    assert executions(checked)["continuity"].id == shown.id


def test_a_failure_of_one_run_is_shown_after_a_tick_has_reported_beside_another_run(checked):
    going, other = Going(checked).materialize(), Going(checked).materialize()
    going.report()
    other.report()
    going.materialize().tick()
    for run in (going, other):
        run.materialize().report("continuity")
        assert run.tick() == 0
    assert not executions(checked)["continuity"].evaluation.passed


def test_a_failure_of_a_run_is_shown_after_a_materialization_outside_of_it(checked):
    going = Going(checked).materialize()
    going.report()
    checked.instance.report_runless_asset_event(dg.AssetMaterialization(going.key))
    going.tick()
    going.materialize().report("continuity")
    assert not executions(checked)["continuity"].evaluation.passed


@pytest.mark.parametrize(("age", "reported"), [(60, 0), (HOUR + 60, 1)])
def test_a_failure_that_lasts_in_a_long_run_is_reported_once_an_hour(checked, age, reported):
    going = Going(checked).materialize()
    going.report("lag")
    reports = Reports.of(checked.instance, going.key, ["lag"])
    record = reports.executions["lag"]
    old = record._replace(create_timestamp=record.create_timestamp - 12 * HOUR)
    reports = replace(reports, executions={"lag": old})
    result = CheckResult("lag", False, "ERROR", "")
    assert len([*reports.due_in_run([result], going.run.run_id, record.event.timestamp + age)]) == reported


def test_a_tick_does_not_turn_the_failure_of_a_shard_green_that_a_run_reports(checked):
    going = Going(checked, continuous_run_tags((A, B), HOUR, 0.0)).materialize()
    going.report("every_shard_read")
    metadata = {"state": "failed", "error class": "ReadFailed", "rows": 0}
    checked.report_event(going.run, dg.AssetObservation(going.key, partition=B, metadata=metadata))
    going.materialize().tick()
    assert going.red == {"every_shard_read"}


def test_the_sensor_leaves_the_checks_to_a_run_that_is_about_to_report_them(checked):
    going = Going(checked).materialize()
    assert going.tick() == 0
    assert going.report() == len(FREE)
    assert going.tick() == 0


def test_the_sensor_reports_the_checks_that_a_run_does_not(checked):
    going = Going(checked).materialize()
    going.now += TIME_TO_REPORT + 60
    assert going.tick() == len(FREE)


def plan(daemon):
    """Store a run that somebody has started to execute the checks, and that has not begun to."""
    run, key = daemon.run({}), raw_key(daemon.project.stream)
    for name in FREE:
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED.value
        planned = AssetCheckEvaluationPlanned(asset_key=key, check_name=name)
        event = dg.DagsterEvent(kind, run.job_name, event_specific_data=planned)
        daemon.instance.report_dagster_event(event, run.run_id)


def test_the_sensor_leaves_the_checks_to_a_run_that_is_about_to_execute_them(checked):
    plan(checked)
    assert evaluations(checked) == {}


def test_the_sensor_reports_the_checks_that_a_run_was_to_execute_whose_process_has_died(checked):
    plan(checked)
    now = time.time()
    checked.clock = lambda: now + TIME_TO_EXECUTE + 60
    assert evaluations(checked).keys() == FREE
    assert evaluations(checked) == {}


def test_a_failing_tick_reports_the_checks_that_a_run_was_to_execute_whose_process_has_died(checked, faults):
    checked.tick()
    plan(checked)
    faults.fail("ListShards", status=400, code="AccessDeniedException")
    now = time.time()
    checked.clock = lambda: now + 24 * HOUR
    with pytest.raises(KinesisAssetsError):
        checked.tick()
    red = {name for name, record in executions(checked).items() if record.status.value == "FAILED"}
    assert red >= {"lag", "time_to_loss", "every_shard_read"}


# What is stored by a process that is killed


class Killed(BaseException):
    """The process ends."""


@pytest.fixture(params=["before", "after"])
def killing(request, checked, monkeypatch):
    """Kills whoever stores the result of a check, before or after it is stored."""

    @contextmanager
    def killing():
        store = checked.instance.report_dagster_event

        def killed(*arguments, **named):
            if request.param == "after":
                store(*arguments, **named)
            raise Killed

        monkeypatch.setattr(checked.instance, "report_dagster_event", killed)
        with pytest.raises(Killed):
            yield
        monkeypatch.undo()

    return killing


def shown_as_failed(daemon):
    """The checks that Dagster shows as failed. It shows a result of each for the latest materialization."""
    reports = Reports.of(daemon.instance, raw_key(daemon.project.stream), FREE)
    assert [name for name, record in reports.executions.items() if not reports._is_shown(record)] == []
    return {name for name, record in reports.executions.items() if not record.evaluation.passed}


def test_a_tick_that_is_killed_when_it_reports_for_a_run_loses_no_result(checked, killing):
    going = Going(checked).materialize()
    going.report()
    forge(checked, position=Position.after("9" * 56))
    with killing():
        going.tick()
    going.tick()
    assert going.red == shown_as_failed(checked) == {"continuity"}
    assert (going.tick(), going.report("continuity")) == (0, 0)


def tick(going):
    """The sensor ticks while Dagster counts the killed run as started."""
    going.now += TIME_TO_REPORT + 60
    going.tick()


def tick_after_its_end(going):
    """The sensor ticks once Dagster has ended the killed run."""
    going.daemon.end(going.run, dg.DagsterRunStatus.FAILURE)
    going.tick()


def next_run(going):
    """The shards are read by a run that is started after the killed one."""
    going.daemon.end(going.run, dg.DagsterRunStatus.FAILURE)
    Going(going.daemon).materialize().report("continuity")


@pytest.mark.parametrize("repair", [tick, tick_after_its_end, next_run])
@pytest.mark.parametrize("beside", [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS])
def test_a_run_that_is_killed_when_it_reports_beside_another_loses_no_result(
    checked, killing, beside, repair
):
    going, other = Going(checked).materialize(), Going(checked).materialize()
    going.report()
    other.report()
    if beside is dg.DagsterRunStatus.SUCCESS:  # its rows are the newest, but no longer those of a run
        checked.end(other.run, beside)
    forge(checked, position=Position.after("9" * 56))
    with killing():
        going.report("continuity")
    repair(going)
    # Once the killed run has ended, a tick shows as well that its shards have failed.
    assert shown_as_failed(checked) - {"every_shard_read"} == {"continuity"}


def test_requested_runs_do_not_execute_the_checks(source, daemon):
    source.create(2)
    (request,) = daemon.tick().run_requests
    assert request.asset_check_keys == []
