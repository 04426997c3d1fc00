"""A table whose rows are taken as they are: a copy without positions, and one that was restored."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.errors import (
    CommitFailed,
    InvalidInput,
    PositionsMissing,
    ShardListIncomplete,
    TableOfAnotherStream,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations import adopt as adopt_module
from kinesis_assets.operations.doctor import Doctor, Level
from kinesis_assets.spark.scan import Counted, Scan
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.testing import UserRecord, aggregate

BEGINNING = Position.parse("TRIM_HORIZON")


def each(*items: int) -> Counter[str]:
    return Counter(map(str, items))


def whole(*items: int) -> bytes:
    return aggregate(UserRecord("k", str(item).encode(), "0") for item in items)


def log_of(bench) -> int:
    return DeltaTable(bench.table.uri).version()


# A copy


def test_a_copy_goes_on_where_its_rows_end(bench):
    bench.create(2)
    bench.put(1, 2)
    bench.put(3, part=0.5)
    bench.run()
    bench.copy()
    bench.put(4)
    with pytest.raises(PositionsMissing):
        bench.run()
    result = bench.adopt()
    assert [(shard.rows, str(shard.position.kind)) for shard in result.shards.values()] == [
        (2, "AFTER_SEQUENCE_NUMBER"),
        (1, "AFTER_SEQUENCE_NUMBER"),
    ]
    bench.run()
    assert bench.items == each(1, 2, 3, 4)


def test_the_plan_changes_nothing(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.copy()
    result = bench.adopt(apply=False)
    assert (result.applied, len(result.shards)) == (False, 1)
    assert log_of(bench) == 0


def test_who_did_it_and_whose_the_table_is_are_recorded(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.copy()
    bench.adopt(by="ann")
    assert (bench.positions.by, bench.positions.adopted) == ("ann", True)
    properties = DeltaTable(bench.table.uri).metadata().configuration
    assert properties[OWNER] == bench.client.describe().identity.arn


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_an_aggregate_that_is_there_in_part_is_read_to_its_end(bench, taken):
    bench.create()
    bench.put(whole(1, 2, 3))
    bench.run(max_records=taken)
    bench.copy()
    bench.adopt()
    sub = bench.at(bench.shard_ids[0]).position.sub_sequence_number
    assert sub == (None if taken == 3 else taken - 1)
    bench.put(4)
    bench.run()
    assert bench.items == each(1, 2, 3, 4)


def test_numbers_of_different_lengths_are_compared_as_numbers(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    (number,) = bench.rows["sequence_number"].to_pylist()
    rows = bench.rows
    index = rows.schema.get_field_index("sequence_number")
    shorter = rows.set_column(index, rows.schema.field(index), pa.array(["9" * (len(number) - 1)]))
    bench.copy(pa.concat_tables([rows, shorter]))
    result = bench.adopt()
    assert result.shards[shard_id].rows == 2
    assert bench.at(shard_id).position == Position.after(number)


def test_a_shard_without_rows_begins_at_its_oldest_record(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    bench.copy()
    bench.put(2, part=0.5)
    bench.adopt()
    assert (bench.at(first).last_arrival is not None, bench.at(second).position) == (True, BEGINNING)
    bench.run()
    assert bench.items == each(1, 2)


def test_one_list_that_lacks_a_shard_with_rows_is_requested_again(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.put(2)
    bench.run()
    bench.copy()
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]), times=1)
    bench.adopt()
    bench.run()
    assert bench.items == each(1, 2)
    assert bench.at(parent).finished


def test_lists_that_lack_a_shard_whose_rows_have_not_expired_are_refused(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.run()
    bench.copy()
    before = log_of(bench)
    bench.client.wait = lambda _: None
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]))
    with pytest.raises(ShardListIncomplete, match=parent):
        bench.adopt()
    assert log_of(bench) == before


def test_a_shard_that_the_stream_no_longer_lists_is_finished_after_its_newest_row(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(seconds=5)
    bench.split(parent)
    bench.later(hours=30)
    bench.copy()
    result = bench.adopt()
    assert (result.shards[parent].rows, result.shards[parent].position) == (1, None)
    assert (bench.at(parent).finished, bench.at(parent).position.sequence_number is None) == (True, False)
    bench.put(2)
    bench.run()
    assert bench.items == each(1, 2)


def test_rows_that_came_before_are_no_problem_of_the_doctors(bench):
    bench.create()
    bench.put(1)
    bench.run()
    (shard_id,), batch_id = bench.shard_ids, bench.positions.batch_id
    bench.copy()
    bench.adopt()

    def read_rows(_):
        return Scan({(batch_id, shard_id): Counted(1, 7)}, {})

    findings = list(Doctor(bench.client, bench.table, read_rows=read_rows).findings())
    assert not [finding for finding in findings if finding.level is Level.PROBLEM]


# Refused


def test_rows_of_another_stream_are_refused_and_nothing_is_changed(bench):
    bench.create()
    bench.put(1)
    bench.run()
    rows = bench.rows
    other = rows.set_column(0, rows.schema.field(0), pa.array(["another"]))
    bench.copy(pa.concat_tables([rows, other]))
    with pytest.raises(TableUnsuitable, match="'another'"):
        bench.adopt()
    assert log_of(bench) == 0


def test_a_table_of_another_stream_is_refused(bench):
    bench.create()
    bench.put(1)
    bench.run()
    bench.copy()
    other = bench.client.describe().identity.arn.replace("us-east-1", "eu-west-1")
    DeltaTable(bench.table.uri).alter.set_table_properties({OWNER: other}, raise_if_not_exists=False)
    with pytest.raises(TableOfAnotherStream):
        bench.adopt()


def test_where_there_is_nothing_to_adopt_nothing_is_done(bench):
    bench.create()
    bench.table.create_if_missing()
    with pytest.raises(InvalidInput, match="no rows"):
        bench.adopt()
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="nothing to adopt"):
        bench.adopt()


def test_rows_that_come_between_the_plan_and_the_commit_end_it(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    bench.copy()
    commit = adopt_module._commit

    def late(*arguments):
        write_deltalake(bench.table.uri, bench.rows, mode="append")
        commit(*arguments)

    monkeypatch.setattr(adopt_module, "_commit", late)
    with pytest.raises(CommitFailed, match="changed meanwhile"):
        bench.adopt()


# A restore


def restored(bench) -> None:
    bench.create()
    bench.put(1)
    bench.run()
    before = log_of(bench)
    bench.put(2)
    bench.run()
    DeltaTable(bench.table.uri).restore(before)
    bench.put(3)


def test_runs_go_on_after_a_restore_was_accepted(bench):
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
    past = bench.table.snapshot().past(positions.identity)
    assert (past.accepted, past.by) == (rewrite.version, "ann")
    bench.run()
    assert bench.items == each(1, 3)


def test_a_restore_after_the_one_that_was_accepted_is_not_accepted_with_it(bench):
    restored(bench)
    bench.adopt()
    bench.run()
    DeltaTable(bench.table.uri).restore(0)
    with pytest.raises(TableRewritten):
        bench.run()
    with pytest.raises(TableRewritten):
        bench.run()
