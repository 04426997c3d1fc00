"""What the tests let others do to an Iceberg table happens."""

from __future__ import annotations

import os
import time

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from support.iceberg import foreign
from support.iceberg.plain_table import arrow_of, create


def items(table):
    return sorted(table.refresh().scan().to_arrow()["item"].to_pylist())


@pytest.fixture
def table(sqlite_catalog):
    """A table with a file for each of three commits."""
    table = create(sqlite_catalog)
    for item in range(3):
        foreign.append(table, arrow_of([item]))
    return table.refresh()


def test_rows_are_added_and_deleted_by_others(table):
    foreign.append(table, arrow_of([7]))
    foreign.delete(table, EqualTo("item", 1))
    assert items(table) == [0, 2, 7]


def test_a_table_is_rolled_back(table):
    second = table.snapshots()[1]
    with table.transaction() as transaction:
        transaction.set_properties(pointer="newest")
    foreign.roll_back(table, second.snapshot_id)
    assert items(table) == [0, 1]
    assert table.properties["pointer"] == "newest"


def test_a_column_is_added_by_others(table):
    foreign.add_column(table, "colour", StringType())
    assert table.refresh().schema().find_field("colour").field_id == 4
    assert table.scan().to_arrow()["colour"].null_count == 3


def test_snapshots_are_expired_by_others(table):
    foreign.expire_all_but_current(table)
    assert len(table.refresh().snapshots()) == 1
    assert items(table) == [0, 1, 2]


def test_files_are_compacted_by_others(table):
    foreign.append(table, arrow_of([24]))  # on another day
    foreign.compact(table)
    assert items(table) == [0, 1, 2, 24]
    assert sorted(table.inspect.files()["record_count"].to_pylist()) == [1, 3]
    assert table.current_snapshot().summary.operation is Operation.REPLACE


def test_hidden_folders_are_left_where_files_without_a_snapshot_are_removed(table):
    folder = foreign._path(table.location())
    kept, orphan = folder / "_kinesis" / "x.parquet", folder / "data" / "x.parquet"
    for path in (kept, orphan):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert foreign.remove_unreferenced(table, keeps_hidden=True) == [orphan]
    assert kept.exists()
    assert items(table) == [0, 1, 2]


def test_files_without_a_snapshot_are_removed(table):
    foreign.expire_all_but_current(table)
    removed = foreign.remove_unreferenced(table)
    assert sorted(path.name[:5] for path in removed) == ["snap-", "snap-"]  # manifests are in all snapshots
    assert items(table) == [0, 1, 2]


def test_spark_maintains_a_table(sqlite_catalog, iceberg_spark, table):
    foreign.append(table, arrow_of([24, 25]))  # on another day
    spark = foreign.SparkMaintenance(iceberg_spark, sqlite_catalog, table)
    assert spark.rewrite_data_files() == 4
    spark.rewrite_manifests()
    spark.expire_all_but_current()
    files = table.refresh().inspect.files()
    assert sorted(files["record_count"].to_pylist()) == [2, 3]
    assert len(table.snapshots()) == 1
    folder = foreign._path(table.location())
    assert len(list(folder.glob("data/**/*.parquet"))) == 2
    old, new = folder / "data" / "old.parquet", folder / "data" / "new.parquet"
    for path in (old, new):
        path.touch()
    os.utime(old, (time.time() - 3 * 86_400,) * 2)
    assert [location.rpartition("/")[2] for location in spark.remove_orphan_files()] == ["old.parquet"]
    assert new.exists()
    spark.sql("DELETE FROM {} WHERE item = 1")
    assert items(table) == [0, 2, 24, 25]
