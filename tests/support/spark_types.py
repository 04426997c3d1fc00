"""Types of Spark without a JVM, which would parse DDL."""

from __future__ import annotations

import re

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

_FIELD = re.compile(r"(`[^`]+`|[^\s:]+):? (.+?)( not null)?")
_NESTED = re.compile(r"(array|map|struct)<(.+)>")


def spark_type(ddl: str) -> DataType:
    """Return the type for DDL such as `long`, `array<int>` or `order_id long not null, amount double`."""
    if nested := _NESTED.fullmatch(ddl):
        kind, inner = nested.groups()
        if kind == "struct":
            return spark_type(inner)
        types = [spark_type(part) for part in _parts(inner)]
        return ArrayType(*types) if kind == "array" else MapType(*types)
    fields = [_FIELD.fullmatch(part) for part in _parts(ddl)]
    struct = StructType()
    if fields == [None]:
        return struct.add("value", "integer" if ddl == "int" else ddl)["value"].dataType
    for field in fields:
        assert field is not None, ddl
        struct.add(field[1].strip("`"), spark_type(field[2]), nullable=field[3] is None)
    return struct


def _parts(text: str) -> list[str]:
    """Split at the commas that are not within brackets."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
