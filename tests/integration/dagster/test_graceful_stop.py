"""A stopped run commits what it has read, or drops it at the timeout, and ends as canceled."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.dagster.graceful_stop import NOTHING_READ, GracefulStop
from kinesis_assets.dagster.io_manager import ShardIOManager
from kinesis_assets.dagster.partition_ranges import range_tags
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import LandingFailed, TableUnreachable
from kinesis_assets.ingest import run as run_module
from support.stream_names import raw_key, shard_partitions

A, B = (f"shardId-{number:012d}" for number in range(2))
STOPS = [signal.SIGINT, signal.SIGTERM]
SIGNAL_IDS = {"ids": ["SIGINT", "SIGTERM"]}


def interrupt(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.fixture
def start(instance):
    """Runs shards of a project in this process, as a run worker does, and returns the run."""

    def start(project, *shard_ids):
        partitions = shard_partitions(project.stream)
        instance.add_dynamic_partitions(str(partitions.name), list(shard_ids))
        job = project.definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=instance,
            tags=range_tags(shard_ids),
            asset_selection=[raw_key(project.stream)],
            raise_on_error=False,
        )
        return instance.get_run_by_id(result.run_id)

    return start


def materialized(instance, run):
    """Return the rows of a run's materializations by shard."""
    of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
    events = [
        record.event_log_entry.asset_materialization
        for record in instance.get_records_for_run(run.run_id, of_type=of_type).records
    ]
    return {event.partition: event.metadata["rows"].value for event in events if event.partition is not None}


def numbers(project):
    """Return the sequence numbers in the table, sorted."""
    with project.open_stream() as opened:
        table = DeltaTable(opened.table.folder.uri).to_pyarrow_table(columns=["sequence_number"])
    return sorted(table["sequence_number"].to_pylist(), key=int)


@pytest.mark.usefixtures("spark")
class TestStopDuringReads:
    """A run of two shards with one record per page, which is stopped after some pages."""

    @pytest.fixture
    def numbers_by_shard(self, source, faults):
        """The sequence numbers of the records in each shard."""
        source.create(2)
        faults.page_size(1)
        return {shard_id: source.put(shard_id, 40) for shard_id in (A, B)}

    @pytest.mark.parametrize("number", STOPS, **SIGNAL_IDS)
    def test_a_stopped_run_commits_and_reports_what_it_has_read(
        self, project, instance, numbers_by_shard, faults, start, number
    ):
        faults.before("GetRecords", lambda: interrupt(number), after=8, times=1)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        rows_by_shard = materialized(instance, run)
        assert 0 < sum(rows_by_shard.values()) < 80
        assert numbers(project) == sorted(
            (each for shard_id, rows in rows_by_shard.items() for each in numbers_by_shard[shard_id][:rows]),
            key=int,
        )

    def test_the_next_run_resumes_where_the_stopped_one_ended(self, project, numbers_by_shard, faults, start):
        faults.before("GetRecords", interrupt, after=8, times=1)
        start(project, A, B)
        faults.clear()
        assert start(project, A, B).status is dg.DagsterRunStatus.SUCCESS
        assert numbers(project) == sorted(
            (each for shard in numbers_by_shard.values() for each in shard), key=int
        )

    @pytest.mark.usefixtures("numbers_by_shard")
    def test_a_run_that_dagster_terminates_is_canceled(self, project, instance, faults, start):
        def terminate():
            (run,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
            instance.report_run_canceling(run)
            interrupt()

        faults.before("GetRecords", terminate, after=8, times=1)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        assert materialized(instance, run)

    @pytest.mark.usefixtures("numbers_by_shard")
    def test_further_interrupts_during_a_stop_change_nothing(self, project, instance, faults, start):
        faults.before("GetRecords", interrupt, after=8, times=3)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        assert sum(materialized(instance, run).values()) == len(numbers(project)) > 0

    @pytest.mark.usefixtures("numbers_by_shard")
    def test_what_is_not_read_within_the_timeout_is_dropped(self, make_project, instance, faults, start):
        faults.stall(after=8)
        faults.before("GetRecords", interrupt, after=8, times=1)
        project = make_project(stop_timeout=1.0)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        assert (materialized(instance, run), numbers(project)) == ({}, [])

    @pytest.mark.usefixtures("numbers_by_shard")
    def test_a_run_is_stopping_from_the_interrupt_until_its_commit(self, project, faults, start, monkeypatch):
        seen = []
        managers = []
        commit = run_module.commit

        def recording_commit(*positional, **named):
            seen.append(managers[0].is_closing)
            return commit(*positional, **named)

        def recording_handle_output(manager, context, plan):
            managers.append(manager)
            seen.append(manager.is_closing)
            try:
                store(manager, context, plan)
            finally:
                seen.append(manager.is_closing)

        store = ShardIOManager.handle_output
        monkeypatch.setattr(ShardIOManager, "handle_output", recording_handle_output)
        monkeypatch.setattr(run_module, "commit", recording_commit)
        faults.before("GetRecords", lambda: seen.append(managers[0].is_closing), after=2, times=1)
        faults.before("GetRecords", interrupt, after=8, times=1)
        start(project, A, B)
        assert seen == [False, False, True, False]


def test_a_run_that_is_not_stopped_leaves_no_stop_marker(project, source, start, spark):
    del spark
    source.create(1)
    start(project, A)
    with project.open_stream() as opened:
        assert not Path(opened.settings.table, "_kinesis", "stops").exists()


def test_the_error_card_of_a_run_that_is_stopped_before_it_reads_says_so(
    project, instance, source, faults, start
):
    def terminate():
        (run,) = instance.get_runs()
        instance.report_run_canceling(run)
        interrupt()

    source.create(1)
    faults.before("ListShards", terminate, times=1)
    run = start(project, A)
    (record,) = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE).records
    card = record.event_log_entry.get_dagster_event().step_failure_data.error.message
    assert run.status is dg.DagsterRunStatus.CANCELED
    assert card.endswith(f"DagsterExecutionInterruptedError: {NOTHING_READ}\n")


