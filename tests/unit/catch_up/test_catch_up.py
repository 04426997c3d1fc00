"""A catch-up: the newest records first, then the skipped ones, each exactly once whatever is killed."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinesis_assets.catch_up.run import backfill, gaps_to_fill, jump
from kinesis_assets.errors import DataLost, InvalidInput, ReadFailed, ReplayUnfinished
from kinesis_assets.table.snapshot import TableSnapshot
from support.replays import fill_then
from support.shard_ids import A, B, C
from support.single_task import fill_as_in_spark
from support.timing import REPLAYING


class Killed(BaseException):
    """The process ends."""


def catch_up(bench, *shard_ids, fill=fill_as_in_spark):
    moved = jump(bench.client, bench.table, shard_ids, by="ann", apply=True)
    return moved, *fill_gaps(bench, *shard_ids, fill=fill)


def fill_gaps(bench, *shard_ids, fill=fill_as_in_spark):
    return backfill(fill, bench.client, bench.table, shard_ids, by="ann", retries=REPLAYING)


def open_gaps(bench):
    """Return the number of recorded gaps of each shard that are not cleared."""
    amendment = bench.amendment
    return {
        shard_id: count
        for shard_id, shard in bench.positions.shards.items()
        if (count := sum(not (amendment and amendment.has_cleared(shard_id, gap)) for gap in shard.gaps))
    }


@pytest.fixture
def behind(bench):
    """A stream of two shards of which a run has read record 1, and left 2 to 5."""
    bench.create(2)
    bench.put(1, shard_id=A)
    bench.run()
    bench.later(seconds=5)
    bench.put(2, 3, shard_id=A)
    bench.put(4, 5, shard_id=B)
    bench.later(seconds=5)
    return bench


def test_a_wrong_response_that_nothing_is_unread_moves_no_shard(behind, faults):
    before = behind.at(A)
    position = before.position.sequence_number

    def nothing(_call, answer):
        return answer.but(Records=[], MillisBehindLatest=0)

    faults.answer("GetRecords", nothing, shard_id=A)
    jump(behind.client, behind.table, (A,), by="ann", apply=True)
    faults.clear()
    assert behind.at(A).position.sequence_number == position
    behind.run()
    assert behind.items == [1, 2, 3, 4, 5]


def test_a_gap_is_not_cleared_if_the_service_reports_the_tip_before_its_last_record(behind, faults):
    jump(behind.client, behind.table, (A,), by="ann", apply=True)
    behind.put(6, shard_id=A)
    behind.run([A])

    def first_only(_call, answer):
        return answer.but(Records=answer.members["Records"][:1], MillisBehindLatest=0)

    faults.answer("GetRecords", first_only)
    _, errors = fill_gaps(behind, A)
    faults.clear()
    assert isinstance(errors[A], ReplayUnfinished)
    assert open_gaps(behind) == {A: 1}
    assert fill_gaps(behind, A)[1] == {}
    assert behind.items == [1, 2, 3, 6]
    assert open_gaps(behind) == {}


def test_new_records_come_first_and_the_skipped_ones_after(behind):
    jump(behind.client, behind.table, by="ann", apply=True)
    behind.put(6, shard_id=A)
    behind.run()
    assert behind.items == [1, 6]
    assert open_gaps(behind) == {A: 1, B: 1}
    positions = behind.positions

    result, errors = fill_gaps(behind)

    assert (errors, {key: outcome.gaps_filled for key, outcome in result.outcomes.items()}) == (
        {},
        {A: 1, B: 1},
    )
    assert behind.items == [1, 2, 3, 4, 5, 6]
    assert open_gaps(behind) == {}
    assert behind.positions == positions


def test_named_shards_alone_jump_and_are_filled(behind):
    catch_up(behind, A)
    assert behind.items == [1, 2, 3]
    behind.run()
    assert behind.items == [1, 2, 3, 4, 5]
    assert open_gaps(behind) == {}


def test_without_apply_nothing_changes(behind):
    before = behind.version
    moved = jump(behind.client, behind.table, by="ann", apply=False)
    assert {shard_id: move.gap is not None for shard_id, move in moved.moves.items()} == {A: True, B: True}
    assert behind.version == before


def test_a_shard_without_unread_records_gets_no_gap(bench):
    bench.create(2)
    bench.put(1, shard_id=A)
    bench.run()
    bench.later(seconds=5)
    bench.put(2, shard_id=A)
    bench.later(seconds=5)
    jump(bench.client, bench.table, by="ann", apply=True)
    assert open_gaps(bench) == {A: 1}
    assert fill_gaps(bench)[1] == {}
    assert open_gaps(bench) == {}


def test_unread_children_of_a_split_are_filled_and_cleared(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.split(A)
    bench.put(3, shard_id=B)
    bench.put(4, shard_id=C)
    bench.later(seconds=5)
    assert catch_up(bench)[2] == {}
    assert bench.items == [1, 2, 3, 4]
    assert open_gaps(bench) == {}
    bench.put(5, shard_id=C)
    bench.run()
    bench.run()
    bench.assert_exactly_once()


def test_a_gap_is_cleared_although_the_last_record_before_it_has_expired(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=20)
    bench.run()
    bench.later(hours=10)  # the first record has expired
    bench.put(2)
    bench.later(seconds=5)
    assert catch_up(bench)[2] == {}
    assert bench.items == [1, 2]
    assert open_gaps(bench) == {}


def test_a_run_that_has_read_to_the_tip_is_not_set_back(bench):
    bench.create()
    bench.put(1)
    bench.run()
    jump(bench.client, bench.table, by="ann", apply=True)
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1]


def test_gaps_of_other_seeks_are_not_filled(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(seconds=5)
    bench.put(2)
    bench.later(seconds=5)
    bench.seek("LATEST")
    bench.later(seconds=5)
    bench.put(3)
    bench.later(seconds=5)
    catch_up(bench)
    assert (bench.items, open_gaps(bench)) == ([1, 3], {A: 1})


def test_a_stream_that_no_run_has_read_is_refused(bench):
    bench.create()
    bench.table.create_if_missing(bench.client.describe().identity)
    with pytest.raises(InvalidInput, match="no run has committed yet"):
        jump(bench.client, bench.table, by="ann", apply=True)


# Killed


def kill(*_, **__):
    raise Killed


def kill_commit(monkeypatch, *, after, skip=0):
    """End the process at the next commit after some, before it or after it."""
    commit = TableSnapshot.commit
    left = [skip]

    def commit_and_kill(*arguments, **keywords):
        left[0] -= 1
        if left[0] >= 0:
            commit(*arguments, **keywords)
            return
        monkeypatch.setattr(TableSnapshot, "commit", commit)
        if after:
            commit(*arguments, **keywords)
        raise Killed

    monkeypatch.setattr(TableSnapshot, "commit", commit_and_kill)


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
    assert open_gaps(behind) == {}
    behind.assert_exactly_once()


def test_killed_after_the_rows_of_the_backfill_are_written(behind):
    with pytest.raises(Killed):
        catch_up(behind, fill=fill_then(kill))
    assert behind.items == [1]
    assert open_gaps(behind) == {A: 1, B: 1}
    catch_up(behind)
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
    assert open_gaps(behind) == {}
    behind.assert_exactly_once()


def test_a_named_shard_that_was_finished_after_the_jump_is_filled(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.split(A)
    bench.later(seconds=5)
    jump(bench.client, bench.table, [A], by="ann", apply=True)
    bench.run()
    assert bench.at(A).finished
    catch_up(bench, A)
    assert (bench.items, open_gaps(bench)) == ([1, 2], {})


# Expired


def test_a_gap_of_which_records_expire_during_the_backfill_stays_recorded(behind):
    jump(behind.client, behind.table, [A], by="ann", apply=True)
    behind.later(hours=12)
    behind.put(6, shard_id=A)
    behind.later(hours=11, minutes=59, seconds=50)
    behind.run([A])
    behind.later(seconds=7)  # 2 and 3 have expired, 6 has not
    _, errors = fill_gaps(behind)
    assert isinstance(errors[A], DataLost)
    assert behind.items == [1, 6]
    assert open_gaps(behind) == {A: 1}
    assert gaps_to_fill(behind.client, behind.table) == {}


def expire_partly(bench):
    """Have the first of two skipped records expire. Return the number of the second."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=1)
    (number,) = bench.put(3)
    bench.later(seconds=5)
    jump(bench.client, bench.table, by="ann", apply=True)
    bench.later(seconds=5)
    bench.put(4)
    bench.run()
    bench.later(hours=23, seconds=10)
    return number


