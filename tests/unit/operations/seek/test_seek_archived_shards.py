"""Seeks in streams with archived shards."""

from __future__ import annotations

import msgspec
import pytest

from kinesis_assets.errors import SeekRefused
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.seek.plan import Direction
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import ClearedGap
from kinesis_assets.table.positions.positions_chain import ChainPolicy
from support.prepared_streams import create_and_split

pytestmark = pytest.mark.slow


def archive(bench, *shard_ids):
    """Archive finished shards as if they were missing from a list."""
    bench.set_table_policy(chain=ChainPolicy(max_files=0, min_archived=1))
    now = bench.positions
    archived = msgspec.structs.replace(
        now, commit_id=new_id(), previous=now.commit_id, generation=now.generation + 1, added={}, batch_id=1
    )
    bench.table.snapshot().commit([], identity=now.identity, positions=archived, retired=shard_ids)
    assert not bench.positions.shards.keys() & {*shard_ids}


def test_an_archived_shard_is_moved_back_with_its_children_and_read_once(bench):
    parent, low, _ = create_and_split(bench)
    bench.put(2, shard_id=low)
    bench.run()
    archive(bench, parent)
    bench.seek("TRIM_HORIZON", parent, low)
    assert bench.items == []
    assert not bench.at(parent).finished
    bench.run()
    assert bench.items == [1, 2]
    assert bench.at(parent).finished


def test_a_move_back_keeps_the_filled_gaps_of_archived_shards(bench):
    bench.create()
    bench.put(1)
    bench.run()
    cleared = {"shardId-archived": (ClearedGap(Position.after("1")),)}
    bench.amend(cleared=cleared)
    bench.seek("TRIM_HORIZON")
    assert bench.items == []
    assert bench.amendment.cleared == cleared


def test_a_parent_is_not_moved_back_without_its_archived_child(bench):
    parent, low, _ = create_and_split(bench)
    bench.put(2, shard_id=low)
    bench.later(seconds=5)
    bench.split(low)
    bench.run()
    archive(bench, low)
    with pytest.raises(SeekRefused, match=low):
        bench.seek("TRIM_HORIZON", parent)


def test_a_move_of_all_shards_leaves_archived_shards_unchanged(bench):
    parent, *_ = create_and_split(bench)
    bench.run()
    archive(bench, parent)
    moves = bench.seek("LATEST").moves
    assert moves[parent].direction is Direction.STAYS
    assert parent not in bench.positions.shards
