"""Derived Iceberg tables, without Spark: their commits, their columns, and what other programs do to them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import StringType, UUIDType

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.cursor import Cursor, Selection
from kinesis_assets.derive.data_files import BATCH_COLUMN, DerivedFileWriter, Manifest
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.maintenance import maintain
from kinesis_assets.derive.policy import Retention
from kinesis_assets.derive.schema import accept_columns, refuse_other_types
from kinesis_assets.derive.write import writing_job
from kinesis_assets.errors import (
    CursorConflict,
    InvalidInput,
    SchemaChangeRefused,
    TableRewritten,
    TableUnsuitable,
    UpsertOvertaken,
)
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.iceberg.manifests import table_file
from kinesis_assets.table.maintenance.steps import MaintenanceLimits, State
from support.formats import SNAPSHOTS_KEPT, derived_iceberg, iceberg_of
from support.iceberg import foreign
from support.iceberg.table_readers import READERS
from support.plain_derived import COLUMNS, PlainDerived, steps_of
from support.table_folder import files_of, set_age

pytestmark = pytest.mark.any_format

ROWS = [(1, 10, "a"), (2, 20, "b"), (3, 30, None)]


@pytest.fixture
def derived(tmp_path):
    """An empty table, of which three snapshots are kept."""
    path = str(tmp_path / "orders")
    return PlainDerived(path, partitioned=False, format=derived_iceberg(path))


def found_by(reader, table):
    rows = READERS[reader](iceberg_of(table), COLUMNS, None)
    return Counter(tuple(row[name] for name in COLUMNS) for row in rows)


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def columns_of(**types):
    fields = [field(name, kind) for name, kind in types.items()]
    return {"type": "struct", "fields": [*fields, field(BATCH_COLUMN, "long")]}


def write(table, rows):
    """Write rows with the columns of a table to a file, and return the batch id and what is committed."""
    snapshot, batch_id = table.snapshot(), new_id(table.clock)
    writer = DerivedFileWriter(writing_job(table, snapshot.file_schema, (), batch_id))
    values = [{**dict.fromkeys(snapshot.file_schema.names), **row, BATCH_COLUMN: batch_id} for row in rows]
    writer.write(pa.RecordBatch.from_pylist(values, snapshot.file_schema))
    return batch_id, Manifest(tuple(writer.close()))


def append(table, *rows):
    expected = table.snapshot().commit_id
    batch_id, manifest = write(table, rows)
    cursor = Cursor(source="source", commit=batch_id)
    return commit(table, Attempt(cursor=cursor, batch_id=batch_id, manifest=manifest), expected=expected)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_each_reader_finds_the_rows_after_each_kind_of_commit(derived, reader):
    derived.append(*ROWS[:2])
    derived.append(ROWS[2])
    assert found_by(reader, derived.table) == Counter(ROWS)
    derived.upsert((2, 21, "c"))
    changed = Counter([ROWS[0], (2, 21, "c"), ROWS[2]])
    assert found_by(reader, derived.table) == changed
    steps_of(derived, limits=MaintenanceLimits(small_files=2))
    assert len(derived.active) == 1
    assert found_by(reader, derived.table) == changed
    derived.rebuild()
    assert found_by(reader, derived.table) == Counter()


@pytest.mark.parametrize("reader", READERS)
def test_each_reader_finds_older_rows_after_types_have_grown(tmp_path, reader):
    table = DerivedTable(str(tmp_path / "grown"), format=derived_iceberg(str(tmp_path / "grown")))
    narrow = {"type": "struct", "fields": [field("x", "float")]}
    wide = {"type": "struct", "fields": [field("x", "double"), field("y", "string")]}
    table.open_or_create("source", columns_of(id="integer", place=narrow), ())
    append(table, {"id": 1, "place": {"x": 0.5}})
    accept_columns(table.snapshot(), columns_of(id="long", place=wide, note="string"))
    append(table, {"id": 2**40, "place": {"x": 1.5, "y": "b"}, "note": "n"})
    rows = READERS[reader](iceberg_of(table), ("id", "place", "note"), None)
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "place": {"x": 0.5, "y": None}, "note": None},
        {"id": 2**40, "place": {"x": 1.5, "y": "b"}, "note": "n"},
    ]


def test_a_commit_whose_response_is_lost_is_made_once(derived, monkeypatch):
    original, left = SqlCatalog.commit_table, [OSError("connection reset")]

    def commit_table(catalog, *arguments):
        response = original(catalog, *arguments)
        if left:
            raise left.pop()
        return response

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    made = derived.append(*ROWS)
    assert derived.table.snapshot().newest == made
    assert derived.rows == Counter(ROWS)


def test_of_two_commits_onto_one_version_the_second_is_refused(derived):
    late = derived.planned([(2, 2, "b")])
    derived.append((1, 1, "a"))
    with pytest.raises(CursorConflict):
        late()
    assert derived.rows == Counter([(1, 1, "a")])


def test_each_commit_expires_all_but_the_newest_snapshots(derived):
    for number in range(SNAPSHOTS_KEPT + 2):
        derived.append((number, 0, "a"))
    assert len(iceberg_of(derived.table).snapshots()) == SNAPSHOTS_KEPT
    assert derived.rows.total() == SNAPSHOTS_KEPT + 2


def test_statistics_bound_the_files_of_a_batch(derived):
    first, second = derived.append(*ROWS[:2]), derived.append(ROWS[2])
    (file,) = [
        file
        for file in derived.table.snapshot().data_files([BATCH_COLUMN, "key", "part"])
        if Selection(only=frozenset([second.batch_id])).may_include(
            file.smallest[BATCH_COLUMN], file.greatest[BATCH_COLUMN]
        )
    ]
    assert first.batch_id != second.batch_id
    assert (file.smallest["key"], file.greatest["key"], file.nulls["part"]) == (3, 3, 1)


@pytest.mark.slow
def test_a_consumer_of_the_table_gets_each_row_once_whatever_is_compacted_and_expired(derived, tmp_path):
    below = PlainDerived(tmp_path / "below")
    for row in ROWS:
        derived.append(row)
        steps_of(derived, limits=MaintenanceLimits(small_files=2))
        foreign.expire_all_but_current(iceberg_of(derived.table))
        if row is not ROWS[1]:
            below.consume_all(derived)
    assert below.rows == Counter(ROWS)


def test_a_compaction_by_another_program_with_expiry_to_one_snapshot_harms_nothing(derived):
    derived.append(*ROWS)
    iceberg = iceberg_of(derived.table)
    foreign.expire_all_but_current(iceberg)
    derived.append((4, 40, "d"))
    assert derived.rows == Counter([*ROWS, (4, 40, "d")])


def test_a_rollback_is_refused_until_the_table_is_rebuilt(derived):
    derived.append(ROWS[0])
    snapshot_id = iceberg_of(derived.table).metadata.current_snapshot_id
    derived.append(ROWS[1])
    foreign.roll_back(iceberg_of(derived.table), snapshot_id)
    with pytest.raises(TableRewritten, match="rollback"):
        derived.append(ROWS[2])
    derived.rebuild()
    derived.append(ROWS[2])
    assert derived.rows == Counter([ROWS[2]])


@pytest.mark.slow
def test_a_rollback_is_refused_after_another_program_has_expired_its_traces(derived):
    derived.append(ROWS[0])
    snapshot_id = iceberg_of(derived.table).metadata.current_snapshot_id
    derived.append(ROWS[1])
    foreign.roll_back(iceberg_of(derived.table), snapshot_id)
    foreign.expire_all_but_current(iceberg_of(derived.table))
    with pytest.raises(TableRewritten, match="rollback"):
        derived.append(ROWS[2])


def test_a_vacuum_is_refused_if_the_catalog_was_restored(derived):
    for row in ROWS:
        derived.append(row)
    foreign.restore_catalog(iceberg_of(derived.table), 2)
    with pytest.raises(TableUnsuitable, match="commits that its catalog does not know"):
        steps_of(derived)


@pytest.mark.slow
def test_an_overwrite_by_pyiceberg_is_refused_until_the_table_is_rebuilt(derived):
    derived.append(*ROWS)
    iceberg = iceberg_of(derived.table)
    iceberg.overwrite(iceberg.scan().to_arrow())
    with pytest.raises(TableRewritten, match="overwrite"):
        derived.append((4, 40, "d"))
    derived.rebuild()
    derived.append((4, 40, "d"))


def test_an_upsert_that_replaces_all_files_is_no_overwrite_of_another_program(derived):
    derived.append(*ROWS)
    derived.upsert((1, 11, "a"))
    derived.append((4, 40, "d"))
    assert derived.rows == Counter([(1, 11, "a"), *ROWS[1:], (4, 40, "d")])


def test_a_source_with_rows_of_another_program_is_refused(derived):
    derived.append(*ROWS)
    iceberg = iceberg_of(derived.table)
    rows = pa.Table.from_pylist([{"key": 9, "value": 9, "part": "z"}], iceberg.schema().as_arrow())
    foreign.append(iceberg, rows)
    source = open_source(derived.table.uri, format=derived._format)
    with pytest.raises(TableUnsuitable, match=BATCH_COLUMN):
        source.ranked_files(Selection())


def test_a_column_that_another_program_renamed_is_refused_until_it_is_renamed_back(derived):
    derived.append(*ROWS)
    with iceberg_of(derived.table).update_schema() as update:
        update.rename_column("value", "amount")
    with pytest.raises(TableUnsuitable, match="amount, which was called value"):
        open_source(derived.table.uri, format=derived._format)
    with iceberg_of(derived.table).update_schema() as update:
        update.rename_column("amount", "value")
    derived.append((4, 40, "d"))
    assert open_source(derived.table.uri, format=derived._format).schema["fields"][1]["name"] == "value"
    assert derived.rows == Counter([*ROWS, (4, 40, "d")])


def test_a_part_of_a_column_that_another_program_renamed_is_refused(tmp_path):
    path = str(tmp_path / "orders")
    table = DerivedTable(path, format=derived_iceberg(path))
    place = {"type": "struct", "fields": [field("x", "long")]}
    table.open_or_create("source", columns_of(place=place), ())
    append(table, {"place": {"x": 1}})
    with iceberg_of(table).update_schema() as update:
        update.rename_column("place.x", "y")
    with pytest.raises(TableUnsuitable, match=r"place\.y, which was called place\.x"):
        open_source(path, format=derived_iceberg(path))


def test_a_column_of_another_program_is_null_in_new_rows(derived):
    foreign.add_column(iceberg_of(derived.table), "note", StringType())
    derived.append(*ROWS)
    assert iceberg_of(derived.table).scan().to_arrow()["note"].null_count == len(ROWS)


def test_a_column_of_another_program_with_another_type_is_refused(derived):
    foreign.add_column(iceberg_of(derived.table), "uuid", UUIDType())
    with pytest.raises(TableUnsuitable, match="the column uuid has the type uuid"):
        derived.append(*ROWS)


@pytest.mark.parametrize("name", ["order-id", "1st"])
def test_a_column_is_refused_that_other_programs_call_otherwise_in_files(derived, name):
    """They would write it under another name, and it would be null once the file is read by name."""
    with pytest.raises(InvalidInput, match=f"the column {name} would be called "):
        derived.table.format.storable(columns_of(**{name: "long"}))
    foreign.add_column(iceberg_of(derived.table), name, StringType())
    with pytest.raises(TableUnsuitable, match=f"the column {name}, which other programs call "):
        derived.append(*ROWS)


def test_a_part_of_a_column_is_refused_that_other_programs_call_otherwise_in_files(derived):
    place = {"type": "struct", "fields": [field("x-y", "long")]}
    with pytest.raises(InvalidInput, match=r"the column place\.x-y would be called place\.x_x2Dy"):
        derived.table.format.storable(columns_of(place=place))


def test_a_table_that_was_not_created_as_a_derived_one_is_refused(tmp_path):
    path = str(tmp_path / "orders")
    table = DerivedTable(path, format=derived_iceberg(path))
    with pytest.raises(TableUnsuitable, match="not created as a derived table"):
        table.format.create({}, columns_of(key="long"), ())


def test_a_decimal_with_another_scale_is_refused(tmp_path):
    path = str(tmp_path / "orders")
    table = DerivedTable(path, format=derived_iceberg(path))
    snapshot = table.open_or_create("source", columns_of(price="decimal(6,2)"), ())
    with pytest.raises(SchemaChangeRefused, match=r"price has the type decimal\(6,2\)"):
        accept_columns(snapshot, columns_of(price="decimal(7,3)"))
    accept_columns(snapshot, columns_of(price="decimal(9,2)"))
    assert table.snapshot().schema == columns_of(price="decimal(9,2)")


def test_files_with_ids_that_another_run_has_given_to_others_are_written_again(derived):
    table = derived.table
    mine = columns_of(key="long", value="long", part="string", mine="string")
    written = table.format.file_schema(mine, table.snapshot())
    accept_columns(table.snapshot(), columns_of(other="string"))
    accept_columns(table.snapshot(), mine)
    with pytest.raises(UpsertOvertaken):
        refuse_other_types(table.snapshot(), written)
    refuse_other_types(table.snapshot(), table.snapshot().file_schema)


def test_an_empty_table_gets_columns_of_other_types_with_the_commit(derived):
    derived.append(*ROWS)
    derived.rebuild()
    base = derived.table.snapshot()
    columns = columns_of(key="string", at="timestamp")
    commit(
        derived.table,
        Attempt(cursor=Cursor(source="source"), batch_id=new_id()),
        expected=base.commit_id,
        base=base,
        columns=columns,
    )
    assert derived.table.snapshot().schema == columns
    append(derived.table, {"key": "a", "at": datetime(2026, 1, 2, tzinfo=UTC)})
    (row,) = iceberg_of(derived.table).scan().to_arrow().to_pylist()
    assert (row["key"], row["at"]) == ("a", datetime(2026, 1, 2, tzinfo=UTC))


@pytest.mark.slow
def test_a_compaction_is_made_again_if_another_commit_replaced_its_files(derived, monkeypatch):
    derived.append(*ROWS[:2])
    derived.append(ROWS[2])
    original, left = SqlCatalog.commit_table, [lambda: derived.upsert((1, 11, "a"), (3, 31, "c"))]

    def commit_table(catalog, *arguments):
        if left:
            left.pop()()
        return original(catalog, *arguments)

    monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
    step = steps_of(derived, limits=MaintenanceLimits(small_files=2))["compact", "data files"]
    assert step.state is State.DONE
    assert derived.rows == Counter([(1, 11, "a"), ROWS[1], (3, 31, "c")])


@pytest.mark.slow
def test_maintenance_deletes_rows_by_their_age_and_names_them_for_consumers(tmp_path):
    path = str(tmp_path / "orders")
    table = DerivedTable(path, format=derived_iceberg(path))
    table.open_or_create("source", columns_of(day="date", at="timestamp"), ())
    now = datetime.now(UTC)
    for days in ((90, 1), (80,)):
        append(
            table, *({"day": (now - timedelta(days)).date(), "at": now - timedelta(days)} for days in days)
        )
    for column in ("day", "at"):
        steps = list(maintain(table, now, retention=Retention(column, 30), machine=lambda: now))
        rows = iceberg_of(table).scan().to_arrow()[column].to_pylist()
        assert len(rows) == 1, steps
    newest = table.snapshot().newest
    assert newest is not None
    assert newest.floor is not None
    assert newest.floor.rows == 2
    source = open_source(path, format=derived_iceberg(path))
    assert source.expired_rows == 2


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
@pytest.mark.slow
def test_maintenance_deletes_rows_by_their_age_from_a_file_that_another_program_wrote(tmp_path, kind):
    path = str(tmp_path / "orders")
    table = DerivedTable(path, format=derived_iceberg(path))
    table.open_or_create("source", columns_of(key="long", at=kind), ())
    now = datetime.now(UTC)
    for key, days in enumerate((40, 1)):
        at = now - timedelta(days)
        values = {"date": at.date(), "timestamp": at, "timestamp_ntz": at.replace(tzinfo=None)}
        append(table, {"key": key, "at": values[kind]})
    foreign.compact(iceberg_of(table))
    list(maintain(table, now, retention=Retention("at", 30), machine=lambda: now))
    assert iceberg_of(table).scan().to_arrow()["key"].to_pylist() == [1]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_bound_that_another_program_wrote_is_unknown_if_it_is_after_the_year_9999(tmp_path, kind):
    path = str(tmp_path / "orders")
    table = DerivedTable(path, format=derived_iceberg(path))
    table.open_or_create("source", columns_of(at=kind), ())
    iceberg = iceberg_of(table)
    field_id = iceberg.schema().find_field("at").field_id
    file = IcebergFile.from_args(
        file_path=f"{iceberg.location()}/x.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        lower_bounds={field_id: bytes(8)},
        upper_bounds={field_id: b"\x7f" * 8},
    )
    file.spec_id = 0
    found = table_file(path, iceberg, file, ["at"])
    assert found.smallest["at"].year == 1970
    assert found.greatest["at"] is None


def test_maintenance_deletes_files_that_no_snapshot_names_after_a_week(derived):
    derived.append(*ROWS)
    _, unnamed = write(derived.table, [{"key": 1}])
    set_age(derived.table, timedelta(days=8), *files_of(derived.table))
    step = steps_of(derived)["vacuum", "data files and metadata"]
    assert step.state is State.DONE
    assert unnamed.files[0].path not in files_of(derived.table)
    derived.append((4, 4, "d"))
    assert derived.rows == Counter([*ROWS, (4, 4, "d")])


def test_a_rollback_is_no_compaction(derived):
    derived.append(*ROWS[:2])
    derived.append(ROWS[2])
    base = derived.table.snapshot()
    foreign.roll_back(iceberg_of(derived.table), base.iceberg.snapshots()[0].snapshot_id)
    assert not derived.table.snapshot().is_compacted_since(base.version)


def test_a_commit_without_rows_is_no_compaction(derived):
    derived.append(*ROWS)
    base = derived.table.snapshot().version
    assert derived.table.snapshot().is_compacted_since(base)
    derived.append()
    assert not derived.table.snapshot().is_compacted_since(base)
