"""A catch-up: the newest records first, then the skipped ones, each exactly once whatever is killed."""

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest

from kinesis_assets.errors import CommitUnknown, DataLost, InvalidInput, ReadFailed
from kinesis_assets.operations.catch_up import gaps_to_fill, jump
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.snapshot import TableSnapshot
from support.catch_ups import catch_up, expire_partly, fill_gaps, open_gaps
from support.replays import fill_then
from support.shard_ids import A, B, C

pytestmark = pytest.mark.slow


def test_new_records_come_first_and_the_skipped_ones_after(behind):
    jump(behind.client, behind.table, by="ann", apply=True)
    behind.put(6, shard_id=A)
    behind.run()
    assert behind.items == [1, 6, 8, 9]
    assert open_gaps(behind) == {A: 1, B: 1}
    positions = behind.positions

    results = []
    assert fill_gaps(behind, report=results.append) == {}

    (result,) = results
    assert {key: outcome.gaps_filled for key, outcome in result.outcomes.items()} == {A: 1, B: 1}
    assert behind.items == [1, 2, 3, 4, 5, 6, 8, 9]
    assert open_gaps(behind) == {}
    assert behind.positions == positions


def test_a_gap_that_begins_before_the_floor_is_filled_from_there_on(bench):
    bench.create()
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    for item in range(2, 6):
        bench.later(days=1)
        bench.put(item)
    bench.amend(floor=bench.now.date() - timedelta(days=1))
    bench.later(minutes=2)
    bench.put(6)
    assert catch_up(bench) == {}
    assert bench.items == [1, 4, 5]
    assert open_gaps(bench) == {}
    bench.run()
    assert bench.items == [1, 4, 5, 6]


def test_named_shards_alone_jump_and_are_filled(behind):
    catch_up(behind, A)
    assert behind.items == [1, 2, 3]
    behind.run()
    assert behind.items == [1, 2, 3, 4, 5, 8, 9]
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
    bench.later(minutes=2)
    bench.put(2, shard_id=A)
    bench.later(minutes=2)
    bench.put(3, shard_id=A)
    jump(bench.client, bench.table, by="ann", apply=True)
    assert open_gaps(bench) == {A: 1}
    assert fill_gaps(bench) == {}
    assert open_gaps(bench) == {}


