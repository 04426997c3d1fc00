"""A run that is told to stop commits what it has read, or drops it at the timeout, and ends as canceled."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.io_manager import ShardIOManager
from kinesis_assets.dagster.names import raw_key, shard_partitions
from kinesis_assets.dagster.partition_ranges import range_tags
from kinesis_assets.errors import LandingFailed, TableUnreachable
from kinesis_assets.ingest import run as run_module

A, B = (f"shardId-{number:012d}" for number in range(2))
STOPS = [signal.SIGINT, signal.SIGTERM]
NAMES = {"ids": ["SIGINT", "SIGTERM"]}


def interrupt(number=signal.SIGTERM):
    os.kill(os.getpid(), number)


@pytest.fixture
def start(instance):
    """Runs shards of a project in this process, as a run worker does; gives the run."""

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
    """Rows told by a run's materializations, by shard."""
    of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
    events = [
        record.event_log_entry.asset_materialization
        for record in instance.get_records_for_run(run.run_id, of_type=of_type).records
    ]
    return {event.partition: event.metadata["rows"].value for event in events}


def numbers(project):
    """The sequence numbers in the table, sorted; none if there is no table."""
    with project.open_stream() as opened:
        table = DeltaTable(opened.table.folder.uri).to_pyarrow_table(columns=["sequence_number"])
    return sorted(table["sequence_number"].to_pylist(), key=int)


@pytest.mark.usefixtures("spark")
class TestToldInTheMiddle:
    """A run of two shards, one record a page, that is told to stop after some pages."""

    @pytest.fixture
    def put(self, source, faults):
        source.create(2)
        faults.page_size(1)
        return {shard_id: source.put(shard_id, 40) for shard_id in (A, B)}

    @pytest.mark.parametrize("number", STOPS, **NAMES)
    def test_what_was_read_is_committed_and_told_and_the_run_is_canceled(
        self, project, instance, put, faults, start, number
    ):
        faults.before("GetRecords", lambda: interrupt(number), after=8, times=1)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        told = materialized(instance, run)
        assert 0 < sum(told.values()) < 80
        assert numbers(project) == sorted(
            (each for shard_id, rows in told.items() for each in put[shard_id][:rows]), key=int
        )

    def test_the_next_run_goes_on_exactly_there(self, project, put, faults, start):
        faults.before("GetRecords", interrupt, after=8, times=1)
        start(project, A, B)
        faults.clear()
        assert start(project, A, B).status is dg.DagsterRunStatus.SUCCESS
        assert numbers(project) == sorted((each for shard in put.values() for each in shard), key=int)

    @pytest.mark.usefixtures("put")
    def test_a_run_that_dagster_was_asked_to_terminate_is_canceled_too(
        self, project, instance, faults, start
    ):
        def terminate():
            (run,) = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
            instance.report_run_canceling(run)
            interrupt()

        faults.before("GetRecords", terminate, after=8, times=1)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        assert materialized(instance, run)

    @pytest.mark.usefixtures("put")
    def test_another_interrupt_while_closing_changes_nothing(self, project, instance, faults, start):
        faults.before("GetRecords", interrupt, after=8, times=3)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        assert sum(materialized(instance, run).values()) == len(numbers(project)) > 0

    @pytest.mark.usefixtures("put")
    def test_what_does_not_come_within_the_timeout_is_dropped(self, make_project, instance, faults, start):
        faults.stall(after=8)
        faults.before("GetRecords", interrupt, after=8, times=1)
        project = make_project(stop_timeout=1.0)
        run = start(project, A, B)
        assert run.status is dg.DagsterRunStatus.CANCELED
        assert (materialized(instance, run), numbers(project)) == ({}, [])

    @pytest.mark.usefixtures("put")
    def test_it_is_closing_from_the_stop_to_the_commit_alone(self, project, faults, start, monkeypatch):
        seen = []
        managers = []
        commit = run_module.commit

        def noting(*positional, **named):
            seen.append(managers[0].is_closing)
            return commit(*positional, **named)

        def handle(manager, context, plan):
            managers.append(manager)
            seen.append(manager.is_closing)
            try:
                store(manager, context, plan)
            finally:
                seen.append(manager.is_closing)

        store = ShardIOManager.handle_output
        monkeypatch.setattr(ShardIOManager, "handle_output", handle)
        monkeypatch.setattr(run_module, "commit", noting)
        faults.before("GetRecords", lambda: seen.append(managers[0].is_closing), after=2, times=1)
        faults.before("GetRecords", interrupt, after=8, times=1)
        start(project, A, B)
        assert seen == [False, False, True, False]


def test_a_run_that_is_not_told_to_stop_leaves_no_stop_object(project, source, start, spark):
    del spark
    source.create(1)
    start(project, A)
    with project.open_stream() as opened:
        assert not Path(opened.settings.table, "_kinesis", "stops").exists()


# What holds the interrupt back


@pytest.fixture
def closing():
    told, given_up = threading.Event(), threading.Event()

    def closing(timeout=60.0, last_seconds=60.0):
        graceful_stop = GracefulStop(
            timeout, request_stop=told.set, give_up=given_up.set, last_seconds=last_seconds
        )
        return graceful_stop, told, given_up

    return closing


@pytest.mark.parametrize("number", STOPS, **NAMES)
def test_an_interrupt_is_raised_at_the_end_of_what_it_may_not_break(closing, number):
    held, told, given_up = closing()
    came_to_the_end = threading.Event()

    def work():
        interrupt(number)
        assert told.wait(10)
        came_to_the_end.set()

    before = signal.getsignal(number)
    assert_interrupted(held, work)
    assert came_to_the_end.is_set()
    assert not given_up.is_set()
    assert signal.getsignal(number) is before


def test_an_interrupt_is_raised_in_the_middle_after_the_timeout(closing):
    held, _, given_up = closing(0.2, last_seconds=0.2)

    def work():
        interrupt()
        threading.Event().wait(30)

    began = time.monotonic()
    assert_interrupted(held, work)
    assert time.monotonic() - began < 20
    assert given_up.is_set()


def test_an_error_that_comes_of_giving_up_is_an_interrupt(closing):
    held, _, given_up = closing(0.0)

    def work():
        interrupt()
        assert given_up.wait(10)
        raise LandingFailed("ended")

    assert_interrupted(held, work)


def test_an_error_while_closing_is_that_error(closing):
    held, told, _ = closing()

    def work():
        interrupt()
        assert told.wait(10)
        raise LandingFailed("by itself")

    with pytest.raises(LandingFailed):
        within(held, work)


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
def test_the_interrupt_comes_though_telling_and_giving_up_do_not_work(hangs):
    for_ever = threading.Event()

    def broken():
        if hangs:
            for_ever.wait()
        raise TableUnreachable("s3://lake", "gone")

    def work():
        interrupt()
        interrupt(signal.SIGINT)
        threading.Event().wait(30)

    began = time.monotonic()
    assert_interrupted(GracefulStop(0.2, request_stop=broken, give_up=broken, last_seconds=0.2), work)
    assert time.monotonic() - began < 20
    for_ever.set()


def test_nothing_is_raised_if_nothing_interrupts(closing):
    held, told, _ = closing()
    within(held, lambda: None)
    assert not told.is_set()


def within(held, work):
    with held.delayed_interrupts():
        assert not held.is_closing
        work()


def assert_interrupted(held, work):
    with pytest.raises(dg.DagsterExecutionInterruptedError):
        within(held, work)


def test_a_run_is_canceled_that_is_interrupted_before_dagster_handles_interrupts(stream, table, monkeypatch):
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
