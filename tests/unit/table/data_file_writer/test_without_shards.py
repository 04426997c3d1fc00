"""Copies of data files without the rows of some shards."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.records.records import record_batch
from kinesis_assets.table.data_file import verify
from kinesis_assets.table.data_file_writer import DataFileWriter, without_shards
from support.attempts import STREAM, land, records
from support.data_files import numbers, read


@pytest.fixture
def three_shards(table):
    """A file of three shards whose records alternate."""
    writer = DataFileWriter(table.files, 77)
    for first in range(1, 3000, 1000):
        for shard_id in "abc":
            writer.write(shard_id, record_batch(STREAM.name, shard_id, records(first, 1000)))
    (file,) = writer.close()
    return file


@pytest.mark.parametrize("removed", [{"a"}, {"b"}, {"c"}, {"a", "c"}])
def test_removing_shards_keeps_exactly_the_others(table, three_shards, removed):
    (copy,) = without_shards(table.files, three_shards, removed)
    kept = {"a", "b", "c"} - removed
    assert copy.rows_by_shard == dict.fromkeys(sorted(kept), 3000)
    for shard_id in "abc":
        assert numbers(table.files, copy, shard_id) == (list(range(1, 3001)) if shard_id in kept else [])
    verify(table.uri, table.files, copy)


def test_a_copy_has_a_new_name_and_the_batch_date_and_columns_of_the_original(table, three_shards):
    (copy,) = without_shards(table.files, three_shards, {"a"})
    assert copy.path != three_shards.path
    assert (copy.batch_id, copy.arrival_date) == (three_shards.batch_id, three_shards.arrival_date)
    whole = read(table.files, three_shards)
    kept = whole.filter(pa.compute.not_equal(whole["shard_id"], "a"))
    order = [("shard_id", "ascending"), ("sequence_number", "ascending")]
    assert read(table.files, copy).sort_by(order).equals(kept.sort_by(order))


def test_removing_shards_does_not_change_the_original_file(table, three_shards):
    before = Path(table.uri, three_shards.path).read_bytes()
    without_shards(table.files, three_shards, {"a"})
    assert Path(table.uri, three_shards.path).read_bytes() == before


def test_a_file_without_rows_of_the_removed_shards_is_not_copied(table, three_shards):
    assert without_shards(table.files, three_shards, {"d"}) == [three_shards]
    assert without_shards(table.files, three_shards, set()) == [three_shards]


def test_a_file_with_only_rows_of_the_removed_shards_has_no_copy(table, three_shards):
    assert without_shards(table.files, three_shards, {"a", "b", "c", "d"}) == []


def test_a_copy_that_fails_leaves_no_thread(table, three_shards):
    table.files.delete_file(three_shards.path)
    before = set(threading.enumerate())
    # The error keeps its frames alive, and with them the copy.
    with pytest.raises(FileNotFoundError) as _kept:
        without_shards(table.files, three_shards, {"a"})
    for thread in set(threading.enumerate()) - before:
        thread.join(SECONDS)
        assert not thread.is_alive(), thread


def test_arrival_bounds_of_a_copy_are_those_of_its_rows(table):
    (file,) = land(table, 77, {"a": records(1, 1), "b": records(500, 1)})
    (copy,) = without_shards(table.files, file, {"a"})
    assert copy.first_arrival == copy.last_arrival == file.last_arrival
