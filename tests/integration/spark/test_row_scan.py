"""The scan of all rows by Spark, and the findings of the doctor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from deltalake import write_deltalake

from kinesis_assets.operations.doctor.row_scan import Counted, scan
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = (f"shardId-{number:012d}" for number in range(2))


@pytest.fixture
def read_rows(doctor_bench, spark) -> Callable:
    return partial(scan, spark, doctor_bench.table.folder, doctor_bench.stream)


def test_the_scan_counts_the_rows_that_each_commit_records(doctor_bench, read_rows):
    now, expected = doctor_bench.positions, {}
    while now.added:
        expected |= {
            (now.batch_id, shard_id): Counted(stats.rows, stats.checksum)
            for shard_id, stats in now.added.items()
        }
        now = doctor_bench.table.chain.positions_at(now.previous)
    files = [(file.path, file.size) for file in doctor_bench.table.snapshot().data_files()]
    found = read_rows(files)
    assert len(expected) == 6
    assert found.counted == expected
    assert found.duplicates == {}


def test_a_healthy_table_has_no_problem_before_and_after_a_compaction(doctor_bench, read_rows):
    assert doctor_bench.levels(read_rows=read_rows)["rows"] == {"ok"}
    doctor_bench.delta.optimize.compact()
    assert doctor_bench.levels(read_rows=read_rows)["rows"] == {"ok"}


def test_a_missing_row_is_found(doctor_bench, read_rows):
    doctor_bench.delta.delete(f"sequence_number = '{doctor_bench.numbers[4]}'")
    ((check, shard, sentence),) = doctor_bench.problems(read_rows=read_rows)
    assert (check, shard) == ("rows", A)
    assert_mentions(sentence, "3 rows", "1 of them")
    assert sentence.endswith(f"replay {doctor_bench.numbers[3]} to {doctor_bench.numbers[5]}")
    assert doctor_bench.problems() == []  # only the rows show it


def test_a_duplicate_row_is_found_in_any_batch(doctor_bench, read_rows):
    table = doctor_bench.delta.to_pyarrow_table()
    row = table.filter([number == doctor_bench.numbers[0] for number in table["sequence_number"].to_pylist()])
    index = row.schema.get_field_index("batch_id")
    other = row.set_column(index, row.schema.field(index), [[7]])
    write_deltalake(doctor_bench.table.folder.uri, other, mode="append")
    assert [(check, shard) for check, shard, _ in doctor_bench.problems(read_rows=read_rows)] == [
        ("rows", A),
        ("rows", A),
    ]
    assert any("1 records" in sentence for *_, sentence in doctor_bench.problems(read_rows=read_rows))


def test_the_rows_of_a_restored_and_replayed_table_are_complete(doctor_bench, read_rows):
    doctor_bench.delta.optimize.compact()
    doctor_bench.delta.restore(doctor_bench.delta.version() - 1)
    assert doctor_bench.levels(read_rows=read_rows)["restore"] == {"info"}


def test_a_restored_table_lacks_the_rows_of_its_last_commit(doctor_bench, read_rows):
    doctor_bench.delta.restore(doctor_bench.delta.version() - 1)
    found = [(check, shard) for check, shard, _ in doctor_bench.problems(read_rows=read_rows)]
    assert found == [("rows", A), ("rows", B), ("restore", None)]


def test_rows_that_a_replay_added_are_accounted_for(doctor_bench, read_rows):
    batch_id = 1 << 60
    stats = doctor_bench.positions.added[A]
    table = doctor_bench.delta.to_pyarrow_table()
    lost = table.filter(
        [number in doctor_bench.numbers[6:] for number in table["sequence_number"].to_pylist()]
    )
    doctor_bench.delta.delete(f"batch_id = {doctor_bench.positions.batch_id} AND shard_id = '{A}'")
    index = lost.schema.get_field_index("batch_id")
    filled = lost.set_column(index, lost.schema.field(index), [[batch_id] * len(lost)])
    write_deltalake(doctor_bench.table.folder.uri, filled, mode="append")
    doctor_bench.amend(batch_id=batch_id, filled={A: stats})
    assert doctor_bench.problems(read_rows=read_rows) == []
