"""The task that writes the data files of a derived table."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinesis_assets.derive.data_files import BATCH_COLUMN, Manifest, RecordCounts, WritingJob, counts_of
from kinesis_assets.derive.writing_task import writing_task
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.store.storage import TableFolder

BATCH = 7
LAST_DAY = date.max.toordinal() - date(1970, 1, 1).toordinal()


def days(*numbers):
    """Return dates by their days since 1970."""
    return pa.array(numbers, pa.int32()).cast(pa.date32())


def write(folder, *batches, partition_by=(), layout=FileLayout()):
    """Write a column of values, and return the files."""
    rows = [
        pa.record_batch({"value": values, BATCH_COLUMN: pa.array([BATCH] * len(values), pa.int64())})
        for values in batches
    ]
    job = WritingJob(
        TableFolder.at(str(folder)), rows[0].schema, partition_fields(partition_by), BATCH, layout
    )
    (found,) = writing_task(job)(iter(rows))
    return msgspec.msgpack.decode(found["manifest"][0].as_py(), type=Manifest).files


def statistics(file):
    found = json.loads(file.statistics)
    return found["minValues"].get("value"), found["maxValues"].get("value"), found["nullCount"]["value"]


def test_the_statistics_name_the_smallest_and_the_greatest_value(tmp_path):
    (file,) = write(tmp_path, pa.array(["b", None, "a"]))
    assert statistics(file) == ("a", "b", 1)


@pytest.mark.parametrize(
    "values",
    [days(0, LAST_DAY + 1), pa.array([1.5, float("nan")])],
    ids=["a date after the year 9999", "NaN"],
)
def test_bounds_that_cannot_be_stored_exactly_are_left_out(tmp_path, values):
    (file,) = write(tmp_path, values)
    assert json.loads(file.statistics).get("maxValues", {}).get("value") is None


LAST = "\U0010ffff"


@pytest.mark.parametrize(
    ("texts", "smallest", "greatest"),
    [
        (["b" * 5000, None, "a"], "a", "b" * 31 + "c"),
        (["b", "a" * 5000], "a" * 32, "b"),
        (["😀" * 5000], "😀" * 32, "😀" * 31 + "😁"),
        (["\ud7ff" * 5000], "\ud7ff" * 32, "\ud7ff" * 31 + "\ue000"),
        (["a" + LAST * 5000], "a" + LAST * 31, "b"),
        ([LAST * 5000], LAST * 32, LAST * 5000),
    ],
)
def test_the_bounds_of_long_texts_are_prefixes(tmp_path, texts, smallest, greatest):
    (file,) = write(tmp_path, pa.array(texts))
    assert statistics(file) == (smallest, greatest, texts.count(None))
    assert smallest <= min(filter(None, texts)) <= max(filter(None, texts)) <= greatest


def test_the_bounds_of_long_texts_are_those_of_all_row_groups(tmp_path):
    groups = [["m"], ["z" * 5000], ["a" * 5000, None], [None]]
    values = [pa.array(each, pa.string()) for each in groups]
    (file,) = write(tmp_path, *values, layout=FileLayout(row_group_bytes=1))
    assert pq.read_metadata(tmp_path / file.path).num_row_groups == len(groups)
    assert statistics(file) == ("a" * 32, "z" * 31 + "{", 2)


def test_if_the_bounds_of_one_column_are_unknown_no_bounds_are_named(tmp_path):
    (file,) = write(tmp_path, days(LAST_DAY + 1))
    found = json.loads(file.statistics)
    assert (found["numRecords"], found.keys() & {"minValues", "maxValues"}) == (1, set())


def test_rows_with_a_partition_date_that_no_program_can_read_are_not_written(tmp_path):
    (file,) = write(tmp_path, days(LAST_DAY), partition_by=("value",))
    assert file.partition == {"value": "9999-12-31"}
    with pytest.raises(ValueError, match=r"\bvalue\b.*\b10000-01-01\b"):
        write(tmp_path, days(LAST_DAY + 1), partition_by=("value",))


def test_each_of_a_few_values_has_one_file_although_every_batch_has_rows_of_all(tmp_path):
    files = write(tmp_path, *[pa.array(range(20))] * 10, partition_by=("value",))
    assert sorted(int(file.partition["value"]) for file in files) == list(range(20))
    assert {file.rows for file in files} == {10}


def test_for_the_first_of_too_many_values_the_file_that_was_not_used_for_the_longest_time_is_closed(tmp_path):
    order = [*range(64), 0, 64, 0, 1]
    files = write(tmp_path, *(pa.array([value]) for value in order), partition_by=("value",))
    numbers = Counter(int(file.partition["value"]) for file in files)
    assert {value for value, number in numbers.items() if number > 1} == {1}


def test_the_file_with_the_most_rows_in_memory_writes_them_once_all_have_four_row_groups(tmp_path):
    """Each row takes 8 bytes, so the rows of the last value exceed the limit."""
    sizes = [(0, 1000), *((value, 400) for value in range(1, 12)), (0, 1)]
    batches = [pa.array([value] * rows) for value, rows in sizes]
    files = write(tmp_path, *batches, partition_by=("value",), layout=FileLayout(row_group_bytes=10_000))
    groups = {
        int(file.partition["value"]): pq.read_metadata(tmp_path / file.path).num_row_groups for file in files
    }
    assert groups == {0: 2, **dict.fromkeys(range(1, 12), 1)}


INVALID = pa.array([b"a\xffb", b"\xe9", "ü😀".encode(), None], pa.binary()).view(pa.string())


def test_texts_that_are_not_utf_8_are_written_as_spark_shows_them(tmp_path):
    """Parquet accepts no other texts: some readers refuse the whole file."""
    (file,) = write(tmp_path, INVALID)
    assert pq.read_table(tmp_path / file.path)["value"].to_pylist() == ["a\ufffdb", "\ufffd", "ü😀", None]
    assert statistics(file) == ("a\ufffdb", "\ufffd", 1)


def test_partitions_of_texts_that_are_not_utf_8_are_those_of_the_written_texts(tmp_path):
    files = write(tmp_path, INVALID, partition_by=("value",))
    assert {file.partition["value"] for file in files} == {"a\ufffdb", "\ufffd", "ü😀", None}


def test_texts_within_other_values_that_are_not_utf_8_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"\bvalue\b.*UTF-8"):
        write(tmp_path, pa.ListArray.from_arrays([0, 1, 2, 3, 4], INVALID))


# Records that could not be decoded


def batch(errors, **columns):
    return pa.record_batch({"error": pa.array(errors, pa.string()), **columns})


def test_records_with_an_error_are_counted():
    assert counts_of(batch([None, "json: bad", "json: worse"]), "error") == RecordCounts(3, 2, "json: bad")
    assert counts_of(batch([None]), "error") == RecordCounts(1)
    assert counts_of(batch([]), "error") == RecordCounts()


def test_the_example_names_the_shard_and_the_sequence_number_where_rows_have_them():
    columns = {"shard_id": ["a", "b", None], "sequence_number": ["1", "2", None]}
    assert counts_of(batch([None, "bad", None], **columns), "error").example == "b: 2: bad"
    assert counts_of(batch([None, None, "bad"], **columns), "error").example == "bad"


def test_a_long_reason_is_cut():
    found = counts_of(batch(["x" * 10_000]), "error").example
    assert found is not None
    assert len(found) == 500


@pytest.mark.parametrize(("first", "second"), [(None, "b"), ("b", "c")])
def test_the_counts_of_several_batches_are_added_with_the_first_example(first, second):
    assert RecordCounts(3, 1, first) + RecordCounts(2, 2, second) == RecordCounts(5, 3, "b")
