"""Seeks that change nothing, have invalid arguments, or are refused because of the table."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from deltalake import write_deltalake

from kinesis_assets.errors import (
    InvalidInput,
    TableMissing,
    TableOfAnotherStream,
    TableRewritten,
)
from kinesis_assets.operations.seek import run as seek_module
from kinesis_assets.operations.seek.plan import Direction
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.snapshot import TableSnapshot
from support.prepared_streams import ingest_and_restore
from support.table_folder import files_of

pytestmark = pytest.mark.slow

# Positions and arguments


def test_a_dry_run_writes_nothing_and_returns_the_same_moves(bench):
    bench.create()
    _, second, *_ = bench.put(1, 2, 3)
    bench.run()
    before, version = files_of(bench.table), bench.version
    plan = bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}", apply=False)
    assert (files_of(bench.table), bench.version) == (before, version)
    assert (plan.applied, plan.version) == (False, None)
    assert plan.moves == bench.seek(f"AFTER_SEQUENCE_NUMBER:{second}").moves


def test_a_seek_to_the_current_position_changes_nothing(bench):
    (shard_id,) = bench.create()
    _, last = bench.put(1, 2)
    bench.run()
    before = files_of(bench.table)
    result = bench.seek(f"AFTER_SEQUENCE_NUMBER:{last}")
    assert (result.applied, result.moves[shard_id].direction) == (False, Direction.STAYS)
    assert files_of(bench.table) == before


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
    before = files_of(bench.table)
    with pytest.raises(InvalidInput, match="Kinesis rejected"):
        bench.seek(f"AT_SEQUENCE_NUMBER:{number}", second)
    assert files_of(bench.table) == before


@pytest.mark.parametrize(
    "shard_id", ["shardId-9", "shardId-000000000000' OR '1'='1", "../" * 9, "x" * 10_000]
)
def test_an_unknown_shard_id_is_invalid(bench, shard_id):
    bench.create()
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="`kinesis-assets positions`") as raised:
        bench.seek("TRIM_HORIZON", shard_id)
    assert len(str(raised.value)) < 400
    assert bench.items == [1]


def test_a_sequence_number_requires_a_shard_id(bench):
    first, _ = bench.create(2)
    (number,) = bench.put(1, shard_id=first)
    bench.run()
    with pytest.raises(InvalidInput, match="2 shards"):
        bench.seek(f"AT_SEQUENCE_NUMBER:{number}")


def test_a_time_in_the_future_is_invalid(bench):
    bench.create()
    bench.run()
    with pytest.raises(InvalidInput, match="past"):
        bench.seek(f"AT_TIMESTAMP:{(bench.now + timedelta(hours=1)).isoformat()}")


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
        write_deltalake(bench.table.uri, bench.delta.to_pyarrow_table(), mode="append")
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
    ingest_and_restore(bench)
    before = bench.version
    with pytest.raises(TableRewritten):
        bench.seek("TRIM_HORIZON", apply=apply)
    assert bench.version == before


def test_a_seek_is_refused_if_the_table_is_restored_after_the_plan(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version
    bench.put(2)
    bench.run()
    planned = seek_module._request

    def plan_then_restore(*arguments, **keywords):
        request = planned(*arguments, **keywords)
        bench.restore(before)
        return request

    monkeypatch.setattr(seek_module, "_request", plan_then_restore)
    with pytest.raises(TableRewritten):
        bench.seek("TRIM_HORIZON")
    assert bench.items == [1]
