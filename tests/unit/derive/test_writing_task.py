"""The task that writes new rows, and copies files without the rows that are replaced."""

from __future__ import annotations

from datetime import date

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinesis_assets.derive.data_files import BATCH_COLUMN, Manifest, RecordCounts, WritingJob
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN
from kinesis_assets.derive.writing_task import writing_task
from kinesis_assets.table.data_file import TableFile
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.store.storage import TableFolder

BEFORE, NOW = 1, 2
SCHEMA = pa.schema({"value": pa.string(), "day": pa.date32(), BATCH_COLUMN: pa.int64()})
INPUT = SCHEMA.append(pa.field(FILE_COLUMN, pa.int32())).append(pa.field(POSITION_COLUMN, pa.int64()))
DAY = date(2026, 1, 1)


class Folder:
    """A table's folder with files of texts, and the task that replaces some of them."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}
        self.partition_by = ()
        self.layout = FileLayout()

    def add(self, values, **partition):
        """Add a file with row groups of two rows."""
        number = len(self.files)
        rows = pa.table({"value": list(values), BATCH_COLUMN: pa.array([BEFORE] * len(values), pa.int64())})
        pq.write_table(rows, self.folder / f"{number}.parquet", row_group_size=2)
        self.files[number] = TableFile(f"{number}.parquet", 1, len(values), partition)

    def run(self, *rows):
        """Run the task over rows of a value, a file and a position."""
        batch = pa.RecordBatch.from_pylist(
            [
                {"value": value, "day": DAY, BATCH_COLUMN: NOW, FILE_COLUMN: file, POSITION_COLUMN: position}
                for value, file, position in rows
            ],
            INPUT,
        )
        folder = TableFolder.at(str(self.folder))
        job = WritingJob(
            folder, SCHEMA, partition_fields(self.partition_by), NOW, self.layout, removed=self.files
        )
        (found,) = writing_task(job)(iter([batch.slice(0, 1), batch.slice(1)]))
        return msgspec.msgpack.decode(found["manifest"][0].as_py(), type=Manifest)

    def values(self, file):
        return pq.read_table(self.folder / file.path, partitioning=None)["value"].to_pylist()


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def test_a_file_is_copied_without_replaced_rows_and_new_ones_follow(folder):
    folder.add("abcde")
    manifest = folder.run((None, 0, 1), (None, 0, 4), ("B", 0, None))
    assert [folder.values(file) for file in manifest.files] == [["a", "c", "d", "B"]]
    assert [folder.values(file) for file in manifest.replaced] == [["b", "e"]]
    assert [(file.rows, file.new_rows) for file in manifest.files] == [(4, 1)]


def test_small_files_are_copied_to_one(folder):
    folder.add("ab")
    folder.add("cd")
    manifest = folder.run((None, 0, 0), (None, 1, 1), ("D", 1, None))
    assert [folder.values(file) for file in manifest.files] == [["b", "c", "D"]]


def test_large_files_are_copied_one_by_one(folder):
    folder.layout = FileLayout(row_group_bytes=1, file_bytes=4)
    folder.add("ab")
    folder.add("cd")
    manifest = folder.run((None, 0, 0), ("A", 0, None), (None, 1, 0), ("C", 1, None))
    assert [value for file in manifest.files for value in folder.values(file)] == ["b", "A", "d", "C"]
    assert len(manifest.files) > 1


def test_a_file_that_has_been_open_for_long_gets_no_further_rows(folder):
    folder.layout = FileLayout(open_seconds=0.0)
    folder.add("abc")
    manifest = folder.run((None, 0, 0), ("A", 0, None))
    assert sorted(value for file in manifest.files for value in folder.values(file)) == ["A", "b", "c"]
    assert len(manifest.files) > 1


def test_a_file_without_remaining_rows_has_no_copy(folder):
    folder.add("ab")
    manifest = folder.run((None, 0, 0), (None, 0, 1))
    assert (manifest.files, manifest.replaced[0].rows) == ((), 2)


def test_new_rows_without_a_file_are_written_beside_copies(folder):
    folder.add("ab")
    manifest = folder.run(("x", None, None), (None, 0, 0))
    assert sorted(value for file in manifest.files for value in folder.values(file)) == ["b", "x"]


def test_a_copy_keeps_the_partition_of_its_file(folder):
    folder.partition_by = ("day",)
    folder.add("ab", day=date(2025, 12, 31))
    manifest = folder.run((None, 0, 0), ("A", 0, None))
    assert {file.partition["day"]: folder.values(file) for file in manifest.files} == {
        "2025-12-31": ["b"],
        "2026-01-01": ["A"],
    }
    assert pq.read_table(folder.folder / manifest.replaced[0].path)["day"].to_pylist() == [date(2025, 12, 31)]


# Records that could not be decoded


ERRORS = pa.record_batch(
    {
        "value": pa.array(["a", None, "c"]),
        BATCH_COLUMN: pa.array([NOW] * 3, pa.int64()),
        "error": pa.array([None, "bad", None]),
    }
)


@pytest.mark.parametrize("keeps_errors", [True, False], ids=["kept", "dropped"])
def test_records_are_counted_in_the_task_that_writes_them(tmp_path, keeps_errors):
    schema = ERRORS.schema if keeps_errors else ERRORS.schema.remove(2)
    job = WritingJob(
        TableFolder.at(str(tmp_path)), schema, (), NOW, error_column="error", keeps_errors=keeps_errors
    )
    (found,) = writing_task(job)(iter([ERRORS, ERRORS.slice(0, 1), ERRORS.slice(0, 0)]))
    manifest = msgspec.msgpack.decode(found["manifest"][0].as_py(), type=Manifest)
    assert manifest.counts == RecordCounts(4, 1, "bad")
    (file,) = manifest.files
    written = pq.read_table(tmp_path / file.path)
    assert written["value"].to_pylist() == (["a", None, "c", "a"] if keeps_errors else ["a", "c", "a"])
    assert ("error" in written.column_names) is keeps_errors


def test_records_are_not_counted_without_a_column_of_errors(folder):
    assert folder.run(("x", None, None)).counts is None
