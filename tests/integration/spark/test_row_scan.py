"""The scan of all rows by Spark, and the findings of the doctor."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from deltalake import write_deltalake

from kinesis_assets.doctor.row_scan import Counted, scan

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = (f"shardId-{number:012d}" for number in range(2))


@pytest.fixture
def read_rows(ward, spark) -> Callable:
    return partial(scan, spark, ward.table.folder, ward.client.stream)


@pytest.fixture
def numbers(ward) -> list[str]:
    """The sequence numbers of the first of two shards, which were read in three commits."""
    ward.create(2)
    put = []
    for _ in range(3):
        put += ward.put(3)
        ward.put(2, part=0.5)
        ward.run()
    return put


def test_the_scan_counts_the_rows_that_each_commit_records(ward, read_rows, numbers):
    del numbers
    now, expected = ward.positions, {}
    while now.added:
        expected |= {
            (now.batch_id, shard_id): Counted(stats.rows, stats.checksum)
            for shard_id, stats in now.added.items()
        }
        now = ward.table.snapshot().positions_at(now.previous)
    files = [(file.path, file.size) for file in ward.table.snapshot().active_files()]
    found = read_rows(files)
    assert len(expected) == 6
    assert found.counted == expected
    assert found.duplicates == {}


def test_a_healthy_table_has_no_problem_before_and_after_a_compaction(ward, read_rows, numbers):
    del numbers
    assert ward.levels(read_rows=read_rows)["rows"] == {"ok"}
    ward.delta.optimize.compact()
    assert ward.levels(read_rows=read_rows)["rows"] == {"ok"}


def test_a_missing_row_is_found(ward, read_rows, numbers):
    ward.delta.delete(f"sequence_number = '{numbers[4]}'")
    ((check, shard, sentence),) = ward.problems(read_rows=read_rows)
    assert (check, shard) == ("rows", A)
    assert sentence.endswith(f"added 3 rows, 1 of them are missing; replay {numbers[3]} to {numbers[5]}")
    assert ward.problems() == []  # only the rows show it


def test_a_duplicate_row_is_found_in_any_batch(ward, read_rows, numbers):
    table = ward.delta.to_pyarrow_table()
    row = table.filter([number == numbers[0] for number in table["sequence_number"].to_pylist()])
    index = row.schema.get_field_index("batch_id")
    other = row.set_column(index, row.schema.field(index), [[7]])
    write_deltalake(ward.table.folder.uri, other, mode="append")
    assert [(check, shard) for check, shard, _ in ward.problems(read_rows=read_rows)] == [
        ("rows", A),
        ("rows", A),
    ]
    assert any(
        "1 records are in the table more than once" in sentence
        for *_, sentence in ward.problems(read_rows=read_rows)
    )


def test_the_rows_of_a_restored_and_replayed_table_are_complete(ward, read_rows, numbers):
    del numbers
    ward.delta.optimize.compact()
    ward.delta.restore(ward.delta.version() - 1)
    assert ward.levels(read_rows=read_rows)["restore"] == {"info"}


def test_a_restored_table_lacks_the_rows_of_its_last_commit(ward, read_rows, numbers):
    del numbers
    ward.delta.restore(ward.delta.version() - 1)
    found = [(check, shard) for check, shard, _ in ward.problems(read_rows=read_rows)]
    assert found == [("rows", A), ("rows", B), ("restore", None)]


def test_rows_that_a_replay_added_are_accounted_for(ward, read_rows, numbers):
    batch_id = 1 << 60
    stats = ward.positions.added[A]
    table = ward.delta.to_pyarrow_table()
    lost = table.filter([number in numbers[6:] for number in table["sequence_number"].to_pylist()])
    ward.delta.delete(f"batch_id = {ward.positions.batch_id} AND shard_id = '{A}'")
    index = lost.schema.get_field_index("batch_id")
    filled = lost.set_column(index, lost.schema.field(index), [[batch_id] * len(lost)])
    write_deltalake(ward.table.folder.uri, filled, mode="append")
    ward.amendment(batch_id=batch_id, filled={A: stats})
    assert ward.problems(read_rows=read_rows) == []
