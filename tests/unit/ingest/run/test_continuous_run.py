"""Following without Dagster and Spark: round after round, what is committed and what is told."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.errors import KinesisAssetsError, RunCanceled
from kinesis_assets.ingest.plan import ReadPolicy
from kinesis_assets.ingest.run_timing import RunTiming
from kinesis_assets.kinesis.limits import Bounds
from support.continuous import PACE, A, B, C, D, Followed

if TYPE_CHECKING:
    from collections.abc import Callable

ALWAYS_LISTED = replace(PACE, max_listing_age=0.0)
"""Each iteration lists the shards."""


def test_each_round_that_brings_rows_is_a_commit_of_its_own_and_told(bench):
    bench.create()
    bench.put(1)
    before = {2: lambda: bench.put(2, 3), 4: lambda: bench.put(4)}
    followed = Followed(bench, before=before, last_round=4).run(A)
    assert followed.events == [{A: ("committed", 1)}, {A: ("committed", 2)}, {A: ("committed", 1)}]
    versions = [result.version for result in followed.told]
    assert versions == list(range(versions[0], versions[0] + 3))
    assert len({result.batch_id for result in followed.told}) == 3
    assert bench.items == [1, 2, 3, 4]


def test_only_the_shards_that_moved_are_told(bench):
    bench.create(2)
    before = {2: lambda: bench.put(1, part=0.5), 3: lambda: bench.put(2, part=0)}
    followed = Followed(bench, before=before, last_round=3).run(A, B)
    assert followed.events == [{B: ("committed", 1)}, {A: ("committed", 1)}]


def test_a_round_without_anything_new_commits_and_tells_nothing(bench):
    bench.create(2)
    Followed(bench, last_round=1).run(A, B)  # the first commit of a tip
    version = bench.version
    followed = Followed(bench, last_round=5).run(A, B)
    assert (followed.rounds, followed.events, bench.version) == (5, [], version)


def test_a_shard_is_told_once_that_it_finished_and_the_run_ends_with_the_last(bench):
    bench.create()
    bench.put(1)
    bench.split(A)
    followed = Followed(bench).run(A)
    assert followed.events == [{A: ("finished", 1)}]
    assert Followed(bench).run(A).events == []


def test_a_split_in_the_middle_is_followed_to_its_end_and_neighbours_go_on(bench):
    bench.create(2)
    before = {2: lambda: (bench.put(1), bench.split(A, 0.25)), 4: lambda: bench.put(2, part=0.5)}
    followed = Followed(bench, before=before, last_round=4).run(A, B)
    assert followed.events == [{A: ("finished", 1)}, {B: ("committed", 1)}]
    assert bench.positions.shards.keys() == {A, B, C, D}


def test_a_shard_that_is_behind_is_read_on_at_once(bench):
    bench.create()
    bench.put(*range(30))
    pace = RunTiming(20.0, commit_interval=10.0)
    policy = ReadPolicy(bounds=Bounds(max_records=10))
    bench.later(seconds=2)
    followed = Followed(bench, pace=pace, policy=policy, last_round=3).run(A)
    assert followed.events == [{A: ("committed", 10)}] * 3


def test_a_round_reads_no_longer_than_the_interval_so_that_neighbours_are_committed(bench, faults):
    bench.create()
    for _ in range(8):
        bench.put(*range(500))
    faults.page_size(1)
    pace = RunTiming(20.0, commit_interval=0.3)
    followed = Followed(bench, pace=pace, last_round=2).run(A)
    (first, *_) = followed.told
    assert 0 < first.outcomes[A].rows < 4000


# The plan of its first iteration


def test_the_first_iteration_executes_the_given_plan(bench):
    bench.create()
    bench.put(1)
    followed = Followed(bench, last_round=1)
    plan = bench.plan([A])
    followed.follow.run(plan)
    assert [result.batch_id for result in followed.told] == [plan.batch_id]


def test_a_given_plan_that_another_run_has_overtaken_is_replaced_by_a_newer_one(bench):
    bench.create()
    bench.put(1)
    followed = Followed(bench, last_round=2)
    plan = bench.plan([A])
    bench.run()
    bench.put(2)
    followed.follow.run(plan)
    assert followed.events == [{A: ("committed", 1)}]
    assert bench.items == [1, 2]


def test_after_an_overtaken_plan_the_first_commit_still_shows_that_the_run_is_alive(bench):
    bench.create()
    bench.put(1)
    followed = Followed(bench, last_round=3)
    plan = bench.plan([A])
    bench.run()
    version = bench.version
    bench.later(seconds=2)
    followed.follow.run(plan)
    assert (followed.events, bench.version) == ([], version + 1)


# Time


@pytest.mark.real_time
def test_it_ends_after_its_time(bench):
    bench.create()
    followed = Followed(bench, pace=RunTiming(2.0, commit_interval=0.05)).run(A)
    assert followed.rounds > 1


def test_shards_are_listed_seldom(bench, faults):
    bench.create()
    plan = bench.plan([A])
    before = faults.count("ListShards")
    Followed(bench, last_round=5).follow.run(plan)
    assert faults.count("ListShards") == before + 1


def test_a_round_that_finds_nothing_asks_for_the_stream_no_more_than_it_lists(bench, faults):
    bench.create()
    bench.run()
    plan = bench.plan([A])
    before = faults.count("DescribeStreamSummary")
    Followed(bench, last_round=5).follow.run(plan)
    assert faults.count("DescribeStreamSummary") == before + 1


def test_shards_are_listed_anew_when_the_list_is_old(bench, faults):
    bench.create()
    before = faults.count("ListShards")
    Followed(bench, pace=ALWAYS_LISTED, last_round=3).run(A)
    assert faults.count("ListShards") == before + 3


def test_one_incomplete_list_does_not_end_it(bench, faults):
    bench.create(2)

    def without_the_last(_, answer):
        return answer.but(Shards=answer.members["Shards"][:-1])

    before = {2: lambda: (bench.put(1), faults.answer("ListShards", without_the_last, times=1))}
    followed = Followed(bench, pace=ALWAYS_LISTED, before=before, last_round=3).run(A, B)
    assert len(followed.events) == 1


def test_a_list_that_is_used_again_does_not_hold_records_back(bench):
    """What arrives after the listing is read by the clock of now."""
    bench.create()
    followed = Followed(bench, pace=RunTiming(4.0, commit_interval=0.05))

    def put():
        followed.follow._shard_list._listed_at -= 8.0  # as if 8 s had passed
        bench.later(seconds=8)
        bench.put(1)

    followed.before[2] = put
    followed.before[4] = followed.follow.stop
    followed.run(A)
    assert bench.items == [1]


# Being told to stop


def test_a_stop_between_two_rounds_ends_it_at_once(bench):
    bench.create()
    bench.put(1)
    followed = Followed(bench, pace=RunTiming(600.0, commit_interval=300.0))
    following = threading.Thread(target=followed.run, args=(A,), daemon=True)
    following.start()
    while not followed.told:
        following.join(0.01)
    assert followed.told[0].outcomes[A].lag_ms == 0
    time.sleep(0.3)  # so that it waits
    followed.follow.stop()
    following.join(20)
    assert not following.is_alive()
    assert (followed.rounds, bench.items) == (1, [1])


def test_a_stop_within_a_round_commits_and_tells_what_was_read(bench, faults):
    bench.set_timing(stop_poll_seconds=0.01)
    bench.create()
    numbers = bench.put(*range(500))
    faults.page_size(1)
    faults.delay(0.01)
    followed = Followed(bench, pace=RunTiming(600.0, commit_interval=300.0))
    faults.before("GetRecords", followed.follow.stop, after=5, times=1)
    followed.run(A)
    (told,) = followed.told
    rows = told.outcomes[A].rows
    assert 5 <= rows < 500
    assert bench.at(A).position.sequence_number == numbers[rows - 1]
    assert bench.items == list(range(rows))


def test_a_failing_shard_does_not_fail_a_run_that_was_told_to_stop(bench, faults):
    bench.create()
    faults.fail(status=400, code="KMSAccessDeniedException", shard_id=A)
    followed = Followed(bench, last_round=1).run(A)
    assert followed.events == [{A: ("failed", 0)}]


# Other runs


def test_a_conflict_is_planned_anew_and_tells_nothing(bench):
    bench.create()
    bench.put(1)
    before = {1: bench.run, 2: lambda: bench.put(2)}
    followed = Followed(bench, before=before, last_round=2).run(A)
    assert followed.events == [{A: ("committed", 1)}]
    assert bench.items == [1, 2]


def test_in_its_last_seconds_it_ends_when_another_begins_to_follow_where_nothing_comes(bench):
    bench.create(2)
    pace = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    told = []

    def other():
        bench.later(seconds=2)
        told.append(Followed(bench, last_round=1).run(A).events)

    followed = Followed(bench, pace=pace, before={3: other}, last_round=6).run(A, B)
    assert (followed.rounds, followed.events, told) == (3, [], [[]])


def test_before_its_last_seconds_it_goes_on_beside_another(bench):
    bench.create()

    def other():
        bench.later(seconds=2)
        Followed(bench, last_round=1).run(A)

    followed = Followed(bench, before={3: other}, last_round=6).run(A)
    assert followed.rounds == 6


def test_in_its_last_seconds_its_own_tips_do_not_end_it(bench):
    bench.create()
    pace = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    before = {2: lambda: bench.later(hours=2), 4: lambda: bench.later(hours=2)}
    version = []
    before[3] = before[5] = lambda: version.append(bench.version)
    followed = Followed(bench, pace=pace, before=before, last_round=6).run(A)
    assert followed.rounds == 6
    assert version[1] > version[0]


def test_only_its_first_round_commits_a_tip_alone(bench):
    bench.create()
    bench.run()
    version = bench.version
    bench.later(seconds=2)
    before = {2: lambda: bench.later(seconds=2)}
    followed = Followed(bench, before=before, last_round=4).run(A)
    assert (followed.events, bench.version) == ([], version + 1)


def test_in_its_last_seconds_it_ends_when_another_run_moved_a_shard(bench):
    bench.create()
    bench.put(1)
    pace = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    before: dict[int, Callable[[], object]] = {}
    followed = Followed(bench, pace=pace, before=before, last_round=5)

    def other():
        bench.put(2)
        bench.run()

    before[2] = other
    followed.run(A)
    assert followed.rounds == 2  # it lost the second
    assert followed.events == [{A: ("committed", 1)}]
    assert bench.items == [1, 2]


def test_in_them_it_sees_what_another_run_moved_before_it_reads(bench):
    bench.create()
    bench.put(1)
    pace = RunTiming(600.0, commit_interval=0.05, handover=600.0)
    followed = Followed(bench, pace=pace, last_round=4)

    def tell(result):
        followed.told.append(result)
        bench.put(2)
        bench.run()

    followed.follow._report = tell
    followed.run(A)
    assert followed.rounds == 1
    assert bench.items == [1, 2]


def test_before_them_it_goes_on(bench):
    bench.create()
    bench.put(1)
    pace = RunTiming(600.0, commit_interval=0.05, handover=300.0)

    def other():
        bench.put(2)
        bench.run()

    before = {2: other, 4: lambda: bench.put(3)}
    followed = Followed(bench, pace=pace, before=before, last_round=4).run(A)
    assert followed.events == [{A: ("committed", 1)}, {A: ("committed", 1)}]
    assert bench.items == [1, 2, 3]


@pytest.mark.real_time
@pytest.mark.parametrize(("handover", "pauses"), [(600.0, True), (0.0, False)], ids=["last", "before"])
def test_in_its_last_seconds_it_pauses_between_rounds_so_that_the_next_run_gets_in(bench, handover, pauses):
    """Of two without a pause the one whose round began first would win every time."""
    bench.create()
    began: list[float] = []

    def slow():
        began.append(time.monotonic())
        time.sleep(1.0)  # a landing's time

    pace = RunTiming(600.0, commit_interval=0.05, handover=handover)
    Followed(bench, pace=pace, before={1: slow, 2: slow}, last_round=2).run(A)
    assert (began[1] - began[0] > 1.0 + 1.4) is pauses


@pytest.mark.real_time
def test_two_at_once_lose_and_double_nothing(bench):
    bench.create(2)
    first = Followed(bench, pace=RunTiming(1.5, commit_interval=0.02), by="first")
    second = Followed(bench, pace=RunTiming(1.5, commit_interval=0.03), by="second")
    errors: list[KinesisAssetsError] = []

    def run(followed):
        try:
            followed.run(A, B)
        except KinesisAssetsError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(each,)) for each in (first, second)]
    for thread in threads:
        thread.start()
    items = 0
    while any(thread.is_alive() for thread in threads):
        bench.put(items, items + 1, part=0.5 * (items % 4 == 0))
        items += 2
        threads[0].join(0.02)
    for thread in threads:
        thread.join()
    assert errors == []
    bench.run()
    assert bench.items == list(range(items))


def test_a_run_told_to_stop_counts_each_shard_once_however_often_it_committed():
    told = [{"shard": "a"}, {"shard": "b"}, {"shard": "a"}]
    assert "; 2 shards committed" in str(RunCanceled("orders", told))
