"""How a continuous run finds out whether idle shards still are, without the pages after their positions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kinesis_assets.ingest.continuous_run import RunTiming
from kinesis_assets.ingest.plan import ReadPolicy
from support.continuous import TIMING, RunHarness
from support.shard_ids import A
from support.virtual_time import VirtualTime

pytestmark = pytest.mark.slow


@pytest.fixture
def idle(bench, faults):
    """A stream with one record, which is read."""
    bench.create()
    bench.put(1)
    bench.run()
    faults.clear()
    return bench


def reads_from_position(faults):
    return faults.count("GetShardIterator")


def run(bench, last_iteration, **before):
    """Run iterations with an action before the landing of some, by the names `at_2`, `at_3` and so on."""
    actions = {int(name.removeprefix("at_")): action for name, action in before.items()}
    return RunHarness(bench, before=actions, last_iteration=last_iteration).run(A)


def test_an_idle_shard_is_read_from_its_position_once(idle, faults):
    run(idle, 5)
    assert (reads_from_position(faults), faults.count("GetRecords")) == (1, 5)


def test_the_empty_pages_after_the_position_of_an_idle_shard_are_read_once(idle, faults):
    left = []

    def return_empty_pages(call, response):
        if not left:
            return None
        left.pop()
        return response.but(MillisBehindLatest=1000, NextShardIterator=call.arguments["ShardIterator"])

    faults.before("GetShardIterator", lambda: left.extend(range(7)))
    faults.answer("GetRecords", return_empty_pages)
    run(idle, 5)
    assert faults.count("GetRecords") == 7 + 5


def test_one_record_is_requested_of_an_idle_shard(idle, faults):
    run(idle, 3)
    limits = [call.arguments["Limit"] for call in faults.calls if call.operation == "GetRecords"]
    assert limits[0] > 1
    assert limits[1:] == [1, 1]


def test_new_records_of_an_idle_shard_are_read_from_its_position(idle, faults):
    harness = run(idle, 5, at_4=lambda: idle.put(2, 3))
    assert harness.events == [{A: ("committed", 2)}]
    assert idle.items == [1, 2, 3]
    assert reads_from_position(faults) == 3  # at first, of the records, and after them


def test_an_iterator_that_skips_a_record_does_not_lose_it(idle, faults):
    def skip_one():
        idle.put(2)
        place = {"StreamName": idle.stream, "ShardId": A, "ShardIteratorType": "LATEST"}
        latest = idle.kinesis.get_shard_iterator(**place)["ShardIterator"]
        page = {"Records": [], "MillisBehindLatest": 0, "NextShardIterator": latest}
        faults.answer("GetRecords", lambda _, response: response.but(**page), times=1)

    harness = run(idle, 5, at_2=skip_one, at_4=lambda: idle.put(3))
    assert harness.events == [{A: ("committed", 2)}]
    assert idle.items == [1, 2, 3]


def test_a_shard_that_ends_while_it_is_idle_is_finished(idle):
    harness = RunHarness(idle, before={3: lambda: idle.split(A)}).run(A)
    assert harness.events == [{A: ("finished", 0)}]


def test_a_shard_whose_iterator_has_expired_is_read_from_its_position(idle, faults):
    def expire():
        idle.put(2)
        faults.fail("GetRecords", status=400, code="ExpiredIteratorException", times=1)

    harness = run(idle, 3, at_3=expire)
    assert harness.events == [{A: ("committed", 1)}]


@pytest.mark.parametrize(
    ("interval", "iterations", "reads"),
    [(270.0, 3, 3), (180.0, 61, 4)],
    ids=["after it may have expired", "every hour"],
)
def test_an_idle_shard_is_read_from_its_position_again(idle, faults, interval, iterations, reads):
    idle.set_timing(clock=VirtualTime())
    timing = RunTiming(1e6, commit_interval=interval)
    RunHarness(idle, timing=timing, last_iteration=iterations).run(A)
    assert reads_from_position(faults) == reads


def test_the_records_after_a_position_that_was_moved_back_are_read(idle):
    harness = run(idle, 5, at_3=lambda: idle.seek("TRIM_HORIZON", A))
    assert harness.events == [{A: ("committed", 1)}]
    assert idle.items == [1]


def test_a_recreated_stream_is_read_from_its_start(bench, faults):
    bench.create()
    policy = ReadPolicy(on_recreated="restart")
    harness = RunHarness(bench, replace(TIMING, max_listing_age=0.0), policy=policy, last_iteration=5)
    read = []

    def recreate(_):
        if harness.iterations == 3:
            bench.delete()
            bench.later(hours=1)
            bench.create()
            faults.clear()
            faults.before("GetRecords", lambda: read.append(reads_from_position(faults)), times=1)

    harness.continuous_run._on_iteration = recreate
    harness.run(A)
    assert read == [1]
