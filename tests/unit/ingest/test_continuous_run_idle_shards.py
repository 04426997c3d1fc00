"""How a continuous run finds out whether idle shards still are, without the pages after their positions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from kinesis_assets.errors import ShardSilent
from kinesis_assets.ingest.continuous_run import RunTiming
from kinesis_assets.ingest.plan import ReadPolicy
from support.continuous import RunHarness
from support.shard_ids import A, B
from support.virtual_time import VirtualTime

pytestmark = pytest.mark.slow

TIMING = RunTiming(1e6, commit_interval=60.0)


@pytest.fixture
def idle(bench, faults):
    """A stream with one record, which is read, and a clock by which no run waits."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(seconds=2)
    bench.set_timing(clock=VirtualTime())
    faults.clear()
    return bench


def reads_from_position(faults):
    return faults.count("GetShardIterator")


def run(bench, last_iteration, **before):
    """Run iterations with an action before the landing of some, by the names `at_2`, `at_3` and so on."""
    actions = {int(name.removeprefix("at_")): action for name, action in before.items()}
    return RunHarness(bench, TIMING, before=actions, last_iteration=last_iteration).run(A)


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
    harness = RunHarness(idle, TIMING, before={3: lambda: idle.split(A)}).run(A)
    assert harness.events == [{A: ("finished", 0)}]


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "InvalidArgumentException"])
def test_a_shard_whose_iterator_is_refused_is_read_from_its_position(idle, faults, code):
    def refuse():
        idle.put(2)
        faults.fail("GetRecords", status=400, code=code, times=1)

    harness = run(idle, 3, at_3=refuse)
    assert harness.events == [{A: ("committed", 1)}]


def test_an_idle_shard_that_ceases_to_respond_is_asked_once_and_fails(idle, faults):
    timing = replace(TIMING, first_response_timeout=0.2)

    def stall():
        faults.clear()
        faults.stall()

    harness = RunHarness(idle, timing, before={3: stall}, last_iteration=3).run(A)
    assert harness.events == [{A: ("failed", 0)}]
    assert isinstance(harness.results[0].outcomes[A].error, ShardSilent)
    assert (faults.count("GetRecords"), reads_from_position(faults)) == (1, 0)


def answer_second_call(faults, **page):
    """Change the page that is read from the position, after the one that shows that a shard has news."""
    faults.answer("GetRecords", lambda _, response: response.but(**page), after=1, times=1)


def test_a_page_that_lacks_what_the_iterator_has_shown_is_read_again(idle, faults):
    def put():
        idle.put(2)
        place = {"StreamName": idle.stream, "ShardId": A, "ShardIteratorType": "LATEST"}
        latest = idle.kinesis.get_shard_iterator(**place)["ShardIterator"]
        answer_second_call(faults, Records=[], MillisBehindLatest=0, NextShardIterator=latest)

    harness = run(idle, 4, at_3=put)
    assert harness.events == [{A: ("committed", 1)}]
    assert idle.items == [1, 2]


def test_what_the_iterator_shows_confirms_no_end_of_the_shard(idle, faults):
    def end():
        idle.put(2)
        idle.split(A)
        child = {
            "ShardId": B,
            "ParentShards": [A],
            "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": "9"},
        }
        answer_second_call(faults, Records=[], NextShardIterator=None, ChildShards=[child])

    harness = RunHarness(idle, TIMING, before={3: end}).run(A)
    assert harness.events == [{A: ("finished", 1)}]
    assert idle.items == [1, 2]


def test_an_iterator_that_may_have_expired_is_not_used(idle, faults):
    RunHarness(idle, timing=RunTiming(1e6, commit_interval=270.0), last_iteration=3).run(A)
    assert reads_from_position(faults) == 3


def test_each_commit_of_a_tip_time_follows_from_a_read_from_the_position(idle, faults):
    harness = RunHarness(idle, timing=RunTiming(1e6, commit_interval=180.0), last_iteration=70)
    reads, versions = [], []

    def next_iteration(_):
        reads.append(reads_from_position(faults))
        versions.append(idle.version)
        idle.later(seconds=180)

    harness.continuous_run._on_iteration = next_iteration
    harness.run(A)
    read = {number for number, (before, after) in enumerate(pairwise(reads), 2) if after > before}
    committed = {number for number, (before, after) in enumerate(pairwise(versions), 2) if after > before}
    assert committed == read
    assert len(committed) == 3  # after 3.5 hours


def test_the_records_after_a_position_that_was_moved_back_are_read(idle):
    harness = run(idle, 5, at_3=lambda: idle.seek("TRIM_HORIZON", A))
    assert harness.events == [{A: ("committed", 1)}]
    assert idle.items == [1]


def test_a_recreated_stream_is_read_from_its_start(bench, faults):
    bench.create()
    bench.set_timing(clock=VirtualTime())
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