def test_a_gap_shrinks_to_the_part_that_expired(bench):
    number = expire_partly(bench)
    _, errors = fill_gaps(bench)
    assert isinstance(errors[A], DataLost)
    assert bench.items == [1, 3, 4]
    (gap,) = bench.at(A).gaps
    assert (gap.next_sequence_number, gap.to_fill) == (number, False)
    assert open_gaps(bench) == {A: 1}
    assert fill_gaps(bench) == (None, {})  # it is reported once
    bench.run()
    assert bench.items == [1, 3, 4]


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


def test_a_failed_backfill_keeps_the_gap_to_be_filled(behind, faults):
    jump(behind.client, behind.table, by="ann", apply=True)
    faults.fail(status=400, code="AccessDeniedException", shard_id=A)
    _, errors = fill_gaps(behind)
    assert isinstance(errors[A], ReadFailed)
    assert behind.items == [1, 4, 5]
    faults.clear()
    assert fill_gaps(behind)[1] == {}
    assert (behind.items, open_gaps(behind)) == ([1, 2, 3, 4, 5], {})


def test_a_gap_that_has_expired_is_reported_once(behind):
    jump(behind.client, behind.table, by="ann", apply=True)
    behind.later(hours=25)
    result, errors = fill_gaps(behind)
    assert (result, errors.keys()) == (None, {A, B})
    assert fill_gaps(behind) == (None, {})
    assert open_gaps(behind) == {A: 1, B: 1}


