"""Moves back: the deleted rows, and the order of parents and children."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from kinesis_assets.errors import SeekRefused
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.seek.plan import Direction
from support.aggregates import aggregate_of
from support.prepared_streams import create_and_split

pytestmark = pytest.mark.slow

# One shard


def test_a_move_back_deletes_the_later_rows_and_the_next_run_lands_them_once(bench):
    (shard_id,) = bench.create()
    _, second, *_ = bench.put(1, 2, 3)
    bench.run()
    bench.put(4, 5)
    bench.run()
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}", by="ann")
    assert bench.items == [1, 2]
    (seek,) = bench.at(shard_id).seeks
    assert (seek.rows_removed, seek.after) == (3, Position.after(second))
    bench.run()
    assert bench.items == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("to", "kept"), [("AFTER {}:1", (1, 2, 3)), ("AT {}", (1,)), ("AFTER {}", range(1, 5))]
)
def test_a_move_back_into_an_aggregate_deletes_the_later_sub_records(bench, to, kept):
    bench.create()
    bench.put(1)
    (number,) = bench.put(aggregate_of(2, 3, 4))
    bench.put(5)
    bench.run()
    kind, place = to.format(number).split()
    bench.seek(f"{kind}_SEQUENCE_NUMBER:{place}")
    assert bench.items == sorted(kept)
    bench.run()
    assert bench.items == [1, 2, 3, 4, 5]


def test_a_move_back_leaves_other_shards_unchanged(bench):
    first, second = bench.create(2)
    bench.put(1, 2, shard_id=first)
    bench.put(3, shard_id=second)
    bench.run()
    before = bench.at(second)
    bench.seek("TRIM_HORIZON", first)
    assert bench.items == [3]
    assert bench.at(second) == before
    bench.run()
    assert bench.items == [1, 2, 3]


def test_a_move_back_to_a_time_is_stored_as_the_first_record_that_arrived_after_it(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(seconds=10)
    (second,) = bench.put(2)
    bench.later(seconds=10)
    bench.put(3)
    bench.run()
    bench.seek(f"AT_TIMESTAMP:{(bench.now - timedelta(seconds=15)).isoformat()}")
    assert bench.items == [1]
    assert bench.at(shard_id).position == Position.parse(f"AT_SEQUENCE_NUMBER:{second}")
    bench.run()
    assert bench.items == [1, 2, 3]


def test_all_shards_are_moved_back_in_one_commit(bench):
    first, second = bench.create(2)
    bench.put(1, 2, shard_id=first)
    bench.put(3, 4, shard_id=second)
    bench.run()
    version = bench.version
    result = bench.seek("TRIM_HORIZON")
    assert (bench.version, result.version) == (version + 1, version + 1)
    assert bench.items == []
    assert (set(bench.amendment.rewound), bench.amendment.by) == ({first, second}, "ann")
    bench.run()
    assert bench.items == [1, 2, 3, 4]


def test_a_move_back_without_rows_to_delete_is_committed(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(seconds=10)
    bench.run(start="LATEST")
    bench.seek("TRIM_HORIZON")
    assert bench.at(shard_id).seeks[0].rows_removed == 0
    bench.run()
    assert bench.items == [1]


@pytest.fixture
def skipped(bench):
    """A shard of which a run has read records 1 and 2, and that was then moved to LATEST."""
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(minutes=1)
    bench.moment = bench.later(minutes=1)
    bench.put(2)
    bench.later(minutes=1)
    bench.run()
    bench.later(minutes=1)
    bench.seek("LATEST")
    assert bench.at(shard_id).position.timestamp == bench.now
    return bench


def test_a_move_from_latest_back_to_a_time_deletes_the_later_rows_and_the_next_run_lands_them_once(skipped):
    (move,) = skipped.seek(f"AT_TIMESTAMP:{skipped.moment.isoformat()}").moves.values()
    assert (move.direction, move.rows_removed, skipped.items) == (Direction.BACK, 1, [1])
    skipped.run()
    assert skipped.items == [1, 2]


@pytest.mark.parametrize("only", [None, 1], ids=["all", "one"])
def test_a_move_from_latest_back_to_a_time_is_refused_if_responses_omit_records_that_the_table_has(
    skipped, faults, only
):
    before = skipped.positions
    responses = []

    def omit(_call, response):
        responses.append(response)
        if only is not None and len(responses) != only + 1:
            return None
        return response.but(Records=[], MillisBehindLatest=0)

    faults.answer("GetRecords", omit)
    for apply in (False, True):
        responses.clear()
        with pytest.raises(SeekRefused, match="Try again"):
            skipped.seek(f"AT_TIMESTAMP:{skipped.moment.isoformat()}", apply=apply)
    faults.clear()
    assert (skipped.items, skipped.positions) == ([1, 2], before)
    skipped.seek(f"AT_TIMESTAMP:{skipped.moment.isoformat()}")
    skipped.run()
    assert skipped.items == [1, 2]


def test_a_move_from_latest_back_to_a_time_before_rows_that_have_expired_in_the_stream_is_made(skipped):
    skipped.later(hours=25)
    (move,) = skipped.seek(f"AT_TIMESTAMP:{skipped.moment.isoformat()}").moves.values()
    assert (move.direction, move.after.position.timestamp) == (Direction.BACK, skipped.moment)


def test_a_move_from_latest_back_to_a_time_after_all_rows_is_made_without_a_record(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    moment = bench.later(minutes=1)
    bench.later(minutes=1)
    bench.seek("LATEST")
    assert bench.at(shard_id).position.timestamp == bench.now
    bench.seek(f"AT_TIMESTAMP:{moment.isoformat()}")
    assert bench.at(shard_id).position.timestamp == moment
    bench.put(2)
    bench.run()
    assert bench.items == [1, 2]


def test_a_move_back_before_a_gap_removes_the_gap(bench):
    (shard_id,) = bench.create()
    first, _, third = bench.put(1, 2, 3)
    bench.run(max_records=1)
    bench.seek(f"AT_SEQUENCE_NUMBER:{third}")
    bench.run()
    assert bench.items == [1, 3]
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert bench.at(shard_id).gaps == ()
    bench.run()
    assert bench.items == [1, 2, 3]


def test_a_move_back_to_records_that_expire_soon_is_refused(bench):
    bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    bench.later(hours=23.5)
    bench.put(3)
    bench.run()
    with pytest.raises(SeekRefused, match="replay"):
        bench.seek(f"AT_SEQUENCE_NUMBER:{first}")
    assert bench.items == [1, 2, 3]


def test_a_move_back_to_the_trim_horizon_keeps_rows_that_cannot_be_read_again(bench):
    bench.create()
    bench.put(1)
    bench.later(hours=23.5)
    bench.put(2)
    bench.run()
    bench.seek("TRIM_HORIZON")
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2]


def test_a_move_back_before_the_floor_of_the_table_is_refused(bench):
    bench.create()
    bench.set_retention(100)
    bench.put(1)
    bench.later(days=1)
    bench.put(2)
    bench.run()
    floor = bench.now.date()
    bench.amend(floor=floor)
    with pytest.raises(SeekRefused, match=str(floor)) as refused:
        bench.seek("TRIM_HORIZON")
    assert bench.items == [1, 2]
    (advice,) = re.findall(r"Choose (AT_TIMESTAMP:\S+)", str(refused.value))
    bench.seek(advice)
    bench.run()
    assert bench.items == [1, 2]


def test_a_seek_keeps_the_floor(bench):
    bench.create()
    _, second = bench.put(1, 2)
    bench.run()
    floor = bench.now.date()
    amendment = bench.amend(floor=floor)
    bench.seek(f"AT_SEQUENCE_NUMBER:{second}")
    assert (bench.amendment.floor, bench.amendment.previous) == (floor, amendment.commit_id)


def test_a_move_back_to_the_trim_horizon_keeps_the_rows_of_a_deleted_stream_of_the_same_name(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.delete()
    bench.later(seconds=5)
    bench.create()
    bench.put(2)
    bench.run(on_recreated="restart")
    assert bench.items == [1, 2]
    bench.seek("TRIM_HORIZON")
    assert bench.items == [1]


def test_a_shard_that_is_no_longer_listed_is_not_moved(bench):
    parent, low, _ = create_and_split(bench)
    for _ in range(2):
        bench.run()
        bench.later(hours=13)
    bench.put(2, shard_id=low)
    assert not bench.run().errors
    assert bench.items == [1, 2]
    assert parent not in bench.shard_ids
    with pytest.raises(SeekRefused, match=f"{parent}.*no longer"):
        bench.seek("TRIM_HORIZON", parent)
    assert bench.seek("TRIM_HORIZON").moves[parent].direction is Direction.STAYS
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2]


# Parents and children


def test_a_parent_is_not_moved_back_without_its_children(bench):
    parent, low, high = create_and_split(bench)
    bench.put(2, shard_id=low)
    bench.run()
    with pytest.raises(SeekRefused, match=low):
        bench.seek("TRIM_HORIZON", parent)
    assert bench.at(parent).finished
    bench.seek("TRIM_HORIZON", parent, low)
    assert bench.items == []
    assert not bench.at(parent).finished
    assert bench.at(high).seeks == ()
    bench.run()
    assert bench.items == [1, 2]


def test_a_parent_is_not_moved_back_while_a_child_keeps_a_row(bench):
    parent, low, _ = create_and_split(bench)
    bench.put(2, shard_id=low)
    bench.later(seconds=5)
    _, last = bench.put(3, 4, shard_id=low)
    bench.run()
    bench.seek(f"AT_SEQUENCE_NUMBER:{last}", low)
    with pytest.raises(SeekRefused, match=low):
        bench.seek("TRIM_HORIZON", parent)


def test_a_move_of_all_shards_moves_the_whole_lineage_back(bench):
    _, low, high = create_and_split(bench)
    bench.put(2, shard_id=high)
    bench.later(seconds=5)
    grandchildren = bench.split(low)  # their parent has no records
    bench.put(3, shard_id=grandchildren[1])
    bench.run()
    assert bench.at(low).finished
    bench.seek("TRIM_HORIZON")
    assert bench.items == []
    assert not any(shard.finished for shard in bench.positions.shards.values())
    bench.run()
    assert bench.items == [1, 2, 3]


def test_a_move_back_to_a_time_in_a_parent_moves_its_children_too(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=10)
    moment = bench.now
    bench.put(2)
    bench.later(seconds=10)
    low, _ = bench.split(parent)
    bench.put(3, shard_id=low)
    bench.run()
    bench.seek(f"AT_TIMESTAMP:{moment.isoformat()}")
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2, 3]
