"""Whatever is killed in a catch-up, the next one leaves each record in the table once."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinesis_assets.operations.catch_up import jump
from support.catch_ups import Killed, catch_up, expire_partly, fill_gaps, kill, kill_commit, open_gaps
from support.replays import fill_then
from support.shard_ids import A, B
from support.single_task import fill_as_in_spark

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_the_commit_of_the_jump(behind, monkeypatch, after):
    kill_commit(monkeypatch, after=after)
    with pytest.raises(Killed):
        catch_up(behind)
    assert behind.items == [1]
    assert open_gaps(behind) == ({A: 1, B: 1} if after else {})
    catch_up(behind)
    behind.run()
    assert open_gaps(behind) == {}
    behind.assert_exactly_once()


def test_killed_between_jump_and_backfill(behind):
    with pytest.raises(Killed):
        catch_up(behind, fill=kill)
    behind.put(6, shard_id=A)
    behind.run()
    assert open_gaps(behind) == {A: 1, B: 1}
    catch_up(behind)
    behind.run()
    assert open_gaps(behind) == {}
    behind.assert_exactly_once()


def test_killed_after_the_rows_of_the_backfill_are_written(behind):
    with pytest.raises(Killed):
        catch_up(behind, fill=fill_then(kill))
    assert behind.items == [1]
    assert open_gaps(behind) == {A: 1, B: 1}
    catch_up(behind)
    behind.run()
    assert open_gaps(behind) == {}
    behind.assert_exactly_once()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_at_the_commit_of_the_backfill_the_gap_is_cleared_with_its_rows(behind, monkeypatch, after):
    jump(behind.client, behind.table, by="ann", apply=True)
    kill_commit(monkeypatch, after=after)
    with pytest.raises(Killed):
        fill_gaps(behind)
    assert (behind.items, open_gaps(behind)) == (([1, 2, 3, 4, 5], {}) if after else ([1], {A: 1, B: 1}))
    catch_up(behind)
    behind.run()
    assert open_gaps(behind) == {}
    behind.assert_exactly_once()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_when_the_lost_part_is_recorded(bench, monkeypatch, after):
    number = expire_partly(bench)

    def fill_and_kill(job, ranges):
        result = fill_as_in_spark(job, ranges)
        kill_commit(monkeypatch, after=after, skip=1)
        return result

    with pytest.raises(Killed):
        fill_gaps(bench, fill=fill_and_kill)
    assert bench.items == [1, 3, 4]
    assert bench.at(A).gaps[0].to_fill is not after
    fill_gaps(bench)
    (gap,) = bench.at(A).gaps
    assert (bench.items, gap.next_sequence_number, gap.to_fill) == ([1, 3, 4], number, False)


STEPS = st.lists(
    st.sampled_from(["put", "put", "run", "later", "split", "jump", "fill", "kill fill", "kill commit"]),
    max_size=14,
)


FEW = settings().max_examples // 4  # an example takes as long as ten tests


@pytest.mark.thorough
@given(STEPS)
@settings(max_examples=FEW, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_the_table_has_each_record_once_and_no_open_gap(make_bench, steps):
    bench = make_bench()
    bench.create(2)
    bench.run()
    for number, step in enumerate(steps):
        play(bench, step, number)
    bench.later(minutes=2)
    catch_up(bench)
    for _ in range(4):  # parents, children, and theirs
        bench.later(minutes=2)
        bench.run()
    fill_gaps(bench)
    assert open_gaps(bench) == {}
    bench.assert_exactly_once()


def play(bench, step, number):
    match step:
        case "put":
            shards = [shard.shard_id for shard in bench.client.list_shards() if not shard.closed]
            bench.put(number, shard_id=shards[number % len(shards)])
        case "run":
            bench.run()
        case "later":
            bench.later(minutes=2)
        case "split":
            shards = [shard.shard_id for shard in bench.client.list_shards() if not shard.closed]
            bench.split(shards[0])
        case "jump":
            jump(bench.client, bench.table, by="ann", apply=True)
        case "fill":
            fill_gaps(bench)
        case "kill fill":
            kill_safely(lambda: catch_up(bench, fill=fill_then(kill)))
        case "kill commit":
            with pytest.MonkeyPatch.context() as patch:
                kill_commit(patch, after=bool(number % 2))
                kill_safely(lambda: catch_up(bench))


def kill_safely(act):
    with suppress(Killed):
        act()
