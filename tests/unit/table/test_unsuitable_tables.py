"""Tables that do not exist, cannot be opened, or have another schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from kinesis_assets.errors import TableMissing, TableUnreachable, TableUnsuitable
from kinesis_assets.table.data_file import TABLE_SCHEMA
from support.attempts import Attempt, freeze_all, rows_by_shard, shards
from support.formats import FORMATS, table_of
from support.timing import WRITING


def test_a_table_with_another_schema_is_unsuitable(table):
    schema = Schema.from_arrow(pa.schema([pa.field("id", pa.int64())]))
    DeltaTable.create(table.uri, schema)
    with pytest.raises(TableUnsuitable, match=": stream, shard_id"):
        freeze_all(table, shards("a"))


@pytest.mark.parametrize("column", ["data", "batch_id"])
def test_a_table_with_a_column_of_another_type_is_unsuitable(table, column):
    index = TABLE_SCHEMA.get_field_index(column)
    DeltaTable.create(
        table.uri,
        Schema.from_arrow(TABLE_SCHEMA.set(index, pa.field(column, pa.string()))),
        partition_by=["arrival_date"],
    )
    with pytest.raises(TableUnsuitable, match=rf": {column}\b"):
        freeze_all(table, shards("a"))


def test_a_table_with_another_partitioning_is_unsuitable(table):
    DeltaTable.create(table.uri, Schema.from_arrow(TABLE_SCHEMA), partition_by=["shard_id"])
    with pytest.raises(TableUnsuitable, match="partition column"):
        freeze_all(table, shards("a"))


def test_additional_columns_are_kept(table):
    schema = TABLE_SCHEMA.append(pa.field("note", pa.string()))
    DeltaTable.create(table.uri, Schema.from_arrow(schema), partition_by=["arrival_date"])
    frozen = freeze_all(table, shards("a"))
    Attempt(table, frozen, {"a": 2}).commit()
    assert rows_by_shard(table) == {"a": [1, 2]}


@pytest.mark.parametrize("format_", FORMATS)
def test_a_table_of_another_format_is_refused_and_left_as_it_is(tmp_path, format_):
    uri = str(tmp_path / "table")
    freeze_all(table_of(format_, uri, WRITING), shards("a"))
    (other,) = {*FORMATS} - {format_}
    before = {*tmp_path.rglob("*")}
    with pytest.raises(TableUnsuitable, match=rf"is an? {format_.capitalize()} table"):
        table_of(other, uri, WRITING, name="other").create_if_missing()
    assert {*Path(uri).rglob("*")} <= before


def test_a_missing_table_raises_table_missing(table):
    with pytest.raises(TableMissing, match=table.uri):
        table.snapshot()


@pytest.mark.usefixtures("frozen")
def test_a_truncated_log_entry_raises_table_unreachable(table):
    Path(table.uri, "_delta_log", f"{0:020}.json").write_text("{")
    with pytest.raises(TableUnreachable):
        table.snapshot()
