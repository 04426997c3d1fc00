"""Continuous runs in Dagster that read by the subscriptions of a consumer."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from benchmarks.harness.waiting import wait_until
from support.continuous_runs import ContinuousRuns
from support.daemon import Status

A, B, C = (f"shardId-{number:012d}" for number in range(3))


@pytest.fixture
def runs(make_project, instance):
    """Runs of a project with continuous runs and a consumer."""
    return ContinuousRuns(make_project(follow_for=300.0, commit_interval=0.2, consumer="lake"), instance)


@pytest.fixture
def register(kinesis, source):
    """Register a consumer of the stream, and return its ARN."""

    def register(name="lake"):
        arn = kinesis.describe_stream_summary(StreamName=source.name)["StreamDescriptionSummary"]["StreamARN"]
        return kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=name)["Consumer"]["ConsumerARN"]

    return register


def warnings_of(runs, run):
    entries = runs.instance.all_logs(run.run_id)
    return [entry.user_message for entry in entries if "GetRecords reads" in entry.user_message]


def reasons_of(runs, run):
    """Return what the events of the stream say about GetRecords."""
    entries = [entry.dagster_event for entry in runs.instance.all_logs(run.run_id) if entry.is_dagster_event]
    events = [
        event.step_materialization_data.materialization for event in entries if event.is_step_materialization
    ]
    of_stream = [event.metadata for event in events if event.partition is None]
    reasons = [metadata.get("read with GetRecords because") for metadata in of_stream]
    return [None if reason is None else reason.value for reason in reasons]


@pytest.mark.usefixtures("spark", "patient_subscriptions")
def test_runs_read_by_the_consumer_through_a_split_and_a_restart(source, runs, register, faults):
    def is_put_and_read_by_the_subscription():
        faults.calls.clear()
        rows = len(runs.rows())
        put.extend(source.put(A, 1))
        wait_until(lambda: len(runs.rows()) > rows)
        return faults.count("GetRecords") == faults.count("SubscribeToShard") == 0

    source.create(1)
    register()
    put = source.put(A, 2)
    join = runs.start_continuously(A, seconds=300)
    wait_until(lambda: len(runs.rows()) == 2)
    wait_until(is_put_and_read_by_the_subscription)  # until its first event has arrived, GetRecords may read
    source.split(A)
    first = join()
    put += source.put(B, 1)
    put += source.put(C, 1)
    join = runs.start_continuously(B, C, seconds=300)
    wait_until(lambda: len(runs.rows()) == len(put))
    source.merge(B, C)
    second = join()
    assert (first.status, second.status) == (Status.SUCCESS, Status.SUCCESS)
    assert sorted(number for _, number, _ in runs.rows()) == sorted(put)
    assert warnings_of(runs, first) == warnings_of(runs, second) == []


@pytest.mark.usefixtures("spark")
def test_a_run_whose_consumer_is_deregistered_goes_on_with_getrecords_and_warns_once(
    source, runs, register, kinesis
):
    source.create(1)
    arn = register()
    source.put(A, 2)
    join = runs.start_continuously(A, seconds=300)
    wait_until(lambda: len(runs.rows()) == 2)
    kinesis.deregister_stream_consumer(ConsumerARN=arn)
    source.put(A, 3)
    wait_until(lambda: len(runs.rows()) == 5)
    source.put(A, 1)
    wait_until(lambda: len(runs.rows()) == 6)
    source.split(A)
    run = join()
    assert run.status is Status.SUCCESS
    (warning,) = warnings_of(runs, run)
    assert arn in warning
    first, *later = reasons_of(runs, run)
    assert first is None
    assert any("ResourceNotFoundException" in reason for reason in later if reason is not None)


@pytest.mark.usefixtures("spark")
def test_a_stopped_run_commits_what_it_has_read_and_the_next_one_goes_on(source, runs, register):
    source.create(1)
    register()
    source.put(A, 3)

    def stop():
        wait_until(lambda: len(runs.rows()) == 3)
        source.put(A, 2)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    stopped = runs.run_continuously(A, seconds=300)
    assert stopped.status is Status.CANCELED
    assert sum(rows for _, rows, _ in runs.events(stopped)) == len(runs.rows())
    source.split(A)
    assert runs.run_continuously(A, seconds=300).status is Status.SUCCESS
    assert len({number for _, number, _ in runs.rows()}) == len(runs.rows()) == 5
