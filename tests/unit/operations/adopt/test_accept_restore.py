"""Accepting a restored table by adopting it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kinesis_assets.errors import InvalidInput, StreamRecreated, TableRewritten, TableUnsuitable
from support.prepared_streams import ingest_and_restore

pytestmark = pytest.mark.slow


def overwrite(bench, rows):
    """Replace the table's rows, as an operator might."""
    write_deltalake(bench.table.uri, rows, mode="overwrite")


def test_runs_continue_after_a_restore_was_accepted(bench):
    ingest_and_restore(bench)
    bench.put(3)
    with pytest.raises(TableRewritten):
        bench.run()
    positions = bench.positions
    (rewrite,) = bench.adopt(apply=False).accepted
    with pytest.raises(TableRewritten):
        bench.run()
    result = bench.adopt(by="ann")
    assert result.accepted == [rewrite]
    assert bench.positions == positions
    assert (bench.amendment.accepted, bench.amendment.by) == (rewrite.version, "ann")
    bench.run()
    assert bench.items == [1, 3]


def test_a_later_restore_is_not_accepted_with_an_earlier_one(bench):
    ingest_and_restore(bench)
    bench.put(3)
    bench.adopt()
    bench.run()
    bench.restore(0)
    with pytest.raises(TableRewritten):
        bench.run()


@pytest.mark.parametrize("to", ["TRIM_HORIZON", "AT_TIMESTAMP:{time}", "AFTER_SEQUENCE_NUMBER:{number}"])
def test_a_restore_of_rows_that_a_seek_deleted_is_refused(bench, to):
    bench.create()
    (first,) = bench.put(1)
    bench.later(minutes=1)
    bench.put(2)
    bench.later(minutes=1)
    bench.run()
    before = bench.version
    oldest = bench.client.describe().service_time - timedelta(minutes=30)
    bench.seek(to.format(time=oldest.isoformat(), number=first))
    kept, sought = bench.items, bench.version
    bench.restore(before)
    for apply in (False, True):
        with pytest.raises(TableUnsuitable, match=r"\bagain\b.*\b[Rr]estore\b"):
            bench.adopt(apply=apply)
    with pytest.raises(TableRewritten):
        bench.run()
    bench.restore(sought)
    assert bench.items == kept != [1, 2]
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]


def test_a_restore_is_accepted_once_the_rows_that_a_seek_deleted_are_deleted_again(bench):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.run()
    before = bench.version
    shard_id = bench.shard_ids[1]
    bench.seek("TRIM_HORIZON", shard_id)
    bench.restore(before)
    with pytest.raises(TableUnsuitable, match=shard_id):
        bench.adopt()
    bench.delta.delete(f"shard_id = '{shard_id}'")
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]


def test_rows_of_a_new_shard_that_no_run_has_read_are_refused(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    child, _ = bench.split(parent)
    (number,) = bench.put(2)
    rows = bench.arrow()
    for name, value in (("shard_id", child), ("sequence_number", number), ("data", b"2")):
        column = rows.schema.get_field_index(name)
        field = rows.schema.field(column)
        rows = rows.set_column(column, field, pa.array([value], field.type))
    overwrite(bench, pa.concat_tables([bench.arrow(), rows]))
    assert child not in bench.positions.shards
    for apply in (False, True):
        with pytest.raises(TableUnsuitable, match=f"of {child} up to {number}: the next run would add them"):
            bench.adopt(apply=apply)
    with pytest.raises(TableRewritten):
        bench.run()
    bench.delta.delete(f"shard_id = '{child}'")
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]


@pytest.mark.parametrize("beside", [True, False], ids=["beside those of the stream", "alone"])
def test_rows_of_another_stream_in_an_overwritten_table_are_refused(bench, beside):
    bench.create()
    bench.put(1)
    bench.run()
    rows = bench.arrow()
    other = rows.set_column(0, rows.schema.field(0), pa.array(["another"]))
    overwrite(bench, pa.concat_tables([rows, other]) if beside else other)
    with pytest.raises(TableUnsuitable, match="'another'"):
        bench.adopt()
    assert bench.amendment is None
    with pytest.raises(TableRewritten):
        bench.run()


def test_a_restore_of_rows_before_a_move_forward_is_accepted(bench):
    bench.create()
    bench.put(1)
    bench.run()
    before = bench.version
    bench.put(2)
    bench.run()
    bench.later(minutes=1)
    bench.seek("LATEST")
    bench.restore(before)
    bench.adopt()
    bench.put(3)
    bench.run()
    assert bench.items == [1, 3]


def test_a_restore_whose_log_entry_was_deleted_is_accepted(bench):
    ingest_and_restore(bench)
    bench.put(3)
    deleted = bench.version
    bench.delta.alter.set_table_properties({"delta.appendOnly": "false"})
    bench.delta.create_checkpoint()
    Path(bench.table.uri, "_delta_log", f"{deleted:020}.json").unlink()
    with pytest.raises(TableRewritten):
        bench.run()
    (rewrite,) = bench.adopt().accepted
    assert rewrite.version == deleted
    bench.run()
    assert bench.items == [1, 3]
    with pytest.raises(InvalidInput, match="to adopt"):
        bench.adopt()


def test_a_restored_table_of_a_recreated_stream_is_accepted_and_restarted(bench):
    ingest_and_restore(bench)
    bench.put(3)
    bench.delete()
    bench.later(minutes=1)
    bench.create()
    bench.put(4)
    with pytest.raises(TableRewritten):
        bench.plan(on_recreated="restart")
    (rewrite,) = bench.adopt().accepted
    bench.run(on_recreated="restart")
    assert (rewrite.operation, bench.items) == ("RESTORE", [1, 4])


def test_a_table_of_a_deleted_stream_that_was_not_restored_is_refused(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.delete()
    bench.later(minutes=1)
    bench.create()
    with pytest.raises(StreamRecreated):
        bench.adopt()
