"""Casts rows to the columns of a table, also the fields of structs, which Spark casts only in their order.

`upsert`, which compares rows of a table with new ones, and `write` share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def conformed(rows: DataFrame, schema: Mapping[str, Any]) -> DataFrame:
    """Return rows whose columns have the types of those of a table, where it has them.

    Args:
        schema: The columns of the table, as in Delta's metadata. They hold all values of the rows, see
            `column_types.grown`.
    """
    wanted = {field.name: field.dataType for field in StructType.fromJson(dict(schema))}
    changed = {
        field.name: conformed_column(F.col(f"`{field.name}`"), field.dataType, wanted[field.name])
        for field in rows.schema
        if field.name in wanted and field.dataType.simpleString() != wanted[field.name].simpleString()
    }
    return rows.withColumns(changed) if changed else rows


def conformed_column(values: Column, kind: DataType, wanted: DataType) -> Column:
    """Return values of one type as those of another. Fields that they lack are null."""
    if kind.simpleString() == wanted.simpleString():
        return values.cast(wanted)
    if isinstance(kind, StructType) and isinstance(wanted, StructType):
        found = {field.name: field.dataType for field in kind}
        fields = [
            conformed_column(values.getField(field.name), found[field.name], field.dataType)
            if field.name in found
            else F.lit(None).cast(field.dataType)
            for field in wanted
        ]
        named = (column.alias(field.name) for column, field in zip(fields, wanted, strict=True))
        return F.when(values.isNotNull(), F.struct(*named))
    if isinstance(kind, ArrayType) and isinstance(wanted, ArrayType):
        part, wanted_part = kind.elementType, wanted.elementType
        return F.transform(values, lambda value: conformed_column(value, part, wanted_part))
    if isinstance(kind, MapType) and isinstance(wanted, MapType):
        part, wanted_part = kind.valueType, wanted.valueType
        return F.transform_values(values, lambda _, value: conformed_column(value, part, wanted_part))
    return values.cast(wanted)
