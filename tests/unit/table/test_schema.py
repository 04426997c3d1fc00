"""The columns that definitions show."""

from __future__ import annotations

from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.schema import COLUMNS


def test_definitions_show_the_columns_that_the_table_has():
    assert list(COLUMNS) == [(field.name, str(field.type), field.nullable) for field in TABLE_SCHEMA]
