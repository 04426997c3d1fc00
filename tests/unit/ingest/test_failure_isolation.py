"""A failing shard does not affect the other shards of its task."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import ReadFailed, ShardStalled, ShardThrottled
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading import calls
from kinesis_assets.testing import Faults

FAILURES = {
    "throttled forever": (Faults.throttle, ShardThrottled, "ProvisionedThroughputExceededException"),
    "limit exceeded": (
        partial(Faults.throttle, code="LimitExceededException"),
        ShardThrottled,
        "LimitExceededException",
    ),
    "KMS throttled forever": (
        partial(Faults.throttle, code="KMSThrottlingException"),
        ShardThrottled,
        "KMSThrottlingException",
    ),
    "KMS key disabled": (
        partial(Faults.fail, status=400, code="KMSDisabledException"),
        ReadFailed,
        "KMSDisabledException",
    ),
    "500 forever": (Faults.fail, ReadFailed, "InternalFailure"),
    "connections reset": (Faults.reset, ReadFailed, "ConnectionClosedError"),
    "no response": (Faults.stall, ReadFailed, "ReadTimeoutError"),
    "truncated bodies": (Faults.cut_body, ReadFailed, "IncompleteBody"),
    "truncated bodies on the wire": (partial(Faults.cut_body, on_wire=True), ReadFailed, "IncompleteBody"),
    "iterators expire immediately": (Faults.expire, ReadFailed, "ExpiredIteratorException"),
    "empty pages forever": (Faults.empty_page, ShardStalled, "1000 ms behind"),
}


CASES = [
    pytest.param(*failure, id=name, marks=pytest.mark.slow if name == "no response" else ())
    for name, failure in FAILURES.items()
]


@pytest.fixture(autouse=True)
def short_timeouts(bench, request):
    """Give up on a failing shard within a moment."""
    bench.set_timing(stall_seconds=0.3, seconds_between_calls=0.02)
    if "no response" in request.node.name:
        bench.set_timing(read_timeout=0.3)


@pytest.mark.slow
@pytest.mark.parametrize(("inject", "error", "cause"), CASES)
def test_a_failing_shard_fails_alone_and_a_later_run_lands_its_remaining_records(
    bench, faults, inject, error, cause
):
    first, second, third = bench.create(3)
    numbers = bench.put(b"1-0", b"1-1", b"1-2", b"1-3", shard_id=first)
    bench.put(b"2-0", b"2-1", b"2-2", shard_id=second)
    bench.put(b"3-0", shard_id=third)
    faults.page_size(2)
    inject(faults, shard_id=first, after=1)

    result = bench.run()

    failed = result.outcomes[first]
    assert (failed.state, failed.rows) == (ShardState.FAILED, 2)
    assert type(failed.error) is error
    assert cause in str(failed.error)
    assert f"AFTER_SEQUENCE_NUMBER:{numbers[1]}" in str(failed.error)
    assert list(result.errors) == [first]
    for shard_id, rows in ((second, 3), (third, 1)):
        outcome = result.outcomes[shard_id]
        assert (outcome.state, outcome.rows, outcome.error) == (ShardState.COMMITTED, rows, None)
    assert bench.data == [b"1-0", b"1-1", b"2-0", b"2-1", b"2-2", b"3-0"]
    assert bench.at(first).position == Position.after(numbers[1])

    faults.clear()
    assert bench.run().errors == {}
    assert bench.data == [b"1-0", b"1-1", b"1-2", b"1-3", b"2-0", b"2-1", b"2-2", b"3-0"]


@pytest.mark.slow
@pytest.mark.parametrize(("inject", "error", "cause"), CASES)
def test_a_shard_that_fails_on_its_first_page_keeps_its_position(bench, faults, inject, error, cause):
    first, second = bench.create(2)
    bench.put(b"1-0", shard_id=first)
    bench.put(b"2-0", shard_id=second)
    inject(faults, shard_id=first)
    ((failed, raised),) = bench.run().errors.items()
    assert (failed, type(raised)) == (first, error)
    assert cause in str(raised)
    assert bench.data == [b"2-0"]
    assert bench.at(first).position == Position.parse("TRIM_HORIZON")


@pytest.mark.slow
def test_a_throttled_shard_ends_early_with_its_rows_and_does_not_delay_the_commit(bench, faults):
    bench.set_timing(stall_seconds=3600.0, retry_seconds=0.5)  # the run never ends if it waits for the former
    first, second = bench.create(2)
    numbers = bench.put(b"1-0", b"1-1", shard_id=first)
    bench.put(b"2-0", shard_id=second)
    faults.page_size(1)
    faults.throttle(shard_id=first, after=1)
    result = bench.run()
    assert not result.errors
    assert {outcome.state for outcome in result.outcomes.values()} == {ShardState.COMMITTED}
    assert bench.data == [b"1-0", b"2-0"]
    assert bench.at(first).position == Position.after(numbers[0])


@pytest.mark.slow
def test_other_shards_are_read_to_their_tip_after_a_shard_failed(bench, faults, monkeypatch):
    first, second = bench.create(2)
    bench.put(b"1-0", shard_id=first)
    bench.put(b"2-0", b"2-1", b"2-2", b"2-3", shard_id=second)
    failed = threading.Event()

    def read_failed(*reason):
        failed.set()
        return ReadFailed(*reason)

    monkeypatch.setattr(calls, "ReadFailed", read_failed)
    faults.page_size(1)
    faults.fail(status=400, code="AccessDeniedException", shard_id=first)
    faults.before("GetRecords", lambda: failed.wait(SECONDS), shard_id=second, after=1)
    result = bench.run()
    assert list(result.errors) == [first]
    assert bench.data == [b"2-0", b"2-1", b"2-2", b"2-3"]


@pytest.mark.slow
def test_a_temporarily_throttled_shard_is_read_along_with_the_others(bench, faults):
    bench.set_timing(stall_seconds=3600.0)
    first, second = bench.create(2)
    bench.put(b"1-0", b"1-1", b"1-2", shard_id=first)
    bench.put(b"2-0", b"2-1", b"2-2", shard_id=second)
    faults.page_size(1)
    for page in range(3):
        faults.throttle(shard_id=first, after=page, times=3)
    assert bench.run().errors == {}
    assert bench.data == [b"1-0", b"1-1", b"1-2", b"2-0", b"2-1", b"2-2"]


@pytest.mark.slow
def test_every_failing_shard_is_reported_and_no_other_shard_fails(bench, faults):
    shard_ids = bench.create(20)
    for number, shard_id in enumerate(shard_ids):
        bench.put(b"%d" % number, shard_id=shard_id)
    for shard_id in shard_ids[::2]:
        faults.fail(shard_id=shard_id)
    result = bench.run()
    assert list(result.errors) == shard_ids[::2]
    assert {type(error) for error in result.errors.values()} == {ReadFailed}
    assert all(error.shard_id == shard_id for shard_id, error in result.errors.items())
    assert sorted(map(int, bench.data)) == list(range(1, 20, 2))


def test_a_shard_that_is_split_after_the_plan_is_read_to_its_end_by_that_run(bench):
    (parent,) = bench.create()
    bench.put(b"0", b"1", shard_id=parent)
    plan = bench.plan()
    children = bench.split(parent)
    for child in children:
        bench.put(b"2", shard_id=child)
    outcome = bench.execute(plan).outcomes[parent]
    assert (outcome.state, outcome.rows) == (ShardState.FINISHED, 2)
    assert bench.run().errors == {}
    assert bench.data == [b"0", b"1", b"2", b"2"]