def test_unread_children_of_a_split_are_filled_and_cleared(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(minutes=2)
    bench.put(3)
    bench.split(A)
    bench.put(4, shard_id=B)
    bench.put(5, shard_id=C)
    bench.later(minutes=2)
    bench.put(6, shard_id=B)
    bench.put(7, shard_id=C)
    assert catch_up(bench) == {}
    assert bench.items == [1, 2, 4, 5]
    assert open_gaps(bench) == {}
    bench.put(8, shard_id=C)
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
    bench.later(minutes=2)
    bench.put(3)
    assert catch_up(bench) == {}
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
    bench.later(minutes=2)
    bench.put(2)
    bench.later(minutes=2)
    bench.seek("LATEST")
    bench.later(minutes=2)
    bench.put(3)
    bench.later(minutes=2)
    bench.put(4)
    catch_up(bench)
    assert (bench.items, open_gaps(bench)) == ([1, 3], {A: 1})


def test_a_stream_that_no_run_has_read_is_refused(bench):
    bench.create()
    bench.table.create_if_missing(bench.client.describe().identity)
    with pytest.raises(InvalidInput, match="no run"):
        jump(bench.client, bench.table, by="ann", apply=True)


def test_a_named_shard_that_was_finished_after_the_jump_is_filled(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(minutes=2)
    bench.put(3)
    bench.split(A)
    jump(bench.client, bench.table, [A], by="ann", apply=True)
    bench.run()
    assert (bench.items, bench.at(A).finished) == ([1, 3], True)
    catch_up(bench, A)
    assert (bench.items, open_gaps(bench)) == ([1, 2, 3], {})


# Expired


def test_a_gap_of_which_records_expire_during_the_backfill_stays_recorded(behind):
    jump(behind.client, behind.table, [A], by="ann", apply=True)
    behind.later(hours=12)
    behind.put(6, shard_id=A)
    behind.later(hours=11, minutes=57, seconds=55)
    behind.run([A])
    behind.later(seconds=7)  # 2 and 3 have expired, 6 and 8 have not
    errors = fill_gaps(behind)
    assert isinstance(errors[A], DataLost)
    assert behind.items == [1, 6, 8]
    assert open_gaps(behind) == {A: 1}
    assert gaps_to_fill(behind.client, behind.table) == {}


def test_a_gap_shrinks_to_the_part_that_expired(bench):
    number = expire_partly(bench)
    errors = fill_gaps(bench)
    assert isinstance(errors[A], DataLost)
    assert bench.items == [1, 3, 4]
    (gap,) = bench.at(A).gaps
    assert (gap.next_sequence_number, gap.to_fill) == (number, False)
    assert open_gaps(bench) == {A: 1}
    assert fill_gaps(bench) == {}  # it is reported once
    bench.run()
    assert bench.items == [1, 3, 4]


def test_a_failed_backfill_keeps_the_gap_to_be_filled(behind, faults):
    jump(behind.client, behind.table, by="ann", apply=True)
    faults.fail(status=400, code="AccessDeniedException", shard_id=A)
    errors = fill_gaps(behind)
    assert isinstance(errors[A], ReadFailed)
    assert behind.items == [1, 4, 5]
    faults.clear()
    assert fill_gaps(behind) == {}
    assert (behind.items, open_gaps(behind)) == ([1, 2, 3, 4, 5], {})


def test_a_gap_that_has_expired_is_reported_once(behind):
    jump(behind.client, behind.table, by="ann", apply=True)
    behind.later(hours=25)
    assert fill_gaps(behind).keys() == {A, B}
    assert fill_gaps(behind) == {}
    assert open_gaps(behind) == {A: 1, B: 1}


def replace_table(bench):
    """Have another process replace the table by an empty one."""
    empty = PositionedTable(f"{bench.table.uri}-empty")
    empty.create_if_missing()
    shutil.rmtree(f"{bench.table.uri}/_delta_log")
    shutil.copytree(f"{empty.uri}/_delta_log", f"{bench.table.uri}/_delta_log")


def test_a_lost_part_is_not_recorded_in_a_table_that_was_replaced(behind, monkeypatch):
    jump(behind.client, behind.table, by="ann", apply=True)
    behind.later(hours=25)

    def replace_and_fail(*_, **__):
        replace_table(behind)
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", replace_and_fail)
    with pytest.raises(CommitUnknown, match="are missing, so it is unknown"):
        fill_gaps(behind)


def test_gaps_of_a_table_that_was_replaced_are_not_reported_as_done(behind, faults):
    jump(behind.client, behind.table, by="ann", apply=True)
    behind.later(hours=25)
    faults.answer("ListShards", lambda *_: replace_table(behind))
    with pytest.raises(CommitUnknown, match="are missing, so it is unknown"):
        fill_gaps(behind)


def test_records_are_not_added_to_a_table_that_was_replaced_while_they_were_read(behind):
    jump(behind.client, behind.table, by="ann", apply=True)
    with pytest.raises(CommitUnknown, match="are missing, so it is unknown"):
        fill_gaps(behind, fill=fill_then(lambda: replace_table(behind)))


def test_a_gap_of_another_catch_up_is_not_given_up(behind):
    jump(behind.client, behind.table, by="ann", apply=True)

    def put_and_jump():
        behind.later(minutes=2)
        behind.put(6, shard_id=A)
        behind.later(minutes=2)
        behind.put(7, shard_id=A)
        jump(behind.client, behind.table, by="bob", apply=True)

    fill_gaps(behind, fill=fill_then(put_and_jump))
    assert [gap.to_fill for gaps in gaps_to_fill(behind.client, behind.table).values() for gap in gaps] == [
        True
    ]
    assert fill_gaps(behind) == {}
    assert (behind.items, open_gaps(behind)) == ([1, 2, 3, 4, 5, 6, 8], {})


def test_records_that_may_have_expired_before_the_jump_keep_the_gap(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=25)
    bench.put(3)
    bench.later(minutes=2)
    bench.put(4)
    errors = catch_up(bench)
    assert isinstance(errors[A], DataLost)
    assert (bench.items, open_gaps(bench)) == ([1, 3], {A: 1})
