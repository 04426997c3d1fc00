"""Seeks: a move forward records the gap, a move back deletes the rows, and both are single commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import (
    AttemptExpired,
    InvalidInput,
    PositionConflict,
    SeekRefused,
    TableMissing,
    TableOfAnotherStream,
    TableRewritten,
)
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.seek import run as seek_module
from kinesis_assets.seek.plan import Direction
from kinesis_assets.seek.probe import TIME_TO_READ
from kinesis_assets.table.amendments import FORMAT, Amendment, ClearedGap, next_amendment
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions_chain import ChainPolicy
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.testing import UserRecord, aggregate
from support.shifted_clock import ShiftedClock


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


# Forward


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


# Back


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
    bench.seek(at_time(bench.now - timedelta(seconds=15)))
    assert bench.items == [1]
    assert bench.at(shard_id).position == at_number(second)
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
    amendment = bench.table.snapshot().amendment(bench.positions.identity)
    assert amendment is not None
    assert (set(amendment.rewound), amendment.by) == ({first, second}, "ann")
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
    bench.put(1)
    bench.run()
    identity = bench.positions.identity
    floor = bench.now.date() + timedelta(days=1)
    amendment = Amendment(
        format=FORMAT, commit_id=new_id(), previous=None, batch_id=new_id(), at=bench.now, floor=floor
    )
    bench.table.snapshot().commit([], identity=identity, amendment=amendment)
    with pytest.raises(SeekRefused, match=f"keeps rows from {floor} on"):
        bench.seek("TRIM_HORIZON")
    assert bench.items == [1]


def test_a_seek_keeps_the_floor(bench):
    bench.create()
    _, second = bench.put(1, 2)
    bench.run()
    identity = bench.positions.identity
    floor = bench.now.date()
    amendment = Amendment(
        format=FORMAT, commit_id=new_id(), previous=None, batch_id=new_id(), at=bench.now, floor=floor
    )
    bench.table.snapshot().commit([], identity=identity, amendment=amendment)
    bench.seek(f"AT_SEQUENCE_NUMBER:{second}")
    now = bench.table.snapshot().amendment(identity)
    assert now is not None
    assert (now.floor, now.previous) == (floor, amendment.commit_id)


def test_a_move_back_to_the_trim_horizon_keeps_the_rows_of_a_deleted_stream_of_the_same_name(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.kinesis.delete_stream(StreamName=bench.stream)
    bench.later(seconds=5)
    bench.create()
    bench.put(2)
    bench.run(on_recreated="restart")
    assert bench.items == [1, 2]
    bench.seek("TRIM_HORIZON")
    assert bench.items == [1]


def test_a_shard_that_is_no_longer_listed_is_not_moved(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, _ = bench.split(parent)
    for _ in range(2):
        bench.run()
        bench.later(hours=13)
    bench.put(2, shard_id=low)
    assert not bench.run().errors
    assert bench.items == [1, 2]
    assert parent not in bench.shard_ids
    with pytest.raises(SeekRefused, match="no longer lists this shard"):
        bench.seek("TRIM_HORIZON", parent)
    assert bench.seek("TRIM_HORIZON").moves[parent].direction is Direction.STAYS
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2]


# Parents first


def test_a_parent_is_not_moved_back_without_its_children(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, high = bench.split(parent)
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
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, _ = bench.split(parent)
    bench.put(2, shard_id=low)
    bench.later(seconds=5)
    _, last = bench.put(3, 4, shard_id=low)
    bench.run()
    bench.seek(f"AT_SEQUENCE_NUMBER:{last}", low)
    with pytest.raises(SeekRefused, match=low):
        bench.seek("TRIM_HORIZON", parent)


def test_a_move_of_all_shards_moves_the_whole_lineage_back(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, high = bench.split(parent)
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
    bench.seek(at_time(moment))
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2, 3]


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


# Concurrent changes


@pytest.fixture
def before_commit(monkeypatch):
    """Run an action between the plan of a seek and its first commit attempt."""

    def before_commit(action):
        pending = [action]
        for name in ("commit", "remove"):
            real = getattr(TableSnapshot, name)

            def attempt(snapshot, *args, real=real, **rest):
                if pending:
                    pending.pop()()
                return real(snapshot, *args, **rest)

            monkeypatch.setattr(TableSnapshot, name, attempt)

    return before_commit


def test_rows_of_a_concurrent_run_are_deleted_too(bench, before_commit):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    bench.put(3)
    before_commit(bench.run)
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert result.moves[shard_id].rows_removed == 2
    assert bench.items == [1]
    bench.run()
    assert bench.items == [1, 2, 3]


def test_a_move_forward_behind_a_concurrent_run_deletes_nothing(bench, before_commit):
    bench.create()
    bench.put(1)
    bench.run()
    second, _ = bench.put(2, 3)
    before_commit(bench.run)
    with pytest.raises(PositionConflict, match="Check its position first"):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}")
    assert bench.items == [1, 2, 3]


def test_a_run_planned_before_a_seek_adds_no_rows(bench):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run()
    bench.put(3)
    plan = bench.plan()
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert isinstance(bench.execute(plan).errors[shard_id], PositionConflict)
    assert bench.items == [1]


def test_a_run_planned_before_a_seek_back_to_its_position_adds_no_rows(bench):
    (shard_id,) = bench.create()
    first, _ = bench.put(1, 2)
    bench.run(max_records=1)
    plan = bench.plan()
    bench.run()
    bench.seek(f"AFTER_SEQUENCE_NUMBER:{first}")
    assert bench.at(shard_id).position == plan.expected.shards[shard_id].position
    assert isinstance(bench.execute(plan).errors[shard_id], PositionConflict)
    bench.run()
    assert bench.items == [1, 2]


def test_a_run_of_a_child_conflicts_with_a_seek_of_its_parent(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, _ = bench.split(parent)
    bench.run([parent])
    bench.put(2, shard_id=low)
    plan = bench.plan([low])
    bench.seek("TRIM_HORIZON", parent)
    assert isinstance(bench.execute(plan).errors[low], PositionConflict)
    assert bench.items == []
    bench.run()
    assert bench.items == [1, 2]


def test_concurrent_seeks_are_applied_one_after_the_other(bench, before_commit):
    first, second = bench.create(2)
    bench.put(1, shard_id=first)
    bench.put(2, shard_id=second)
    bench.run()
    before_commit(lambda: bench.seek("TRIM_HORIZON", first, by="bob"))
    bench.seek("TRIM_HORIZON", by="ann")
    assert [seek.by for seek in bench.at(first).seeks] == ["bob"]
    assert [seek.by for seek in bench.at(second).seeks] == ["ann"]
    bench.run()
    assert bench.items == [1, 2]


def test_a_seek_builds_on_a_concurrent_amendment(bench, before_commit):
    bench.create()
    bench.put(1)
    bench.run()
    identity = bench.positions.identity
    amendment = Amendment(format=FORMAT, commit_id=new_id(), previous=None, batch_id=new_id(), at=bench.now)
    snapshot = bench.table.snapshot
    real = TableSnapshot.commit
    before_commit(lambda: real(snapshot(), [], identity=identity, amendment=amendment))
    bench.seek("TRIM_HORIZON")
    now = snapshot().amendment(identity)
    assert now is not None
    assert now.previous == amendment.commit_id


@pytest.mark.parametrize("name", ["commit", "remove"])
def test_a_seek_whose_commit_response_was_lost_is_applied_once(bench, monkeypatch, name):
    (shard_id,) = bench.create()
    first, second = bench.put(1, 2)
    bench.run(max_records=1)
    if name == "remove":
        bench.run()
    real = getattr(TableSnapshot, name)
    calls = []

    def lose_response(*args, **rest):
        calls.append(real(*args, **rest))
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, name, lose_response)
    number = first if name == "remove" else second
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{number}")
    monkeypatch.undo()
    assert (len(calls), result.applied, result.version) == (1, True, bench.version)
    assert len(bench.at(shard_id).seeks) == 1
    assert bench.items == [1]


# Expired attempts


def test_an_expired_seek_deletes_nothing(bench, faults):
    bench.create()
    numbers = bench.put(1, 2, 3)
    bench.run()
    before = bench.version
    clock = ShiftedClock()
    bench.set_table_policy(clock=clock)
    hours = TIME_TO_READ.total_seconds() / 3600
    faults.before("GetRecords", lambda: clock.advance(hours), times=1)
    with pytest.raises(AttemptExpired, match="nothing was changed"):
        bench.seek(f"AFTER_SEQUENCE_NUMBER:{numbers[0]}")
    assert faults.count("GetRecords") > 0
    assert bench.version == before


# Rows of another stream


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


# Archived shards


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
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, _ = bench.split(parent)
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
    identity = bench.positions.identity
    change = next_amendment(None, batch_id=1, at=datetime.now(UTC), by="ann", cleared=cleared)
    bench.table.snapshot().commit([], identity=identity, amendment=change)
    bench.seek("TRIM_HORIZON")
    assert bench.items == []
    assert bench.table.snapshot().amendment(identity).cleared == cleared


def test_a_parent_is_not_moved_back_without_its_archived_child(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    low, _ = bench.split(parent)
    bench.put(2, shard_id=low)
    bench.later(seconds=5)
    bench.split(low)
    bench.run()
    archive(bench, low)
    with pytest.raises(SeekRefused, match=low):
        bench.seek("TRIM_HORIZON", parent)


def test_a_move_of_all_shards_leaves_archived_shards_unchanged(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.run()
    archive(bench, parent)
    moves = bench.seek("LATEST").moves
    assert moves[parent].direction is Direction.STAYS
    assert parent not in bench.positions.shards
