"""Accepting a restored table by adopting it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import InvalidInput, StreamRecreated, TableRewritten, TableUnsuitable
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.position import Position
from kinesis_assets.seek.run import seek

BEGINNING = Position.parse("TRIM_HORIZON")


def version_of(bench) -> int:
    return DeltaTable(bench.table.uri).version()


def restored(bench) -> None:
    bench.create()
    bench.put(1)
    bench.run()
    before = version_of(bench)
    bench.put(2)
    bench.run()
    DeltaTable(bench.table.uri).restore(before)
    bench.put(3)


def test_runs_continue_after_a_restore_was_accepted(bench):
    restored(bench)
    with pytest.raises(TableRewritten):
        bench.run()
    positions = bench.positions
    (rewrite,) = bench.adopt(apply=False).accepted
    with pytest.raises(TableRewritten):
        bench.run()
    result = bench.adopt(by="ann")
    assert result.accepted == [rewrite]
    assert bench.positions == positions
    amendment = bench.table.snapshot().amendment(positions.identity)
    assert (amendment.accepted, amendment.by) == (rewrite.version, "ann")
    bench.run()
    assert bench.items == [1, 3]


def test_a_later_restore_is_not_accepted_with_an_earlier_one(bench):
    restored(bench)
    bench.adopt()
    bench.run()
    DeltaTable(bench.table.uri).restore(0)
    with pytest.raises(TableRewritten):
        bench.run()
    with pytest.raises(TableRewritten):
        bench.run()


@pytest.mark.parametrize("to", ["TRIM_HORIZON", "AT_TIMESTAMP", "AFTER_SEQUENCE_NUMBER"])
def test_a_restore_of_rows_that_a_seek_deleted_is_refused(bench, to):
    bench.create()
    (first,) = bench.put(1)
    bench.later(minutes=1)
    bench.put(2)
    bench.later(minutes=1)
    bench.run()
    before = version_of(bench)
    oldest = bench.client.describe().service_time - timedelta(minutes=30)
    argument = {"AT_TIMESTAMP": f":{oldest.isoformat()}", "AFTER_SEQUENCE_NUMBER": f":{first}"}.get(to, "")
    target = Position.parse(f"{to}{argument}")
    seek(bench.client, bench.table, to=target, shard_ids=None, by="ann", apply=True)
    kept, sought = bench.items, version_of(bench)
    DeltaTable(bench.table.uri).restore(before)
    for apply in (False, True):
        with pytest.raises(TableUnsuitable, match=r"would add them again.*Restore the version before"):
            bench.adopt(apply=apply)
    with pytest.raises(TableRewritten):
        bench.run()
    DeltaTable(bench.table.uri).restore(sought)
    assert bench.items == kept != [1, 2]
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]


def test_a_restore_is_accepted_once_the_rows_that_a_seek_deleted_are_deleted_again(bench):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.run()
    before = version_of(bench)
    shard_id = bench.shard_ids[1]
    seek(bench.client, bench.table, to=BEGINNING, shard_ids=[shard_id], by="ann", apply=True)
    DeltaTable(bench.table.uri).restore(before)
    with pytest.raises(TableUnsuitable, match=shard_id):
        bench.adopt()
    DeltaTable(bench.table.uri).delete(f"shard_id = '{shard_id}'")
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]


def test_a_restore_of_rows_before_a_move_forward_is_accepted(bench):
    bench.create()
    bench.put(1)
    bench.run()
    before = version_of(bench)
    bench.put(2)
    bench.run()
    bench.later(minutes=1)
    now = bench.client.describe().service_time
    target = Position.parse(f"AT_TIMESTAMP:{now.isoformat()}")
    seek(bench.client, bench.table, to=target, shard_ids=None, by="ann", apply=True)
    DeltaTable(bench.table.uri).restore(before)
    bench.adopt()
    bench.put(3)
    bench.run()
    assert bench.items == [1, 3]


def test_a_restore_whose_log_entry_was_deleted_is_accepted(bench):
    restored(bench)
    deleted = version_of(bench)
    DeltaTable(bench.table.uri).alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(bench.table.uri).create_checkpoint()
    Path(bench.table.uri, "_delta_log", f"{deleted:020}.json").unlink()
    with pytest.raises(TableRewritten):
        bench.run()
    (rewrite,) = bench.adopt().accepted
    assert rewrite.version == deleted
    bench.run()
    assert bench.items == [1, 3]
    with pytest.raises(InvalidInput, match="nothing to adopt"):
        bench.adopt()


def test_a_restored_table_of_a_recreated_stream_is_accepted_and_restarted(bench):
    restart = ReadPolicy(on_recreated="restart")
    restored(bench)
    bench.kinesis.delete_stream(StreamName=bench.stream)
    bench.later(minutes=1)
    bench.create()
    bench.put(4)
    with pytest.raises(TableRewritten):
        plan_run(bench.client, bench.table, asked=bench.shard_ids, policy=restart)
    (rewrite,) = bench.adopt().accepted
    plan = plan_run(bench.client, bench.table, asked=bench.shard_ids, policy=restart)
    execute_run(land_group, bench.client, bench.table, plan)
    assert (rewrite.operation, bench.items) == ("RESTORE", [1, 4])


def test_a_table_of_a_deleted_stream_that_was_not_restored_is_refused(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.kinesis.delete_stream(StreamName=bench.stream)
    bench.later(minutes=1)
    bench.create()
    with pytest.raises(StreamRecreated):
        bench.adopt()
