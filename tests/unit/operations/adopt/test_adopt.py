"""Adopting a copy of the rows of a table, which has no positions."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

from kinesis_assets.errors import PositionsMissing
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.doctor.examine import examine
from kinesis_assets.operations.doctor.finding import Level
from kinesis_assets.operations.doctor.row_scan import Counted, Scan
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.snapshot import TableSnapshot
from support.aggregates import aggregate_of
from support.copied_table import copy_rows

pytestmark = pytest.mark.slow

BEGINNING = Position.parse("TRIM_HORIZON")


def test_runs_continue_after_the_newest_rows_of_a_copy(bench):
    bench.create(2)
    bench.put(1, 2)
    bench.put(3, part=0.5)
    bench.run()
    copy_rows(bench)
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
    copy_rows(bench)
    result = bench.adopt(apply=False)
    assert len(result.shards) == 1
    assert bench.version == 0


def test_the_user_and_the_owner_of_the_table_are_recorded(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    bench.adopt(by="ann")
    assert (bench.positions.by, bench.positions.adopted) == ("ann", True)
    properties = bench.delta.metadata().configuration
    assert properties[OWNER] == bench.client.describe().identity.arn


@pytest.mark.parametrize("copied", [1, 2, 3])
def test_a_partly_copied_aggregate_is_read_to_its_end(bench, copied):
    bench.create()
    bench.put(aggregate_of(1, 2, 3))
    bench.run(max_records=copied)
    copy_rows(bench)
    bench.adopt()
    sub = bench.at(bench.shard_ids[0]).position.sub_sequence_number
    assert sub == (None if copied == 3 else copied - 1)
    bench.put(4)
    bench.run()
    assert bench.items == [1, 2, 3, 4]


@pytest.mark.parametrize("call", [0, 1])
def test_a_partly_copied_aggregate_that_a_response_leaves_out_is_read_to_its_end(bench, faults, call):
    bench.create()
    bench.put(aggregate_of(1, 2, 3))
    bench.run(max_records=2)
    copy_rows(bench)
    faults.calls.clear()
    faults.empty_page(behind_ms=0, after=call, times=1)
    bench.adopt()
    assert faults.count("GetRecords") > call
    bench.run()
    assert bench.items == [1, 2, 3]


def test_sequence_numbers_of_different_lengths_are_compared_as_numbers(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    (number,) = bench.arrow()["sequence_number"].to_pylist()
    rows = bench.arrow()
    index = rows.schema.get_field_index("sequence_number")
    shorter = rows.set_column(index, rows.schema.field(index), pa.array(["9" * (len(number) - 1)]))
    copy_rows(bench, pa.concat_tables([rows, shorter]))
    result = bench.adopt()
    assert result.shards[shard_id].rows == 2
    assert bench.at(shard_id).position == Position.after(number)


def test_a_shard_without_rows_starts_at_the_trim_horizon(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    copy_rows(bench)
    bench.put(2, part=0.5)
    bench.adopt()
    assert (bench.at(first).last_arrival is not None, bench.at(second).position) == (True, BEGINNING)
    bench.run()
    assert bench.items == [1, 2]


def test_the_time_at_which_a_shard_was_listed_open_is_recorded(bench):
    bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    bench.adopt()
    (shard,) = bench.positions.shards.values()
    assert abs(shard.listed_open - bench.now) < timedelta(seconds=2)


def test_an_adoption_whose_response_is_lost_is_found_behind_the_commit_of_a_run(bench, monkeypatch):
    bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    bench.put(2)
    commit = TableSnapshot.commit

    def lost(*arguments, **named):
        monkeypatch.setattr(TableSnapshot, "commit", commit)
        commit(*arguments, **named)
        bench.run()
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", lost)
    assert len(bench.adopt().shards) == 1
    assert bench.items == [1, 2]


def test_the_doctor_reports_no_problem_for_adopted_rows(bench):
    bench.create()
    bench.put(1)
    bench.run()
    (shard_id,), batch_id = bench.shard_ids, bench.positions.batch_id
    copy_rows(bench)
    bench.adopt()

    def read_rows(_):
        return Scan({(batch_id, shard_id): Counted(1, 7)}, {})

    findings = list(examine(bench.client, bench.table, read_rows=read_rows))
    assert not [finding for finding in findings if finding.level is Level.PROBLEM]
