"""Partitions of derived Iceberg tables, without Spark. Readers skip files by the values in the manifests."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import IdentityTransform

from kinesis_assets.derive.data_files import BATCH_COLUMN, DerivedFileWriter, Manifest
from kinesis_assets.derive.policy import Retention
from kinesis_assets.derive.schema import accept_columns
from kinesis_assets.derive.write import writing_job
from kinesis_assets.derive.writing_task import writing_task
from kinesis_assets.errors import SchemaChangeRefused, TableUnsuitable
from kinesis_assets.table.maintenance.steps import MaintenanceLimits, State
from support.formats import iceberg_of
from support.iceberg.partitioned import ROWS, TYPES, Partitioned, columns_of, row
from support.iceberg.table_readers import READERS
from support.readers import Filter
from support.table_folder import files_of, set_age

PARTITIONS = (
    ("name", "bucket(4, id)", "day(seen)", "month(day)", "truncate(100, price)", "bucket(4, token)"),
    ("id", "truncate(5, name)", "hour(seen)", "year(wall)", "bucket(4, price)", "bucket(4, day)"),
    ("day", "bucket(4, name)", "bucket(4, seen)", "hour(wall)", "truncate(10, number)", "truncate(2, token)"),
)
"""Each kind of partition of each kind of column, in some tables."""


@pytest.mark.slow
@pytest.mark.parametrize("partition_by", PARTITIONS, ids=lambda each: each[0])
def test_each_reader_finds_the_same_rows_with_a_filter_as_without_one(tmp_path, partition_by):
    table = Partitioned(tmp_path, *partition_by)
    table.append(*ROWS)
    assert len(table.partitions) == len(ROWS)
    for reader in READERS:
        table.check_filters(reader, ROWS)


@pytest.mark.slow
def test_filters_find_the_rows_after_files_were_copied_and_compacted(tmp_path):
    table = Partitioned(tmp_path, "bucket(2, id)", "year(day)")
    for each in ROWS:
        table.append(each)
    changed = {**ROWS[1], "day": date(2026, 1, 2)}
    table.append(changed, replacing=1)
    rows = [ROWS[0], changed, *ROWS[2:]]
    table.check_filters("pyiceberg", rows)
    steps = table.maintained(limits=MaintenanceLimits(small_files=2))
    assert State.DONE in {state for (step, _), state in steps.items() if step == "compact"}
    assert len(table.partitions) < len(rows)
    table.check_filters("DuckDB", rows)


def test_files_have_the_partition_columns(tmp_path):
    """Without them, pyiceberg finds no rows by such a column."""
    table = Partitioned(tmp_path, "name", "day")
    table.append(ROWS[1])
    (path,) = [path for path in files_of(table.table) if path.endswith(".parquet")]
    found = pa.parquet.read_table(f"{table.table.uri}/{path}", partitioning=None)
    assert {*TYPES} <= {*found.column_names}


def test_a_filter_on_the_column_of_a_transform_skips_files(tmp_path):
    table = Partitioned(tmp_path, "bucket(16, name)")
    table.append(*ROWS)
    scan = iceberg_of(table.table).scan(EqualTo("name", "orders"))
    assert len(list(scan.plan_files())) == 1


def test_the_partition_of_a_file_is_shown_as_in_its_folder(tmp_path):
    table = Partitioned(tmp_path, "day(seen)", "hour(wall)", "truncate(2, name)", "bucket(4, id)")
    table.append(ROWS[4])
    (file,) = table.table.snapshot().data_files()
    name = "seen_day=2026-11-29/wall_hour=2026-11-29T11/name_trunc=%E6%BC%A2%E5%AD%97/id_bucket="
    assert file.partition_name.startswith(name)
    assert file.path.startswith(f"{file.partition_name}/part-")


def test_empty_texts_and_null_are_partitions_of_their_own(tmp_path):
    table = Partitioned(tmp_path, "name")
    table.append(ROWS[0], ROWS[3])
    assert [each["name"] for each in table.partitions] == ["", None]


def test_times_that_python_does_not_have_are_in_partitions(tmp_path):
    """A garbled record must not stop a table."""
    table = Partitioned(tmp_path, "day(at)", "year(at)", types={"number": "integer", "at": "timestamp"})
    far = pa.scalar(2**60, pa.int64()).cast(pa.timestamp("us", "UTC"))
    table.append({"number": 1, "at": far})
    table.append({"number": 2, "at": datetime(2026, 1, 2, tzinfo=UTC)})
    assert {"at_day": "38504-08-17", "at_year": "38504"} in table.partitions
    assert sorted(each["number"] for each in table.rows("DuckDB", "number")) == [1, 2]


@pytest.mark.slow
def test_filters_find_older_rows_after_the_types_of_partition_columns_have_grown(tmp_path):
    types = {"number": "integer", "id": "integer", "price": "decimal(4,2)"}
    table = Partitioned(tmp_path, "id", "bucket(4, number)", "truncate(5, price)", types=types)
    table.append({"number": 1, "id": 7, "price": Decimal("1.23")})
    wide = columns_of({"number": "long", "id": "long", "price": "decimal(30,2)"})
    accept_columns(table.table.snapshot(), wide)
    table.append({"number": 2**40, "id": 2**41, "price": Decimal("123456789012345678901234567.89")})
    table.append({"number": 3, "id": 7}, replacing=1)
    for reader in READERS:
        for column, value, number in (("id", 7, 3), ("number", 2**40, 2**40), ("id", 2**41, 2**40)):
            found = table.rows(reader, "number", condition=Filter(column, value))
            assert found == [{"number": number}]


@pytest.mark.parametrize("column", ["day", "seen"])
def test_rows_of_partitions_expire(tmp_path, column):
    table = Partitioned(tmp_path, "day", "month(seen)")
    now = datetime.now(UTC)
    recent = row(7, "new", now.replace(tzinfo=None).isoformat())
    table.append(*ROWS[:2], ROWS[3], recent, {**recent, "number": 8, "seen": now - timedelta(days=60)})
    table.maintained(retention=Retention(column, 30))
    kept = {"day": [3, 7, 8], "seen": [3, 7]}[column]
    assert sorted(each["number"] for each in table.rows("pyiceberg", "number")) == kept


def test_a_task_writes_a_file_for_each_bucket_however_many_batches_of_rows_it_gets(tmp_path):
    table = Partitioned(tmp_path, "bucket(8, number)").table
    base = table.snapshot()
    job = writing_job(table, base.file_schema, base.partition_by, 7)
    empty = {**dict.fromkeys(base.file_schema.names), BATCH_COLUMN: 7}
    batches = [
        pa.RecordBatch.from_pylist([{**empty, "number": number} for number in numbers], base.file_schema)
        for numbers in ([*range(50), None], range(50, 100), range(100, 150))
    ]
    (found,) = writing_task(job)(iter(batches))
    files = msgspec.msgpack.decode(found["manifest"][0].as_py(), type=Manifest).files
    assert (len(files), sum(file.rows for file in files)) == (9, 151)


def test_maintenance_deletes_files_of_partitions_that_no_snapshot_names(tmp_path):
    table = Partitioned(tmp_path, "day(seen)")
    table.append(*ROWS[:2])
    named = {*files_of(table.table)}
    snapshot = table.table.snapshot()
    writer = DerivedFileWriter(writing_job(table.table, snapshot.file_schema, snapshot.partition_by, 7))
    values = [{**ROWS[4], BATCH_COLUMN: 7}]
    writer.write(pa.RecordBatch.from_pylist(values, snapshot.file_schema))
    (unnamed,) = writer.close()
    set_age(table.table, timedelta(days=8), *files_of(table.table))
    assert table.maintained()["vacuum", "data files and metadata"] is State.DONE
    left = {*files_of(table.table)}
    assert unnamed.path not in left
    assert {path for path in named if path.endswith(".parquet")} <= left


def test_a_partition_column_can_grow_but_get_no_other_type_even_without_rows(tmp_path):
    types = {"number": "integer", "at": "date"}
    snapshot = Partitioned(tmp_path, "day(at)", "number", types=types).table.snapshot()
    snapshot.refuse_partition_change(columns_of({**types, "number": "long", "name": "string"}))
    with pytest.raises(SchemaChangeRefused, match="the column at would get another type"):
        snapshot.refuse_partition_change(columns_of({**types, "at": "timestamp"}))


@pytest.mark.parametrize("other", [(), ("seen",), ("month(seen)",), ("bucket(8, id)", "day(seen)")])
def test_a_table_with_other_partitions_is_refused(tmp_path, other):
    table = Partitioned(tmp_path, "day(seen)", "bucket(4, id)").table
    with pytest.raises(TableUnsuitable, match=r"is partitioned by \['day\(seen\)', 'bucket\(4, id\)'\]"):
        table.open_or_create("source", columns_of(TYPES), other)
    table.open_or_create("source", columns_of(TYPES), ("day(seen)", "bucket(4, id)"))


def test_a_table_that_another_program_partitioned_is_refused(tmp_path):
    table = Partitioned(tmp_path).table
    with iceberg_of(table).update_spec() as update:
        update.add_field("name", IdentityTransform())
    with pytest.raises(TableUnsuitable, match=r"is partitioned by \['name'\], and not by \[\]"):
        table.open_or_create("source", columns_of(TYPES), ())
