"""The columns of Iceberg tables, raw and derived, and the partitioning and the properties of a raw one.

The partition of a raw table is the day of arrival, by a transform of Iceberg. So `arrival_date` is the name
of a partition and not of a column: no reader looks for it in the files.

Readers find a column in a file by its id. So each file of a derived table has the ids of the table, at any
depth, and a column keeps its id while its type grows by Iceberg's evolution. Elsewhere the columns are as in
Delta's metadata.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.transforms import DayTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from kinesis_assets.table.column_schemas import schema_of
from kinesis_assets.table.data_file import (
    FIELD_ID,
    FIELD_IDS,
    FILE_SCHEMA_WITH_IDS,
    PARTITION_COLUMNS,
    TABLE_SCHEMA,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.types import IcebergType

SCHEMA = pyarrow_to_schema(FILE_SCHEMA_WITH_IDS)
"""The columns of a raw table, which are those of its files."""

TYPES = {
    field.name: field.field_type for field in SCHEMA.fields if isinstance(field.field_type, PrimitiveType)
}
"""The type of each of these columns, by name."""

READ_SCHEMA = schema_of(TABLE_SCHEMA)
"""The columns with which consumers read the rows, as in the metadata of a raw Delta table: also the date."""

_ARRIVAL = "approximate_arrival_timestamp"

PARTITIONING = PartitionSpec(
    PartitionField(
        source_id=FIELD_IDS[_ARRIVAL],
        field_id=PARTITION_FIELD_ID_START,
        transform=DayTransform(),
        name=PARTITION_COLUMNS[0],
    )
)
"""That of a raw table: by day of arrival, UTC."""

COPY_ON_WRITE = {f"write.{name}.mode": "copy-on-write" for name in ("delete", "update", "merge")}
"""The properties with which no file deletes rows of others. Files are read one by one."""

PROPERTIES = {
    "write.metadata.metrics.default": "none",
    # Replay and doctor skip files by these statistics. Engines that compact the table keep them.
    **{f"write.metadata.metrics.column.{name}": "full" for name in ("shard_id", _ARRIVAL, "batch_id")},
    **COPY_ON_WRITE,
}
"""The properties of a new raw table."""


def difference(schema: Schema, partitioning: PartitionSpec) -> Sequence[str]:
    """Return what of the columns and the partition a raw table lacks, or has with another type or id."""
    found = {field.name: (field.field_id, field.field_type) for field in schema.fields}
    wrong = [name for name, kind in TYPES.items() if found.get(name) != (FIELD_IDS[name], kind)]
    fields = [(field.source_id, str(field.transform)) for field in partitioning.fields]
    wanted = [(field.source_id, str(field.transform)) for field in PARTITIONING.fields]
    return wrong if fields == wanted else [*wrong, "the partition by day of arrival"]


_PRIMITIVES: Mapping[str, IcebergType] = {
    "string": StringType(),
    "long": LongType(),
    "integer": IntegerType(),
    "float": FloatType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
"""The types without parts, but decimals, by their name in Delta's metadata."""

_NAMES = {str(kind): name for name, kind in _PRIMITIVES.items()}

_NARROW = {"byte": "integer", "short": "integer"}
"""The types that Iceberg lacks, and those that hold their values."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


_PARTS = {"array": ("elementType",), "map": ("keyType", "valueType")}


def storable(kind: Any) -> Any:
    """Return a type as in Delta's metadata with wider types in place of those that Iceberg lacks."""
    if isinstance(kind, str):
        return _NARROW.get(kind, kind)
    if kind["type"] == "struct":
        return kind | {"fields": [field | {"type": storable(field["type"])} for field in kind["fields"]]}
    return kind | {part: storable(kind[part]) for part in _PARTS[kind["type"]]}


def columns_of(schema: Schema) -> dict[str, Any]:
    """Return the columns of a table as in Delta's metadata.

    Raises:
        ValueError: A column has a type of another program.
    """
    return {"type": "struct", "fields": [_field_of(field) for field in schema.fields]}


def _field_of(field: NestedField) -> dict[str, Any]:
    try:
        kind = _kind_of(field.field_type)
    except KeyError:
        raise ValueError(f"the column {field.name} has the type {field.field_type}") from None
    return {"name": field.name, "type": kind, "nullable": field.optional, "metadata": {}}


def _kind_of(kind: IcebergType) -> Any:
    if isinstance(kind, StructType):
        return {"type": "struct", "fields": [_field_of(field) for field in kind.fields]}
    if isinstance(kind, ListType):
        element, nulls = _kind_of(kind.element_type), not kind.element_required
        return {"type": "array", "elementType": element, "containsNull": nulls}
    if isinstance(kind, MapType):
        parts = {"keyType": _kind_of(kind.key_type), "valueType": _kind_of(kind.value_type)}
        return {"type": "map", **parts, "valueContainsNull": not kind.value_required}
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES[str(kind)]


