"""Continuous runs in Dagster: their events, how they end, and how the next run takes over."""

from __future__ import annotations

import os
import signal
import threading
import time

import dagster as dg
import pytest

from benchmarks.harness.waiting import wait_until
from kinesis_assets.dagster.partition_ranges import FOLLOW_TAG, continuous_run_tags, range_tags
from kinesis_assets.errors import InvalidInput
from support.continuous_runs import ContinuousRuns
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status
from support.dagster_runs import totals
from support.mentions import assert_mentions
from support.raw_checks import CHECKS
from support.stream_names import raw_key, shard_partitions

A, B, C, D = (f"shardId-{number:012d}" for number in range(4))
OBSERVATION = dg.DagsterEventType.ASSET_OBSERVATION


def is_passed(evaluation):
    """Return whether a check has a result, and is not only planned, and has passed."""
    return isinstance(evaluation, dg.AssetCheckEvaluation) and evaluation.passed


@pytest.fixture
def runs(make_project, instance):
    """Runs of a project with continuous runs. A run lasts half of `follow_for` longer than its tag says."""
    return ContinuousRuns(make_project(follow_for=2.0, commit_interval=0.2), instance)


@pytest.mark.usefixtures("spark")
class TestOneRun:
    def test_each_commit_materializes_the_partitions_that_moved(self, source, runs):
        source.create(3)
        source.put(A, 2)
        join = runs.start_continuously(A, B, C, seconds=300)
        wait_until(lambda: len(runs.rows()) == 2)
        source.put(B, 3)
        wait_until(lambda: len(runs.rows()) == 5)
        source.put(A, 1)
        wait_until(lambda: len(runs.rows()) == 6)
        source.split(A)
        source.split(B)
        source.split(C)  # the run ends when all its shards are finished
        run = join()
        assert run.status is Status.SUCCESS
        events = runs.events(run)
        assert [(shard_id, rows) for shard_id, rows, _ in events if rows] == [(A, 2), (B, 3), (A, 1)]
        assert {batch for _, rows, batch in events if rows} == {batch for _, _, batch in runs.rows()}

    def test_the_checks_are_reported_while_the_run_goes_on(self, source, runs, instance):
        source.create(1)
        source.put(A, 2)
        join = runs.start_continuously(A, seconds=300)
        (run,) = wait_until(runs.with_started_step)
        names = CHECKS.reading_no_rows
        keys = [dg.AssetCheckKey(raw_key(source.name), name) for name in names]

        def passed():
            found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
            return {
                key.name
                for key, record in found.items()
                if record.run_id == run.run_id and is_passed(record.evaluation)
            }

        wait_until(lambda: passed() == {*names})
        assert instance.get_run_by_id(run.run_id).status is Status.STARTED
        source.split(A)  # the run ends when all its shards are finished
        assert join().status is Status.SUCCESS

    def test_the_shards_are_listed_once_before_the_first_read_as_in_any_other_run(self, source, runs, faults):
        source.create(1)
        runs.add(A)
        assert runs.run(range_tags([A])).status is Status.SUCCESS
        listed = []

        def record():
            listed.append(faults.count("ListShards"))

        for tags in (range_tags([A]), continuous_run_tags([A], 1.0, 0.0)):
            source.put(A, 1)
            record()
            faults.before("GetRecords", record, times=1)
            assert runs.run(tags).status is Status.SUCCESS
        before, in_a_run, between, in_a_continuous_run = listed
        assert in_a_continuous_run - between == in_a_run - before

    def test_partitions_that_did_not_move_get_no_event(self, source, runs, instance):
        source.create(3)
        source.put(B, 2)
        run = runs.run_continuously(A, B, C, seconds=1.0)
        assert run.status is Status.SUCCESS
        assert [(shard_id, rows) for shard_id, rows, _ in runs.events(run)] == [(B, 2)]
        assert runs.events(run, OBSERVATION) == []
        (facts,) = totals(instance, run.run_id)
        assert (facts["total rows"], facts["open shards"], facts["dagster/row_count"]) == (2, 3, 2)
        assert instance.get_materialized_partitions(raw_key(source.name)) == {B}

    def test_a_failed_shard_fails_the_run_at_its_end_and_the_others_are_materialized(
        self, source, runs, instance, faults
    ):
        source.create(3)
        source.put(B, 2)
        faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
        run = runs.run_continuously(A, B, C, seconds=2.0)
        assert run.status is Status.FAILURE
        assert {(shard_id, rows) for shard_id, rows, _ in runs.events(run)} == {(B, 2), (C, 0)}
        assert [(shard_id, rows) for shard_id, rows, _ in runs.events(run, OBSERVATION)] == [(A, 0)]
        assert {facts["failed shards"] for facts in totals(instance, run.run_id)} == {1}
        key = dg.AssetCheckKey(raw_key(source.name), "every_shard_read")
        check = instance.event_log_storage.get_latest_asset_check_execution_by_key([key])[key]
        assert (check.run_id, check.evaluation.passed) == (run.run_id, False)
        partitions = shard_partitions(source.name)
        status = instance.get_status_by_partition(raw_key(source.name), [A, B, C], partitions)
        assert {key: each.value for key, each in status.items()} == {
            A: "FAILED",
            B: "MATERIALIZED",
            C: "MATERIALIZED",
        }

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
    def test_a_stop_between_two_iterations_cancels_the_run(self, source, runs, number):
        source.create(1)
        source.put(A, 3)

        def stop():
            wait_until(runs.rows)
            os.kill(os.getpid(), number)

        threading.Thread(target=stop).start()
        run = runs.run_continuously(A, seconds=300)
        assert run.status is Status.CANCELED
        assert [(shard_id, rows) for shard_id, rows, _ in runs.events(run)] == [(A, 3)]

    def test_a_stop_within_an_iteration_commits_and_reports_what_was_read(
        self, source, make_project, instance, faults
    ):
        runs = ContinuousRuns(make_project(follow_for=300.0, commit_interval=60.0), instance)
        source.create(1)
        numbers = source.put(A, 100)
        faults.page_size(1)
        faults.before("GetRecords", lambda: os.kill(os.getpid(), signal.SIGTERM), after=8, times=1)
        run = runs.run_continuously(A, seconds=300)
        assert run.status is Status.CANCELED
        ((shard_id, rows, _),) = runs.events(run)
        assert (shard_id, 8 <= rows < 100) == (A, True)
        assert [number for _, number, _ in runs.rows()] == numbers[:rows]

    def test_a_run_without_the_tag_of_continuous_runs_reads_one_range(self, source, runs):
        source.create(2)
        source.put(A, 3)
        runs.add(A, B)
        run = runs.run(range_tags([A, B]))
        assert run.status is Status.SUCCESS
        assert {(shard_id, rows) for shard_id, rows, _ in runs.events(run)} == {(A, 3), (B, 0)}

    def test_an_invalid_tag_of_a_continuous_run_is_refused(self, source, runs, instance):
        source.create(1)
        runs.add(A)
        run = runs.run({**range_tags([A]), FOLLOW_TAG: "for ever"})
        assert run.status is Status.FAILURE
        (record,) = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
        error = record.event_log_entry.get_dagster_event().step_failure_data.error
        assert_mentions(error.to_string(), FOLLOW_TAG, "'for ever'")