def test_a_gap_of_another_catch_up_is_not_given_up(behind):
    jump(behind.client, behind.table, by="ann", apply=True)

    def put_and_jump():
        behind.later(seconds=5)
        behind.put(6, shard_id=A)
        behind.later(seconds=5)
        jump(behind.client, behind.table, by="bob", apply=True)

    fill_gaps(behind, fill=fill_then(put_and_jump))
    assert [gap.to_fill for gaps in gaps_to_fill(behind.client, behind.table).values() for gap in gaps] == [
        True
    ]
    assert fill_gaps(behind)[1] == {}
    assert (behind.items, open_gaps(behind)) == ([1, 2, 3, 4, 5, 6], {})


def test_records_that_may_have_expired_before_the_jump_keep_the_gap(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=25)
    bench.put(3)
    bench.later(seconds=5)
    _, _, errors = catch_up(bench)
    assert isinstance(errors[A], DataLost)
    assert (bench.items, open_gaps(bench)) == ([1, 3], {A: 1})


# A property

STEPS = st.lists(
    st.sampled_from(["put", "put", "run", "later", "split", "jump", "fill", "kill fill", "kill commit"]),
    max_size=14,
)


@given(STEPS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_any_history_the_table_has_each_record_once_and_no_open_gap(make_bench, steps):
    bench = make_bench()
    bench.create(2)
    bench.run()
    for number, step in enumerate(steps):
        play(bench, step, number)
    bench.later(seconds=5)
    catch_up(bench)
    for _ in range(4):  # parents, children, and theirs
        bench.later(seconds=5)
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
            bench.later(seconds=3)
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
