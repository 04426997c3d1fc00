"""Seeks: moves forward, invalid arguments, and tables that a seek refuses."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import (
    InvalidInput,
    SeekRefused,
    TableMissing,
    TableOfAnotherStream,
    TableRewritten,
)
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.seek import run as seek_module
from kinesis_assets.seek.plan import Direction
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.testing import UserRecord, aggregate


def files(bench):
    """Return every file in the folder of the table."""
    return {str(path) for path in Path(bench.table.uri).rglob("*") if path.is_file()}


def aggregate_of(*items):
    """Aggregate these numbers."""
    return aggregate(UserRecord("k", str(item).encode()) for item in items)


def at_number(number):
    return Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=number)


def at_time(moment):
    return f"AT_TIMESTAMP:{moment.isoformat()}"


# Moves forward


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
    assert (seek.by, seek.before, seek.after) == ("ann", Position.after(first), at_number(last))
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


def test_an_unread_shard_can_be_moved_forward_with_a_gap_of_unknown_start(bench):
    (shard_id,) = bench.create()
    bench.run()
    (child, _) = bench.split(shard_id)
    _, second = bench.put(1, 2, shard_id=child)
    bench.seek(f"AT_SEQUENCE_NUMBER:{second}", child)
    (gap,) = bench.at(child).gaps
    assert (gap.after.kind, gap.since) == (PositionKind.TRIM_HORIZON, None)
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
    assert "may have expired unread" in str(bench.run().errors[shard_id])


def test_a_finished_shard_cannot_be_moved_forward(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(shard_id)
    bench.run()
    bench.later(seconds=5)
    with pytest.raises(SeekRefused, match="finished"):
        bench.seek("LATEST", shard_id)


def test_a_move_of_all_shards_leaves_finished_shards_unchanged(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, high = bench.split(shard_id)
    bench.run()
    bench.later(seconds=5)
    moves = bench.seek("LATEST").moves
    assert {key: move.direction for key, move in moves.items()} == {
        shard_id: Direction.STAYS,
        low: Direction.FORWARD,
        high: Direction.FORWARD,
    }
    assert bench.at(shard_id).finished


# No change


def test_a_dry_run_writes_nothing_and_returns_the_same_moves(bench):
    bench.create()
    _, second, *_ = bench.put(1, 2, 3)
    bench.run()
    before, version = files(bench), bench.version
    plan = bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}", apply=False)
    assert (files(bench), bench.version) == (before, version)
    assert (plan.applied, plan.version) == (False, None)
    assert plan.moves == bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}").moves


def test_a_seek_to_the_current_position_changes_nothing(bench):
    (shard_id,) = bench.create()
    _, last = bench.put(1, 2)
    bench.run()
    before = files(bench)
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{last}")
    assert (result.applied, result.moves[shard_id].direction) == (False, Direction.STAYS)
    assert files(bench) == before


def test_a_seek_to_the_time_of_the_tip_changes_nothing(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(seconds=10)
    bench.run()
    assert bench.seek("LATEST").moves[shard_id].direction is Direction.STAYS


def test_a_position_of_another_shard_is_invalid(bench):
    first, second = bench.create(2)
    (number,) = bench.put(1, shard_id=first)
    bench.run()
    before = files(bench)
    with pytest.raises(InvalidInput, match="Kinesis rejected start"):
        bench.seek(f"AT_SEQUENCE_NUMBER:{number}", second)
    assert files(bench) == before


@pytest.mark.parametrize(
    "shard_id", ["shardId-9", "shardId-000000000000' OR '1'='1", "../" * 9, "x" * 10_000]
)
def test_an_unknown_shard_id_is_invalid(bench, shard_id):
    bench.create()
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="has no shard") as raised:
        bench.seek("TRIM_HORIZON", shard_id)
    assert len(str(raised.value)) < 400
    assert bench.items == [1]


def test_a_sequence_number_requires_a_shard_id(bench):
    first, _ = bench.create(2)
    (number,) = bench.put(1, shard_id=first)
    bench.run()
    with pytest.raises(InvalidInput, match="belongs to one shard"):
        bench.seek(f"AT_SEQUENCE_NUMBER:{number}")


def test_a_time_in_the_future_is_invalid(bench):
    bench.create()
    bench.run()
    with pytest.raises(InvalidInput, match="not in the past"):
        bench.seek(at_time(bench.now + timedelta(hours=1)))


def test_a_seek_without_a_table_fails(bench):
    bench.create()
    with pytest.raises(TableMissing):
        bench.seek("LATEST")


# Refused tables


@pytest.mark.parametrize("apply", [False, True])
def test_a_move_back_is_refused_in_a_table_with_rows_of_another_stream_of_the_same_name(
    bench, monkeypatch, apply
):
    bench.create()
    first, *_ = bench.put(1, 2, 3)
    bench.table.create_if_missing()
    with monkeypatch.context() as older:  # an older version neither wrote nor checked an owner
        older.setattr(TableSnapshot, "owner", "")
        older.setattr(TableSnapshot, "owners", frozenset())
        bench.run()
        identity = bench.client.describe().identity
        other = msgspec.structs.replace(identity, arn=identity.arn.replace("000000000000", "111111111111"))
        write_deltalake(bench.table.uri, DeltaTable(bench.table.folder.uri).to_pyarrow_table(), mode="append")
        positions = msgspec.structs.replace(bench.positions, identity=other, commit_id=new_id())
        bench.table.snapshot().commit([], identity=other, positions=positions)
    before = bench.version
    with pytest.raises(TableOfAnotherStream) as caught:
        bench.seek(f"AT_SEQUENCE_NUMBER:{first}", apply=apply)
    assert other.arn in str(caught.value)
    assert bench.version == before
    assert bench.items == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("apply", [False, True])
def test_a_seek_in_a_restored_table_is_refused(bench, apply):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version
    bench.put(2)
    bench.run()
    DeltaTable(bench.table.uri).restore(before)
    with pytest.raises(TableRewritten):
        bench.seek("TRIM_HORIZON", apply=apply)
    assert bench.version == before + 2


def test_a_seek_is_refused_if_the_table_is_restored_after_the_plan(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version
    bench.put(2)
    bench.run()
    planned = seek_module._request

    def plan_then_restore(*arguments):
        request = planned(*arguments)
        DeltaTable(bench.table.uri).restore(before)
        return request

    monkeypatch.setattr(seek_module, "_request", plan_then_restore)
    with pytest.raises(TableRewritten):
        bench.seek("TRIM_HORIZON")
    assert bench.items == [1]
