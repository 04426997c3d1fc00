"""The columns in Dagster definitions."""

from __future__ import annotations

from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.schema import COLUMNS


def test_columns_of_definitions_match_the_table_schema():
    columns = [(column.name, column.nullable) for column in COLUMNS]
    assert columns == [(field.name, field.nullable) for field in TABLE_SCHEMA]


def test_every_column_has_a_description():
    assert [column.name for column in COLUMNS if not column.description.endswith(".")] == []
