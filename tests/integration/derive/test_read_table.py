"""A whole table as a DataFrame, with the position up to which it was read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import Cursor, new_rows, read_table
from kinesis_assets.errors import TableMissing, TableUnsuitable
from support.derived import order


def land(bench, *orders):
    bench.put(*orders)
    bench.run()


def ids(rows):
    return sorted(row["id"] for row in rows.select("id").collect())


def test_the_rows_and_the_position_are_of_the_same_version(bench, derived):
    land(bench, order(1), order(2))
    derived.run()
    rows, seen = read_table(derived.spark, derived.table.uri)
    land(bench, order(3))
    derived.run()
    assert ids(rows) == [1, 2]
    assert seen["source_rows"] == 2
    assert seen["source_version"] == DeltaTable(derived.table.uri).version() - 1
    later = new_rows(derived.table.uri, Cursor.parse(str(seen["cursor"])))
    assert sum(file.rows or 0 for file in later.files) == 1


def test_a_raw_table_can_be_read(bench, derived):
    land(bench, b"one", b"two")
    rows, seen = read_table(derived.spark, bench.table.uri)
    assert sorted(bytes(row["data"]) for row in rows.collect()) == [b"one", b"two"]
    assert new_rows(bench.table.uri, Cursor.parse(str(seen["cursor"]))).files == []


def test_a_table_without_rows_can_be_read(bench, derived):
    bench.run()
    derived.run()
    rows, seen = read_table(derived.spark, derived.table.uri)
    assert (ids(rows), seen["source_rows"]) == ([], 0)


def test_a_table_that_cannot_be_read_by_files_is_refused(bench, derived):
    land(bench, order(1))
    DeltaTable(bench.table.uri).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    with pytest.raises(TableUnsuitable, match="deletionVectors"):
        read_table(derived.spark, bench.table.uri)


def test_a_table_that_has_no_position_is_refused(derived, tmp_path):
    with pytest.raises(TableMissing):
        read_table(derived.spark, str(tmp_path / "nothing"))
    write_deltalake(str(tmp_path / "other"), pa.table({"id": [1]}))
    with pytest.raises(TableUnsuitable):
        read_table(derived.spark, str(tmp_path / "other"))