@pytest.mark.usefixtures("spark")
def test_the_next_run_takes_over_without_loss_and_without_a_duplicate(source, make_project, instance):
    runs = ContinuousRuns(
        make_project(follow_for=600.0, commit_interval=0.2, sensor_interval_seconds=600), instance
    )
    source.create(2)
    source.put(A, 1)
    # The handover is 300 s, half of `follow_for`: the first run may hand over at once, the second may not.
    first = runs.start_continuously(A, B, seconds=300)
    # Dagster configures logging when a run starts. In one process, that can deadlock with an event of another
    # run: so the second run starts after the event of the first, and more records are put after its start.
    wait_until(lambda: instance.get_materialized_partitions(raw_key(source.name)))
    second = runs.start_continuously(A, B, seconds=600)
    wait_until(lambda: len(runs.with_started_step()) == 2)
    put = {A: 1, B: 0}
    waiting = threading.Thread(target=first, daemon=True)
    waiting.start()

    def put_until_first_ends():
        for shard_id in put:
            source.put(shard_id, 2)
            put[shard_id] += 2
        return not waiting.is_alive()

    wait_until(put_until_first_ends, failure=put)
    source.put(B, 5)
    put[B] += 5
    wait_until(lambda: len(runs.rows()) == sum(put.values()))
    for shard_id in (A, B):
        source.split(shard_id)
    assert [first().status, second().status] == [Status.SUCCESS, Status.SUCCESS]
    rows = runs.rows()
    assert len({(shard_id, number) for shard_id, number, _ in rows}) == len(rows) == sum(put.values())
    events = [*runs.events(first()), *runs.events(second())]
    assert sum(rows for _, rows, _ in events) == len(rows)
    assert sum(rows for _, rows, _ in runs.events(second())) >= 5


