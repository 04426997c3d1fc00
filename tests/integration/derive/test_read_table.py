"""A whole table as a DataFrame, with the position up to which it was read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import LongType

from kinesis_assets import Cursor, new_rows, read_table
from kinesis_assets.derive.schema import accept_columns
from kinesis_assets.errors import TableMissing, TableUnsuitable
from kinesis_assets.table.data_file import TABLE_SCHEMA
from support.attempts import Attempt, current_positions, freeze_all, shards
from support.derived import order
from support.formats import derived_iceberg, derived_settings_in, settings_of, table_of
from support.plain_derived import PlainDerived
from support.timing import WRITING


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


def test_a_raw_iceberg_table_and_the_rows_of_each_run_are_read(spark, tmp_path):
    table = table_of("iceberg", str(tmp_path / "raw"), WRITING)
    catalog = settings_of(table)["catalog"]
    frozen = freeze_all(table, shards("a"))
    cursor = new_rows(table.uri, catalog=catalog).cursor
    for count in (1, 2):
        Attempt(table, frozen if count == 1 else current_positions(table), {"a": count}).commit()
    rows, seen = read_table(spark, table.uri, catalog=catalog)
    assert {column.name for column in rows.schema} == {*TABLE_SCHEMA.names}
    assert sorted(row["sequence_number"] for row in rows.collect()) == ["1", "2", "3"]
    assert (seen["source_rows"], seen["source_version"]) == (3, 3)
    first = new_rows(table.uri, cursor, max_bytes=1, catalog=catalog)
    second = new_rows(table.uri, first.cursor, max_bytes=1, catalog=catalog)
    numbers = [[row["sequence_number"] for row in step.read(spark).collect()] for step in (first, second)]
    assert [sorted(each) for each in numbers] == [["1"], ["2", "3"]]
    assert str(second.cursor) == seen["cursor"]


def test_a_derived_iceberg_table_is_read_with_the_columns_that_it_has_now(spark, tmp_path):
    format_ = derived_iceberg(str(tmp_path / "grown"))
    catalog = derived_settings_in(format_)["catalog"]
    grown = PlainDerived(tmp_path / "grown", format=format_)
    grown.append((1, 10, "a"))
    wider = {"name": "place", "type": "integer", "nullable": True, "metadata": {}}
    narrow = grown.table.snapshot().schema
    accept_columns(grown.table.snapshot(), {**narrow, "fields": [*narrow["fields"], wider]})
    grown.append((2, 20, None))
    accept_columns(
        grown.table.snapshot(), {**narrow, "fields": [*narrow["fields"], {**wider, "type": "long"}]}
    )
    rows, seen = read_table(spark, grown.table.uri, catalog=catalog)
    assert rows.schema["place"].dataType == LongType()
    assert sorted(tuple(row)[:3] for row in rows.collect()) == [(1, 10, "a"), (2, 20, None)]
    assert {row["place"] for row in rows.collect()} == {None}
    assert new_rows(grown.table.uri, catalog=catalog).read(spark).schema == rows.schema
    assert seen["source_rows"] == 2
