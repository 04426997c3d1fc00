"""The types and ids of the columns of derived Iceberg tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import NestedField, UUIDType

from kinesis_assets.table.column_schemas import arrow_schema
from kinesis_assets.table.iceberg.columns import columns_of, evolved, grows, storable, with_ids

TYPES = (
    "string",
    "long",
    "integer",
    "float",
    "double",
    "boolean",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(10,2)",
)


def field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct(**types):
    return {"type": "struct", "fields": [field(name, kind) for name, kind in types.items()]}


def array(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def map_of(kind):
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


NESTED = struct(
    items=array(struct(sku="string", counts=map_of(struct(day="date")))),
    id="integer",
    place=struct(x="double", tags=array("string")),
)


@pytest.mark.parametrize(
    "kind", [*TYPES, struct(a="long"), array("date"), map_of(struct(b="string"))], ids=str
)
def test_columns_are_those_that_the_table_was_created_with(kind):
    columns = struct(value=kind)
    assert columns_of(evolved(None, columns)) == columns


def test_a_new_table_gets_the_ids_that_catalogs_assign():
    schema = evolved(None, NESTED)
    assert schema == assign_fresh_schema_ids(schema)


def test_columns_and_parts_keep_their_ids_while_their_types_grow():
    before = evolved(None, struct(id="integer", place=struct(x="float"), items=array(struct(sku="string"))))
    grown = struct(
        new="string",
        id="long",
        place=struct(x="double", y="double"),
        items=array(struct(sku="string", price="decimal(4,2)")),
    )
    after = evolved(before, grown, last_id=before.highest_field_id)
    kept = {name: after.find_field(name).field_id for name in before.column_names}
    assert kept == {name: before.find_field(name).field_id for name in before.column_names}
    new = {after.find_field(name).field_id for name in ("new", "place.y", "items.element.price")}
    assert new == {number + before.highest_field_id for number in (1, 2, 3)}
    assert columns_of(after) == grown


def test_a_column_that_was_dropped_comes_back_with_another_id():
    first = evolved(None, struct(a="string", b="string"))
    without = evolved(first, struct(a="string"), last_id=2)
    again = evolved(without, struct(a="string", b="string"), last_id=2)
    assert again.find_field("b").field_id == 3


def test_a_column_with_an_unrelated_type_gets_another_id():
    before = evolved(None, struct(a="string"))
    assert evolved(before, struct(a="long"), last_id=1).find_field("a").field_id == 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("integer", "long", True),
        ("long", "integer", False),
        ("float", "double", True),
        ("decimal(4,2)", "decimal(6,2)", True),
        ("decimal(4,2)", "decimal(6,3)", False),
        ("date", "timestamp", False),
        (array("integer"), array("long"), True),
        (map_of("integer"), map_of("string"), False),
        (struct(a="integer"), struct(b="string", a="long"), True),
        (struct(a="decimal(4,2)"), struct(a="decimal(6,3)"), False),
        (struct(a="integer"), array("integer"), False),
    ],
    ids=str,
)
def test_types_grow_as_the_specification_allows(old, new, expected):
    assert grows(old, new) is expected


def test_types_that_iceberg_lacks_are_widened_at_any_depth():
    narrow = struct(a="byte", b=array(struct(c="short")), m=map_of("byte"), s="string")
    wide = struct(a="integer", b=array(struct(c="integer")), m=map_of("integer"), s="string")
    assert storable(narrow) == wide


def test_files_have_the_ids_of_all_parts(tmp_path):
    schema = evolved(None, NESTED)
    columns = with_ids(arrow_schema(NESTED), schema)
    pq.write_table(columns.empty_table(), tmp_path / "file.parquet")
    found = pq.read_schema(tmp_path / "file.parquet")

    def ids(fields):
        for each in fields:
            yield int(each.metadata[b"PARQUET:field_id"])
            yield from ids(parts(each.type))

    def parts(kind):
        if pa.types.is_map(kind):
            return [kind.key_field, kind.item_field]
        if pa.types.is_list(kind):
            return [kind.value_field]
        return list(kind) if pa.types.is_struct(kind) else []

    assert sorted(ids(found)) == sorted(schema._lazy_id_to_field)


def test_a_type_of_another_program_is_named():
    schema = Schema(NestedField(1, "key", UUIDType(), required=False))
    with pytest.raises(ValueError, match="the column key has the type uuid"):
        columns_of(schema)
