"""Continuous runs that read by the subscriptions of a consumer, without Dagster and Spark."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest import fan_out
from kinesis_assets.ingest.fan_out import landing_by_subscriptions
from kinesis_assets.kinesis.reading import subscription
from kinesis_assets.table.raw_table import PositionedTable
from support.continuous import RunHarness
from support.single_task import land_as_in_spark
from support.timing import READING, WRITING
from support.virtual_time import VirtualTime

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("patient_subscriptions")]

A, B, C, D = (f"shardId-{number:012d}" for number in range(4))


class FanOutRun(RunHarness):
    """A continuous run with a consumer, its warnings, and what it notes of its landings.

    Unless it has a last iteration, it ends once nothing is left to do before an iteration, and the table has
    all records.
    """

    def __post_init__(self):
        super().__post_init__()
        self.warnings, self.notes = [], []

    def run_as(self, consumer, *shard_ids):
        client = self.bench.client
        with landing_by_subscriptions(
            client,
            consumer,
            client.describe(),
            land=land_as_in_spark,
            warn=self.warnings.append,
            note=self.notes.append,
        ) as land:
            self.landing = land
            return self.run(*shard_ids)

    def land(self, job, ranges, allowance):
        self.iterations += 1
        self.before.pop(self.iterations, lambda: None)()
        landing = self.landing(job, ranges, allowance)
        if self.iterations == self.last_iteration or (self.last_iteration is None and self._is_done):
            self.continuous_run.stop()
        return landing

    @property
    def _is_done(self):
        return not self.before and self.results and len(self.bench.rows) == len(self.bench.acknowledged)


@pytest.fixture
def register(bench):
    """Register a consumer of the bench's stream, and return its ARN."""
    return partial(register_consumer, bench)


def register_consumer(bench):
    arn = bench.client.describe().identity.arn
    return bench.client.register_consumer("lake", arn).arn


@pytest.fixture
def clocked_bench(bench, clocked, tmp_path):
    """A bench that controls the service's clock and the machine's."""
    return replace(
        bench,
        clock=clocked.clock,
        kinesis=clocked.kinesis,
        settings=replace(clocked.settings, timing=replace(READING, clock=VirtualTime())),
        stream=f"{bench.stream}-clocked",
        table=PositionedTable(str(tmp_path / "clocked"), WRITING),
    )


@pytest.fixture
def calls(faults):
    """Return how often operations that read were called since the last time."""

    def calls():
        counts = Counter(call.operation for call in faults.calls)
        faults.calls.clear()
        return {name: counts[name] for name in ("SubscribeToShard", "GetRecords") if counts[name]}

    return calls


def test_later_iterations_continue_the_subscriptions_of_the_first(bench, register, calls):
    bench.create(2)
    bench.put_many(10)
    register()
    calls()
    put = partial(bench.put_many, 10)
    run = FanOutRun(bench, before={3: put, 5: put})
    run.run_as("lake", A, B)
    bench.assert_exactly_once()
    assert calls() == {"SubscribeToShard": 2}
    assert run.warnings == []


def test_children_are_read_after_the_end_of_their_parent_is_confirmed(bench, register, calls):
    bench.create(1)
    bench.put_many(5)
    register()
    calls()

    def split():
        bench.split(A)
        bench.put_many(5)

    run = FanOutRun(bench, before={2: split})
    run.run_as("lake", A)
    assert [set(states.values()) for states in run.events][-1] == {("finished", 0)}
    FanOutRun(bench).run_as("lake", B, C)
    bench.assert_exactly_once()


def test_a_shard_is_not_noted_as_read_with_getrecords_after_its_end(bench, register):
    bench.create(1)
    bench.put_many(5)
    arn = register()

    def deregister():
        bench.client.deregister_consumer(arn, bench.client.describe().identity.arn)
        bench.put_many(5)

    run = FanOutRun(bench, before={3: deregister, 6: partial(bench.split, A)})
    run.run_as("lake", A)
    assert [state for state, _ in run.events[-1].values()] == ["finished"]
    assert any("ResourceNotFoundException" in (note.get(A) or "") for note in run.notes)
    assert run.notes[-1] == {A: None}


def test_what_was_received_of_a_shard_is_forgotten_at_its_end(bench, register, monkeypatch):
    """It would count for as long as the run, and nothing more be received of the others."""
    kept = []

    class Watched(subscription.Subscriptions):
        def close(self):
            kept.append(self.kept_bytes)
            super().close()

    monkeypatch.setattr(fan_out, "Subscriptions", Watched)
    bench.create(1)
    bench.put_many(5)
    register()

    def end():
        bench.put_many(5)
        bench.split(A)

    run = FanOutRun(bench, before={2: end})
    run.run_as("lake", A)
    assert [state for state, _ in run.events[-1].values()] == ["finished"]
    assert kept == [0]


def test_getrecords_reads_the_shards_beyond_the_largest_number_of_subscriptions(
    bench, register, calls, monkeypatch
):
    monkeypatch.setattr(subscription, "_MOST_OPEN", 2)
    bench.create(4)
    bench.put_many(20)
    register()
    calls()
    run = FanOutRun(bench, before={3: partial(bench.put_many, 20)})
    run.run_as("lake", A, B, C, D)
    bench.assert_exactly_once()
    assert calls()["SubscribeToShard"] == 2
    (warning,) = run.warnings
    assert "2 subscriptions are open" in warning


