"""The entries of the setting `partition_by`."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.partition_field import PartitionField


@pytest.mark.parametrize(
    ("entry", "text", "name"),
    [
        ("at", "at", "at"),
        ("größe", "größe", "größe"),
        ("year(at)", "year(at)", "at_year"),
        ("hour( at )", "hour(at)", "at_hour"),
        ("bucket(16,id)", "bucket(16, id)", "id_bucket"),
        ("truncate( 4 , name )", "truncate(4, name)", "name_trunc"),
    ],
)
def test_an_entry_is_a_column_or_a_transform_and_names_the_partition_as_iceberg_does(entry, text, name):
    field = PartitionField.parse(entry)
    assert (str(field), field.name) == (text, name)
    assert PartitionField.parse(text) == field


INVALID = "days(at)|Day(at)|day()|day(a, b)|day(at) |bucket(id)|bucket(0, id)|bucket(16)|day(day(at))"


@pytest.mark.parametrize("entry", INVALID.split("|"))
def test_an_invalid_transform_is_refused(entry):
    with pytest.raises(InvalidInput, match="partition_by: invalid transform"):
        PartitionField.parse(entry)


@pytest.mark.parametrize(
    ("entry", "accepted", "refused"),
    [
        (
            "x",
            ["string", "BIGINT", "byte", "DATE"],
            ["timestamp", "DECIMAL(4, 2)", "boolean", {"type": "struct"}],
        ),
        ("day(x)", ["date", "TIMESTAMP", "timestamp_ntz"], ["string", "long"]),
        ("hour(x)", ["timestamp", "TIMESTAMP_NTZ"], ["DATE"]),
        ("bucket(4, x)", ["decimal(4,2)", "BINARY", "integer", "DATE"], ["double", "BOOLEAN", "ARRAY<INT>"]),
        ("truncate(4, x)", ["DECIMAL(4, 2)", "string", "SMALLINT", "binary"], ["date", "timestamp"]),
    ],
)
def test_a_transform_accepts_the_types_that_iceberg_has_for_it(entry, accepted, refused):
    field = PartitionField.parse(entry)
    assert [kind for kind in [*accepted, *refused] if field.refusal_of(kind) is None] == accepted
