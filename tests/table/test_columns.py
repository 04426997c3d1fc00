"""The columns that definitions show."""

from __future__ import annotations

from kinesis_assets.table.columns import COLUMNS
from kinesis_assets.table.files import TABLE_SCHEMA


def test_definitions_show_the_columns_that_the_table_has():
    assert list(COLUMNS) == [(field.name, str(field.type), field.nullable) for field in TABLE_SCHEMA]
