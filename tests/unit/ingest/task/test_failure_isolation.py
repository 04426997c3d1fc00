"""One shard is in trouble, and its neighbours in the same task land and commit as if nothing were."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from kinesis_assets.errors import ReadFailed, ShardStalled, ShardThrottled
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading import retry_policy
from kinesis_assets.testing import Faults

TROUBLES = {
    "throttled for ever": (Faults.throttle, ShardThrottled, "ProvisionedThroughputExceededException"),
    "limit exceeded": (
        partial(Faults.throttle, code="LimitExceededException"),
        ShardThrottled,
        "LimitExceededException",
    ),
    "KMS throttled for ever": (
        partial(Faults.throttle, code="KMSThrottlingException"),
        ShardThrottled,
        "KMSThrottlingException",
    ),
    "KMS key disabled": (
        partial(Faults.fail, status=400, code="KMSDisabledException"),
        ReadFailed,
        "KMSDisabledException",
    ),
    "500 for ever": (Faults.fail, ReadFailed, "InternalFailure"),
    "connections reset": (Faults.reset, ReadFailed, "ConnectionClosedError"),
    "no answer": (Faults.stall, ReadFailed, "ReadTimeoutError"),
    "bodies cut": (Faults.cut_body, ReadFailed, "IncompleteBody"),
    "bodies cut on the wire": (partial(Faults.cut_body, on_wire=True), ReadFailed, "IncompleteBody"),
    "iterators expire at once": (Faults.expire, ReadFailed, "ExpiredIteratorException"),
    "empty pages for ever": (Faults.empty_page, ShardStalled, "1000 ms behind"),
}


CASES = [
    pytest.param(*trouble, id=name, marks=pytest.mark.real_time if name == "no answer" else ())
    for name, trouble in TROUBLES.items()
]


@pytest.fixture(autouse=True)
def impatience(bench, request):
    """What lasts for a moment lasts for ever."""
    bench.set_timing(stall_seconds=0.3)
    if "no answer" in request.node.name:
        bench.set_timing(read_timeout=0.3)


@pytest.mark.parametrize(("trouble", "error", "cause"), CASES)
def test_a_shard_in_trouble_fails_alone_and_a_later_run_lands_its_rest(bench, faults, trouble, error, cause):
    first, second, third = bench.create(3)
    numbers = bench.put(b"1-0", b"1-1", b"1-2", b"1-3", shard_id=first)
    bench.put(b"2-0", b"2-1", b"2-2", shard_id=second)
    bench.put(b"3-0", shard_id=third)
    faults.page_size(2)
    trouble(faults, shard_id=first, after=1)

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


@pytest.mark.parametrize(("trouble", "error", "cause"), CASES)
def test_a_shard_in_trouble_from_its_first_page_stays_where_it_was(bench, faults, trouble, error, cause):
    first, second = bench.create(2)
    bench.put(b"1-0", shard_id=first)
    bench.put(b"2-0", shard_id=second)
    trouble(faults, shard_id=first)
    ((failed, told),) = bench.run().errors.items()
    assert (failed, type(told)) == (first, error)
    assert cause in str(told)
    assert bench.data == [b"2-0"]
    assert bench.at(first).position == Position.parse("TRIM_HORIZON")


def test_a_shard_that_is_throttled_ends_early_with_what_it_has_and_holds_no_commit_of_its_neighbours(
    bench, faults
):
    bench.set_timing(stall_seconds=300.0, retry_seconds=0.5)
    first, second = bench.create(2)
    numbers = bench.put(b"1-0", b"1-1", shard_id=first)
    bench.put(b"2-0", shard_id=second)
    faults.page_size(1)
    faults.throttle(shard_id=first, after=1)
    began = time.monotonic()
    result = bench.run()
    assert time.monotonic() - began < 20
    assert not result.errors
    assert {outcome.state for outcome in result.outcomes.values()} == {ShardState.COMMITTED}
    assert bench.data == [b"1-0", b"2-0"]
    assert bench.at(first).position == Position.after(numbers[0])


def test_a_neighbour_with_pages_to_come_is_read_on_after_a_shard_failed(bench, faults, monkeypatch):
    first, second = bench.create(2)
    bench.put(b"1-0", shard_id=first)
    bench.put(b"2-0", b"2-1", b"2-2", b"2-3", shard_id=second)
    failed = threading.Event()

    def told(*reason):
        failed.set()
        return ReadFailed(*reason)

    monkeypatch.setattr(retry_policy, "ReadFailed", told)
    faults.page_size(1)
    faults.fail(status=400, code="AccessDeniedException", shard_id=first)
    faults.before("GetRecords", lambda: failed.wait(timeout=10), shard_id=second, after=1)
    result = bench.run()
    assert list(result.errors) == [first]
    assert bench.data == [b"2-0", b"2-1", b"2-2", b"2-3"]


def test_a_throttled_shard_gets_through_while_its_neighbours_are_read(bench, faults):
    bench.set_timing(stall_seconds=300.0)
    first, second = bench.create(2)
    bench.put(b"1-0", b"1-1", b"1-2", shard_id=first)
    bench.put(b"2-0", b"2-1", b"2-2", shard_id=second)
    faults.page_size(1)
    for page in range(3):
        faults.throttle(shard_id=first, after=page, times=3)
    assert bench.run().errors == {}
    assert bench.data == [b"1-0", b"1-1", b"1-2", b"2-0", b"2-1", b"2-2"]


def test_every_shard_in_trouble_is_named_and_nothing_else_fails(bench, faults):
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


def test_a_shard_that_is_split_after_the_plan_is_read_to_its_end_in_that_run(bench):
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
