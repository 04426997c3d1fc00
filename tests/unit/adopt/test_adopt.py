"""Adopting a copy of the rows of a table, which has no positions."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.adopt import run as adopt_module
from kinesis_assets.doctor.examine import Doctor
from kinesis_assets.doctor.finding import Level
from kinesis_assets.doctor.row_scan import Counted, Scan
from kinesis_assets.errors import (
    CommitFailed,
    InvalidInput,
    PositionsMissing,
    ShardListIncomplete,
    TableOfAnotherStream,
    TableUnsuitable,
)
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.table import PositionedTable
from kinesis_assets.testing import UserRecord, aggregate

BEGINNING = Position.parse("TRIM_HORIZON")


def copy(bench, rows: pa.Table | None = None) -> None:
    """Continue with a copy of the table, made as CREATE TABLE AS SELECT makes it."""
    uri = f"{bench.table.uri}-copy"
    write_deltalake(uri, bench.arrow() if rows is None else rows, partition_by=["arrival_date"])
    bench.table = PositionedTable(uri)


def aggregate_of(*items: int) -> bytes:
    return aggregate(UserRecord("k", str(item).encode(), "0") for item in items)


def version_of(bench) -> int:
    return DeltaTable(bench.table.uri).version()


def without(faults, *shard_ids, **which) -> None:
    """Omit shards from the list."""
    faults.answer(
        "ListShards",
        lambda _, answer: answer.but(
            Shards=[shard for shard in answer.members["Shards"] if shard["ShardId"] not in shard_ids]
        ),
        **which,
    )


def copy_of_a_split(bench) -> str:
    """Continue with a copy of a table with rows of a parent and its children. Return the id of the parent."""
    (parent,) = bench.create()
    bench.put(1)
    bench.split(parent)
    bench.put(2)
    bench.put(3, part=0.5)
    bench.run()
    bench.run()
    copy(bench)
    assert bench.items == [1, 2, 3]
    return parent


# Copies


def test_runs_continue_after_the_newest_rows_of_a_copy(bench):
    bench.create(2)
    bench.put(1, 2)
    bench.put(3, part=0.5)
    bench.run()
    copy(bench)
    bench.put(4)
    with pytest.raises(PositionsMissing):
        bench.run()
    result = bench.adopt()
    assert [(shard.rows, str(shard.position.kind)) for shard in result.shards.values()] == [
        (2, "AFTER_SEQUENCE_NUMBER"),
        (1, "AFTER_SEQUENCE_NUMBER"),
    ]
    bench.run()
    assert bench.items == [1, 2, 3, 4]


def test_the_plan_changes_nothing(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    result = bench.adopt(apply=False)
    assert (result.applied, len(result.shards)) == (False, 1)
    assert version_of(bench) == 0


def test_the_user_and_the_owner_of_the_table_are_recorded(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    bench.adopt(by="ann")
    assert (bench.positions.by, bench.positions.adopted) == ("ann", True)
    properties = DeltaTable(bench.table.uri).metadata().configuration
    assert properties[OWNER] == bench.client.describe().identity.arn


@pytest.mark.parametrize("copied", [1, 2, 3])
def test_a_partly_copied_aggregate_is_read_to_its_end(bench, copied):
    bench.create()
    bench.put(aggregate_of(1, 2, 3))
    bench.run(max_records=copied)
    copy(bench)
    bench.adopt()
    sub = bench.at(bench.shard_ids[0]).position.sub_sequence_number
    assert sub == (None if copied == 3 else copied - 1)
    bench.put(4)
    bench.run()
    assert bench.items == [1, 2, 3, 4]


def test_sequence_numbers_of_different_lengths_are_compared_as_numbers(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    (number,) = bench.arrow()["sequence_number"].to_pylist()
    rows = bench.arrow()
    index = rows.schema.get_field_index("sequence_number")
    shorter = rows.set_column(index, rows.schema.field(index), pa.array(["9" * (len(number) - 1)]))
    copy(bench, pa.concat_tables([rows, shorter]))
    result = bench.adopt()
    assert result.shards[shard_id].rows == 2
    assert bench.at(shard_id).position == Position.after(number)


def test_a_shard_without_rows_starts_at_the_trim_horizon(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    copy(bench)
    bench.put(2, part=0.5)
    bench.adopt()
    assert (bench.at(first).last_arrival is not None, bench.at(second).position) == (True, BEGINNING)
    bench.run()
    assert bench.items == [1, 2]


def test_a_list_without_a_shard_that_has_rows_is_requested_again(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.put(2)
    bench.run()
    copy(bench)
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]), times=1)
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]
    assert bench.at(parent).finished


def test_adopting_fails_while_lists_miss_a_shard_with_unexpired_rows(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=5)
    bench.split(parent)
    bench.run()
    copy(bench)
    before = version_of(bench)
    bench.client.wait = lambda _: None
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=answer.members["Shards"][1:]))
    with pytest.raises(ShardListIncomplete, match=parent):
        bench.adopt()
    assert version_of(bench) == before


def test_an_expired_shard_is_finished_after_its_newest_row(bench):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.run()
    bench.later(seconds=5)
    bench.split(parent)
    bench.later(hours=30)
    copy(bench)
    result = bench.adopt()
    assert (result.shards[parent].rows, result.shards[parent].position) == (1, None)
    assert (bench.at(parent).finished, bench.at(parent).position) == (True, Position.after(number, 0))
    bench.put(2)
    bench.run()
    assert bench.items == [1, 2]
    findings = list(Doctor(bench.client, bench.table).findings())
    assert not [finding for finding in findings if finding.level is Level.PROBLEM]


def test_a_shorter_retention_is_used_only_if_two_responses_agree(bench, faults):
    parent = copy_of_a_split(bench)
    bench.kinesis.increase_stream_retention_period(StreamName=bench.stream, RetentionPeriodHours=48)
    bench.later(hours=30)
    without(faults, parent)
    faults.fail("GetShardIterator", status=400, code="ResourceNotFoundException", shard_id=parent)

    def shorter(_, answer):
        summary = answer.members["StreamDescriptionSummary"]
        return answer.but(StreamDescriptionSummary=summary | {"RetentionPeriodHours": 24})

    described = []

    def every_second(request, answer):
        described.append(request)
        return shorter(request, answer) if len(described) % 2 else answer

    faults.answer("DescribeStreamSummary", every_second)
    with pytest.raises(ShardListIncomplete, match="the last 48 h"):
        bench.adopt()


def test_a_missing_shard_that_can_still_be_read_is_not_finished(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    bench.later(hours=30)
    bench.put(2)
    bench.split(parent)
    without(faults, parent)
    with pytest.raises(ShardListIncomplete, match=f"left out {parent}.* can still be read"):
        bench.adopt()
    faults.clear()
    bench.adopt()
    assert not bench.at(parent).finished


def test_a_finished_shard_that_is_listed_again_is_not_read(bench, faults):
    parent = copy_of_a_split(bench)
    bench.later(hours=30)
    bench.adopt()
    listed = {
        "ShardId": parent,
        "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(2**128 - 1)},
        "SequenceNumberRange": {"StartingSequenceNumber": "1", "EndingSequenceNumber": "2"},
    }
    faults.answer("ListShards", lambda _, answer: answer.but(Shards=[listed, *answer.members["Shards"]]))
    plan = plan_run(bench.client, bench.table, asked=bench.shard_ids, policy=ReadPolicy())
    assert parent in plan.asked
    assert parent not in plan.ranges


def test_the_list_of_a_young_stream_is_requested_again_if_a_parent_without_rows_is_missing(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    # Only rows of a child are copied.
    bench.run()
    bench.run()
    rows = bench.arrow()
    copy(bench, rows.filter(pc.not_equal(rows["shard_id"], parent)))
    without(faults, parent, times=1)
    bench.adopt()
    assert bench.positions.shards.keys() == {parent, *children}


def test_the_list_is_requested_again_if_a_readable_parent_without_rows_is_missing(bench, faults):
    (parent,) = bench.create()
    bench.kinesis.increase_stream_retention_period(StreamName=bench.stream, RetentionPeriodHours=168)
    children = bench.split(parent)
    bench.put(1)
    bench.run()
    bench.run()
    copy(bench)
    bench.later(hours=30)
    without(faults, parent, times=1)
    bench.adopt()
    assert bench.positions.shards.keys() == {parent, *children}


def test_the_time_at_which_a_shard_was_listed_open_is_recorded(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    bench.adopt()
    (shard,) = bench.positions.shards.values()
    assert abs(shard.listed_open - bench.now) < timedelta(seconds=2)


def test_the_doctor_reports_no_problem_for_adopted_rows(bench):
    bench.create()
    bench.put(1)
    bench.run()
    (shard_id,), batch_id = bench.shard_ids, bench.positions.batch_id
    copy(bench)
    bench.adopt()

    def read_rows(_):
        return Scan({(batch_id, shard_id): Counted(1, 7)}, {})

    findings = list(Doctor(bench.client, bench.table, read_rows=read_rows).findings())
    assert not [finding for finding in findings if finding.level is Level.PROBLEM]


# Errors


def test_rows_of_another_stream_are_refused_and_nothing_is_changed(bench):
    bench.create()
    bench.put(1)
    bench.run()
    rows = bench.arrow()
    other = rows.set_column(0, rows.schema.field(0), pa.array(["another"]))
    copy(bench, pa.concat_tables([rows, other]))
    with pytest.raises(TableUnsuitable, match="'another'"):
        bench.adopt()
    assert version_of(bench) == 0


def test_a_table_of_another_stream_is_refused(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    other = bench.client.describe().identity.arn.replace("us-east-1", "eu-west-1")
    DeltaTable(bench.table.uri).alter.set_table_properties({OWNER: other}, raise_if_not_exists=False)
    with pytest.raises(TableOfAnotherStream):
        bench.adopt()


def test_adopting_fails_without_rows_to_adopt(bench):
    bench.create()
    bench.table.create_if_missing()
    with pytest.raises(InvalidInput, match="no rows"):
        bench.adopt()
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="nothing to adopt"):
        bench.adopt()


def test_adopting_fails_if_rows_are_added_after_the_plan(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    commit = adopt_module._commit

    def commit_after_change(*arguments, **named):
        write_deltalake(bench.table.uri, bench.arrow(), mode="append")
        commit(*arguments, **named)

    monkeypatch.setattr(adopt_module, "_commit", commit_after_change)
    with pytest.raises(CommitFailed, match="changed in the meantime"):
        bench.adopt()


def test_rows_are_read_once_if_the_files_of_the_table_do_not_change(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    copy(bench)
    read = []
    newest_rows = adopt_module.newest_rows

    def counted(*arguments):
        read.append(arguments)
        return newest_rows(*arguments)

    monkeypatch.setattr(adopt_module, "newest_rows", counted)
    bench.adopt()
    assert (len(read), bench.positions.adopted) == (1, True)


def test_adopting_succeeds_if_the_table_is_compacted_after_the_plan(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.run()
    rows = bench.arrow()
    copy(bench, rows.slice(0, 1))
    write_deltalake(bench.table.uri, rows.slice(1), mode="append")
    commit = adopt_module._commit

    def commit_after_change(*arguments, **named):
        assert DeltaTable(bench.table.uri).optimize.compact()["numFilesAdded"] == 1
        commit(*arguments, **named)

    monkeypatch.setattr(adopt_module, "_commit", commit_after_change)
    bench.adopt()
    bench.run()
    assert bench.items == [1, 2]