# The sensor


class TestSensor:
    @pytest.fixture
    def daemon(self, source, make_project, instance):
        """The daemon of a project with continuous runs over three shards."""
        source.create(3)
        daemon = Daemon(make_project(follow_for=600.0, sensor_interval_seconds=30), instance)
        daemon.clock = time.time
        return daemon

    def start_run(self, daemon, instance, tags):
        """Record the start of a run."""
        run = daemon.run(tags, Status.NOT_STARTED)
        begin = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
        instance.report_dagster_event(begin, run.run_id)
        return run

    def test_its_runs_are_continuous(self, daemon):
        (request,) = daemon.tick().run_requests
        assert request.tags[FOLLOW_TAG] == "600"
        assert request.tags["dagster/max_runtime"] == "1260"
        assert (request.tags[FIRST], request.tags[LAST]) == (A, C)

    def test_a_single_shard_is_requested_as_a_range_so_that_no_limit_delays_the_next_run(self, daemon):
        daemon.add_partitions(A, B, C)
        daemon.run({FIRST: A, LAST: B})
        (request,) = daemon.tick().run_requests
        assert (request.tags[FIRST], request.tags[LAST]) == (C, C)
        assert PARTITION not in request.tags

    def test_the_next_run_is_requested_once_before_the_last_one_ends(self, daemon, instance):
        (request,) = daemon.tick().run_requests
        self.start_run(daemon, instance, request.tags)
        now = time.time()
        daemon.clock = lambda: now + 530
        assert daemon.requested_ranges() == []
        daemon.clock = lambda: now + 545
        assert daemon.requested_ranges() == [(A, C)]
        next_run = daemon.run(dict(request.tags), Status.QUEUED)
        assert daemon.requested_ranges() == []
        instance.report_run_canceled(next_run)
        assert daemon.requested_ranges() == [(A, C)]

    def test_a_run_that_has_not_started_keeps_its_shards(self, daemon):
        (request,) = daemon.tick().run_requests
        daemon.run(dict(request.tags), Status.QUEUED)
        daemon.clock = lambda: time.time() + 10_000
        assert daemon.requested_ranges() == []

    def test_new_shards_are_requested_while_others_are_read_continuously(self, daemon, source, instance):
        (request,) = daemon.tick().run_requests
        self.start_run(daemon, instance, request.tags)
        source.split(C)
        daemon.finish(C)
        assert daemon.requested_ranges() == [(D, "shardId-000000000004")]


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("follow_for", 0, "follow_for.*0"),
        ("follow_for", float("inf"), "follow_for.*finite.*inf"),
        ("commit_interval", 0.1, r"commit_interval.*0\.2.*0\.1"),
    ],
)
def test_invalid_settings_of_continuous_runs_are_refused(make_project, field, value, error):
    with pytest.raises(InvalidInput, match=error):
        make_project(**{field: value})