# GracefulStop


@pytest.fixture
def make_stop():
    """Builds a stop, with events that are set when it requests a stop and when it gives up."""
    requested, given_up = threading.Event(), threading.Event()

    def make(timeout=SECONDS, last_seconds=SECONDS):
        stop = GracefulStop(
            timeout, request_stop=requested.set, give_up=given_up.set, last_seconds=last_seconds
        )
        return stop, requested, given_up

    return make


@pytest.mark.parametrize("number", STOPS, **SIGNAL_IDS)
def test_an_interrupt_is_raised_after_the_work_has_completed(make_stop, number):
    stop, requested, given_up = make_stop()
    completed = threading.Event()

    def work():
        interrupt(number)
        assert requested.wait(SECONDS)
        completed.set()

    before = signal.getsignal(number)
    assert_interrupted(stop, work)
    assert completed.is_set()
    assert not given_up.is_set()
    assert signal.getsignal(number) is before


def test_an_interrupt_is_raised_during_the_work_after_the_timeout(make_stop):
    stop, _, given_up = make_stop(0.2, last_seconds=0.2)

    def work():
        interrupt()
        threading.Event().wait(SECONDS)

    assert_interrupted(stop, work)
    assert given_up.is_set()


def test_an_error_caused_by_giving_up_is_an_interrupt(make_stop):
    stop, _, given_up = make_stop(0.0)

    def work():
        interrupt()
        assert given_up.wait(SECONDS)
        raise LandingFailed("ended")

    assert_interrupted(stop, work)


def test_an_error_of_the_work_itself_is_raised(make_stop):
    stop, requested, _ = make_stop()

    def work():
        interrupt()
        assert requested.wait(SECONDS)
        raise LandingFailed("by itself")

    with pytest.raises(LandingFailed):
        work_delaying_interrupts(stop, work)


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
def test_an_interrupt_is_raised_although_stopping_and_giving_up_do_not_work(hangs):
    released = threading.Event()

    def broken():
        if hangs:
            released.wait()
        raise TableUnreachable("s3://lake", "gone")

    def work():
        interrupt()
        interrupt(signal.SIGINT)
        threading.Event().wait(SECONDS)

    assert_interrupted(GracefulStop(0.2, request_stop=broken, give_up=broken, last_seconds=0.2), work)
    released.set()


def test_nothing_is_raised_without_an_interrupt(make_stop):
    stop, requested, _ = make_stop()
    work_delaying_interrupts(stop, lambda: None)
    assert not requested.is_set()


def work_delaying_interrupts(stop, work):
    """Do work during which interrupts are delayed."""
    with stop.delayed_interrupts():
        assert not stop.is_closing
        work()


def assert_interrupted(stop, work):
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        work_delaying_interrupts(stop, work)


def test_a_run_interrupted_before_dagster_handles_interrupts_is_canceled(stream, table, monkeypatch):
    def interrupted(job, *, instance, run_id, **_):
        instance.create_run_for_job(job, run_id=run_id)
        raise KeyboardInterrupt

    monkeypatch.setattr(dg.JobDefinition, "execute_in_process", interrupted)
    project = StreamProject.from_settings(stream, table=table.uri)
    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(KeyboardInterrupt):
            project.run(instance, {})
        (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.CANCELED