def other_name(schema: Schema) -> tuple[str, str] | None:
    """Return a column, or a part of one, that writers of Iceberg call otherwise in files; and how.

    They do so if its name has other characters than letters, digits and underscores, or begins with a digit.
    None if there is no such column.
    """
    in_files = sanitize_column_names(schema).column_names
    pairs = zip(schema.column_names, in_files, strict=True)
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def evolved(before: Schema | None, columns: Mapping[str, Any], *, last_id: int = 0) -> Schema:
    """Return the schema of a table that gets some columns, all of which accept null.

    A column, or a part of one, keeps its id if its type is the same or can grow to the new one. Others get
    new ids, in the order in which catalogs assign those of a new table.

    Args:
        before: The present schema; None for a new table.
        columns: All columns that the table has afterwards, as in Delta's metadata.
        last_id: The greatest id that the table has ever assigned.
    """
    old = None if before is None else before.as_struct()
    struct = _struct(columns["fields"], old, count(last_id + 1))
    return Schema(*struct.fields)


def _struct(fields: Sequence[Mapping[str, Any]], before: StructType | None, ids: Iterator[int]) -> StructType:
    old = {field.name: field for field in (() if before is None else before.fields)}
    kept = {
        field["name"]: old[field["name"]]
        for field in fields
        if field["name"] in old and grows(_kind_of(old[field["name"]].field_type), field["type"])
    }
    new = {field["name"]: next(ids) for field in fields if field["name"] not in kept}
    return StructType(
        *(
            NestedField(
                field_id=kept[name].field_id if name in kept else new[name],
                name=name,
                field_type=_typed(field["type"], kept[name].field_type if name in kept else None, ids),
                required=False,
            )
            for field in fields
            for name in [field["name"]]
        )
    )


def _typed(kind: Any, before: IcebergType | None, ids: Iterator[int]) -> IcebergType:
    if isinstance(kind, str):
        decimal = _DECIMAL.fullmatch(kind)
        return DecimalType(int(decimal[1]), int(decimal[2])) if decimal else _PRIMITIVES[kind]
    if kind["type"] == "struct":
        return _struct(kind["fields"], before if isinstance(before, StructType) else None, ids)
    if kind["type"] == "array":
        of = before if isinstance(before, ListType) else None
        element_id = next(ids) if of is None else of.element_id
        element = _typed(kind["elementType"], None if of is None else of.element_type, ids)
        return ListType(element_id=element_id, element=element, element_required=False)
    pairs = before if isinstance(before, MapType) else None
    key_id, value_id = (next(ids), next(ids)) if pairs is None else (pairs.key_id, pairs.value_id)
    return MapType(
        key_id=key_id,
        key_type=_typed(kind["keyType"], None if pairs is None else pairs.key_type, ids),
        value_id=value_id,
        value_type=_typed(kind["valueType"], None if pairs is None else pairs.value_type, ids),
        value_required=False,
    )


def grows(old: Any, new: Any) -> bool:
    """Return whether a type can become another one without rewriting files (Iceberg, "Schema Evolution").

    Both are as in Delta's metadata.
    """
    if isinstance(old, str) or isinstance(new, str):
        return old == new or (old, new) in _GROWTH or _is_longer_decimal(old, new)
    if old["type"] != new["type"]:
        return False
    if old["type"] == "struct":
        found = {field["name"]: field["type"] for field in new["fields"]}
        return all(
            grows(field["type"], found[field["name"]]) for field in old["fields"] if field["name"] in found
        )
    return all(grows(old[part], new[part]) for part in _PARTS[old["type"]])


_GROWTH = {("integer", "long"), ("float", "double")}


def _is_longer_decimal(old: Any, new: Any) -> bool:
    narrow, wide = (_DECIMAL.fullmatch(kind) if isinstance(kind, str) else None for kind in (old, new))
    return narrow is not None and wide is not None and wide[2] == narrow[2] and int(wide[1]) >= int(narrow[1])


def with_ids(columns: pa.Schema, schema: Schema) -> pa.Schema:
    """Return columns of Arrow with the ids of those of a table, so that files have them."""
    return pa.schema([_with_id(field, schema.find_field(field.name)) for field in columns])


def _with_id(field: pa.Field, found: NestedField) -> pa.Field:
    return pa.field(
        field.name, _with_ids(field.type, found.field_type), field.nullable, {FIELD_ID: str(found.field_id)}
    )


def _with_ids(kind: pa.DataType, found: IcebergType) -> pa.DataType:
    if isinstance(found, StructType):
        fields = {field.name: field for field in found.fields}
        return pa.struct([_with_id(field, fields[field.name]) for field in kind])
    if isinstance(found, ListType):
        return pa.list_(_with_id(kind.value_field, found.element_field))
    if isinstance(found, MapType):
        return pa.map_(
            _with_id(kind.key_field, found.key_field), _with_id(kind.item_field, found.value_field)
        )
    return kind
