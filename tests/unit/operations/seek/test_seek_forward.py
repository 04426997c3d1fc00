"""Moves forward: the gap that they record, and loss before and after them."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import (
    DataLost,
    SeekRefused,
)
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.catch_up import jump
from kinesis_assets.operations.seek.plan import Direction
from support.aggregates import aggregate_of
from support.prepared_streams import create_and_split

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(lambda bench: bench.seek("LATEST"), id="seek"),
        pytest.param(lambda bench: jump(bench.client, bench.table, by="ann", apply=True), id="catch-up"),
    ],
)
def test_the_targets_of_shards_are_read_at_the_same_time(bench, faults, move):
    shards = bench.create(3)
    bench.run()
    together = threading.Barrier(len(shards))
    for shard_id in shards:
        faults.before("GetRecords", partial(together.wait, SECONDS), shard_id=shard_id, times=1)
    assert move(bench).moves.keys() == {*shards}
    assert not together.broken


def test_a_move_forward_records_the_gap_and_the_user_and_keeps_the_rows(bench):
    (shard_id,) = bench.create()
    first, *_ = bench.put(1)
    bench.run()
    before = bench.at(shard_id)
    bench.later(seconds=5)
    _, _, last = bench.put(2, 3, 4)
    bench.later(seconds=5)
    bench.seek(f"AT_SEQUENCE_NUMBER:{last}", by="ann")
    after = bench.at(shard_id)
    (gap,), (seek,) = after.gaps, after.seeks
    assert (gap.after, gap.since, gap.next_sequence_number) == (
        Position.after(first),
        before.complete_until,
        last,
    )
    assert (seek.by, seek.before, seek.after) == (
        "ann",
        Position.after(first),
        Position.parse(f"AT_SEQUENCE_NUMBER:{last}"),
    )
    assert (seek.at, bench.positions.by) == (bench.now, "ann")
    assert bench.items == [1]


def test_the_next_run_starts_at_the_new_position(bench):
    bench.create()
    bench.put(1)
    bench.run()
    _, third = bench.put(2, 3)
    bench.put(4)
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{third}")
    bench.run()
    assert bench.items == [1, 4]


def test_latest_is_stored_as_the_current_time(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(seconds=5)
    bench.put(2)
    bench.later(seconds=5)
    now = bench.now
    bench.seek("LATEST")
    assert bench.at(shard_id).position == Position.at_timestamp(now)
    assert bench.at(shard_id).complete_until == now
    bench.later(seconds=5)
    bench.put(3)
    bench.run()
    assert bench.items == [1, 3]


def test_a_move_forward_into_an_aggregate_continues_with_the_next_sub_record(bench):
    bench.create()
    bench.put(1)
    bench.run()
    (number,) = bench.put(aggregate_of(2, 3, 4))
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}:1")
    bench.run()
    assert bench.items == [1, 4]


def test_an_unread_shard_can_be_moved_forward_with_a_gap_from_its_first_record_on(bench):
    (shard_id,) = bench.create()
    bench.run()
    (child, _) = bench.split(shard_id)
    first, second = bench.put(1, 2, shard_id=child)
    bench.seek(f"AT_SEQUENCE_NUMBER:{second}", child)
    (gap,) = bench.at(child).gaps
    assert (str(gap.after), gap.next_sequence_number) == (f"AT_SEQUENCE_NUMBER:{first}", second)
    bench.run()
    assert bench.items == [2]


def test_a_move_forward_over_expired_records_resolves_the_loss(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=30)
    bench.put(3)
    assert bench.run().errors
    bench.later(seconds=2)
    bench.seek("LATEST")
    bench.later(seconds=2)
    bench.put(4)
    assert not bench.run().errors
    assert bench.items == [1, 4]


def test_loss_after_a_move_forward_is_reported(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(seconds=5)
    bench.seek("LATEST")
    bench.put(2)
    bench.later(hours=30)
    bench.put(3)
    assert isinstance(bench.run().errors[shard_id], DataLost)


def test_a_finished_shard_cannot_be_moved_forward(bench):
    shard_id, *_ = create_and_split(bench)
    bench.run()
    bench.later(seconds=5)
    with pytest.raises(SeekRefused, match="finished"):
        bench.seek("LATEST", shard_id)


def test_a_move_of_all_shards_leaves_finished_shards_unchanged(bench):
    shard_id, low, high = create_and_split(bench)
    bench.run()
    bench.later(seconds=5)
    moves = bench.seek("LATEST").moves
    assert {key: move.direction for key, move in moves.items()} == {
        shard_id: Direction.STAYS,
        low: Direction.FORWARD,
        high: Direction.FORWARD,
    }
    assert bench.at(shard_id).finished