def test_two_runs_with_one_consumer_leave_each_record_once(bench, register):
    bench.create(2)
    bench.put_many(10)
    register()

    def other():
        bench.put_many(10)
        FanOutRun(bench, by="the other", last_iteration=2).run_as("lake", A, B)
        bench.put_many(10)

    FanOutRun(bench, before={3: other, 5: other}).run_as("lake", A, B)
    bench.put_many(10)
    FanOutRun(bench).run_as("lake", A, B)
    bench.assert_exactly_once()


def test_without_the_consumer_getrecords_reads_and_a_warning_says_so_once(bench, register, calls):
    bench.create(1)
    bench.put_many(5)
    calls()
    run = FanOutRun(bench)
    run.run_as("lake", A)
    bench.assert_exactly_once()
    assert "SubscribeToShard" not in calls()
    assert len(run.warnings) == 1
    assert "consumer lake is not there" in run.warnings[0]
    assert "Register it with `kinesis-assets consumer register`" in run.warnings[0]
    register()
    bench.put_many(5)
    run = FanOutRun(bench)
    run.run_as("lake", A)
    bench.assert_exactly_once()
    assert "SubscribeToShard" in calls()
    assert run.warnings == []


def test_a_consumer_that_cannot_be_described_is_not_reported_as_missing(bench, register, faults, calls):
    bench.create(1)
    bench.put_many(5)
    register()
    faults.fail("DescribeStreamConsumer", status=400, code="AccessDeniedException")
    calls()
    run = FanOutRun(bench)
    run.run_as("lake", A)
    bench.assert_exactly_once()
    assert "SubscribeToShard" not in calls()
    (warning,) = run.warnings
    assert "AccessDeniedException" in warning
    assert "is not there" not in warning
    assert "register" not in warning


@pytest.mark.parametrize("seconds", [5, 1800])
def test_a_run_looks_for_its_consumer_again(clocked_bench, faults, calls, seconds):
    bench = clocked_bench
    bench.create(1)
    bench.put_many(5)
    register_consumer(bench)
    faults.fail("DescribeStreamConsumer", status=400, code="AccessDeniedException", times=1)

    def wait():
        bench.client.settings.timing.clock.now += seconds
        bench.clock.seconds += seconds
        bench.put_many(5)
        calls()

    run = FanOutRun(bench, before={3: wait})
    run.run_as("lake", A)
    bench.assert_exactly_once()
    assert calls() == {"SubscribeToShard": 1}
    assert len(run.warnings) == 1


def test_a_run_looks_for_a_missing_consumer_less_and_less_often(clocked_bench, faults):
    bench = clocked_bench
    bench.create(1)
    attempts = []

    def tick():
        if any(call.operation == "DescribeStreamConsumer" for call in faults.calls):
            attempts.append(run.iterations - 1)
        faults.calls.clear()
        bench.client.settings.timing.clock.now += 1

    run = FanOutRun(bench, before=dict.fromkeys(range(1, 42), tick), last_iteration=41)
    run.run_as("lake", A)
    assert attempts == [0, 5, 15, 35]
    assert len(run.warnings) == 1


def test_a_run_goes_on_with_getrecords_and_warns_once_when_its_consumer_is_deregistered(
    clocked_bench, faults
):
    bench = clocked_bench
    bench.create(1)
    bench.put_many(5)
    arn = register_consumer(bench)

    def deregister():
        bench.client.deregister_consumer(arn, bench.client.describe().identity.arn)
        bench.put_many(5)

    def search_again():
        bench.client.settings.timing.clock.now += 6
        bench.clock.seconds += 6
        faults.calls.clear()

    run = FanOutRun(bench, before={3: deregister, 6: search_again, 7: lambda: None})
    run.run_as("lake", A)
    bench.assert_exactly_once()
    assert faults.count("DescribeStreamConsumer") == 1
    (warning,) = run.warnings
    assert "ResourceNotFoundException" in warning
    assert "Register it with `kinesis-assets consumer register`" in warning


def test_a_run_finds_its_consumer_again_after_it_was_registered_again(clocked_bench, calls):
    bench = clocked_bench
    bench.create(1)
    bench.put_many(5)
    arn = register_consumer(bench)

    def replace_consumer():
        bench.client.deregister_consumer(arn, bench.client.describe().identity.arn)
        assert register_consumer(bench) != arn
        bench.put_many(5)

    def later():
        bench.client.settings.timing.clock.now += 6
        bench.clock.seconds += 6
        bench.put_many(5)
        calls()

    run = FanOutRun(bench, before={3: replace_consumer, 6: later, 9: later})
    run.run_as("lake", A)
    bench.assert_exactly_once()
    assert calls() == {}


def test_the_consumer_of_another_stream_is_refused(bench):
    bench.create(1)
    arn = "arn:aws:kinesis:us-east-1:123456789012:stream/other/consumer/lake:1764331200"
    with ExitStack() as stack, pytest.raises(InvalidInput, match="not a consumer of stream"):
        stack.enter_context(
            landing_by_subscriptions(
                bench.client, arn, bench.client.describe(), land=land_as_in_spark, warn=print
            )
        )
