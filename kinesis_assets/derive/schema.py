"""The columns of a derived table: those of a DataFrame, and their changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.derive.derived_table import REBUILD_COMMAND
from kinesis_assets.errors import CommitOvertaken, InvalidInput, SchemaChangeRefused, UpsertOvertaken
from kinesis_assets.table.schema import refusal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kinesis_assets.derive.derived_table import DerivedSnapshot

_PARTITION_TYPES = {"string", "date", "byte", "short", "integer", "long"}

_TYPE = re.compile(
    r"string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\)"
)
"""The types of the Delta protocol without parts."""

_WIDER = {
    "byte": {"short", "integer", "long"},
    "short": {"integer", "long"},
    "integer": {"long"},
    "float": {"double"},
}
"""By type, the wider types of a table's column that hold all of its values."""


def table_schema(
    table: str, rows: DataFrame, partition_by: Sequence[str], key: Sequence[str]
) -> dict[str, Any]:
    """Return the schema of a derived table for the rows that a transformation returned.

    Every column accepts null, because a later version of the transformation may leave it out.

    Args:
        table: The table's URI, for errors.
        key: The columns of the key.

    Raises:
        InvalidInput: A column is missing, has the name of the batch id, or has a type that the table cannot
            have.
    """
    fields: list[dict[str, Any]] = json.loads(rows.schema.json())["fields"]
    types = {field["name"]: field["type"] for field in fields}
    _check_names(table, [field["name"] for field in fields])
    if missing := [name for name in (*partition_by, *key) if name not in types]:
        raise InvalidInput(
            f"table {table}: the transformation does not return {', '.join(missing)}, which a setting names "
            f"(partition_by, key, order_by or by). It returns {', '.join(types)}. Return it, or correct the "
            "setting"
        )
    for name, kind in types.items():
        if kind == "void":
            raise InvalidInput(f"table {table}: the column {name} has no type; cast it")
        if not _is_storable(kind):
            raise InvalidInput(
                f"table {table}: the column {name} has the type {_text(kind)}, which Delta tables do not "
                "have; cast it"
            )
        if twice := _twice(kind):
            raise InvalidInput(
                f"table {table}: the column {name} has the fields {', '.join(twice)}, whose names differ "
                "only by case, which Delta tables ignore; rename one"
            )
        if name in key and not isinstance(kind, str):
            raise InvalidInput(
                f"table {table}: the column {name} has the type {_text(kind)}, whose values cannot be "
                "compared; use its parts"
            )
        if name in partition_by and not (isinstance(kind, str) and kind in _PARTITION_TYPES):
            raise InvalidInput(
                f"table {table}: the partition column {name} has the type {_text(kind)}; use a text, a "
                "date or an integer"
            )
    columns = [{**field, "nullable": True, "metadata": {}} for field in fields]
    batch_id = {"name": BATCH_COLUMN, "type": "long", "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [*columns, batch_id]}


def _check_names(table: str, names: Sequence[str]) -> None:
    """Check that columns can have some names. Their case does not distinguish them in Spark and Delta.

    Raises:
        InvalidInput: They cannot.
    """
    counts = Counter(name.lower() for name in names)
    for name in names:
        if counts[name.lower()] > 1:
            raise InvalidInput(f"table {table}: the transformation returns {name} twice; rename the column")
        if (refusal := refusal_of(name)) is not None:
            raise InvalidInput(
                f"table {table}: the transformation returns {name!r}, which no column can be called: the "
                f"name {refusal}; rename the column"
            )


def _is_storable(kind: Any) -> bool:
    """Return whether a type, as in Spark's JSON, is one of Delta."""
    if isinstance(kind, str):
        return _TYPE.fullmatch(kind) is not None
    if kind["type"] == "struct":
        return all(_is_storable(field["type"]) for field in kind["fields"])
    parts = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(kind["type"])
    return parts is not None and all(_is_storable(kind[part]) for part in parts)


def _twice(kind: Any) -> list[str]:
    """Return fields of a struct in a type, as in Spark's JSON, whose names differ only by case; if any."""
    if isinstance(kind, str):
        return []
    fields = kind.get("fields", ())
    counts = Counter(field["name"].lower() for field in fields)
    twice = [field["name"] for field in fields if counts[field["name"].lower()] > 1]
    parts = [field["type"] for field in fields]
    parts += [kind[part] for part in ("elementType", "keyType", "valueType") if part in kind]
    return twice or next(filter(None, map(_twice, parts)), [])


def accept_columns(snapshot: DerivedSnapshot, wanted: dict[str, Any]) -> None:
    """Add the columns to a table that new rows have and the table lacks.

    A column of the table that new rows lack becomes null in them. A value of a narrower type is widened.

    Args:
        snapshot: The newest version of the table.
        wanted: The schema of the new rows, see `table_schema`.

    Raises:
        SchemaChangeRefused: A column has another type in the table.
        TableNotWritable: Writing is refused.
        TableUnreachable: The columns cannot be added at present.
    """
    new = _new_columns(snapshot, wanted)
    if not new:
        return
    try:
        snapshot.add_columns(new)
    except CommitOvertaken:
        accept_columns(snapshot.table.snapshot(), wanted)  # another run may have added the same ones


def accepted_schema(snapshot: DerivedSnapshot | None, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that a table will have after `accept_columns`. Raises its errors.

    Args:
        snapshot: The newest version of the table; None if it does not exist.
        wanted: The schema of the new rows.
    """
    if snapshot is None:
        return wanted
    fields = [*snapshot.schema["fields"], *_new_columns(snapshot, wanted)]
    return {"type": "struct", "fields": fields}


def _new_columns(snapshot: DerivedSnapshot, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    present = {field["name"]: field["type"] for field in snapshot.schema["fields"]}
    spelled = {name.lower(): name for name in present}
    new = []
    for field in wanted["fields"]:
        name, kind = field["name"], field["type"]
        if spelled.get(name.lower(), name) != name:
            raise SchemaChangeRefused(
                snapshot.table.uri,
                f"the column {spelled[name.lower()]} is called {name} in the new rows. Nothing was "
                "written. Give it the same name",
            )
        if name not in present:
            new.append(field)
        elif present[name] != kind and not (
            isinstance(kind, str) and isinstance(present[name], str) and present[name] in _WIDER.get(kind, ())
        ):
            raise SchemaChangeRefused(
                snapshot.table.uri,
                f"the column {name} has the type {_text(present[name])}, and the new rows have "
                f"{_text(kind)}. Nothing was written. Cast it in the transformation, give it another name, "
                f"or run {REBUILD_COMMAND} to derive all rows again with the new type",
            )
    return new


def refuse_other_types(snapshot: DerivedSnapshot, written: dict[str, Any]) -> None:
    """Check that a table has the columns with which files were written.

    Raises:
        UpsertOvertaken: Another run has added one of them with a wider type.
    """
    columns, files = (
        {field["name"]: field["type"] for field in each["fields"]} for each in (snapshot.schema, written)
    )
    if not files.items() <= columns.items():
        raise UpsertOvertaken(
            snapshot.table.uri,
            "another run has added the same columns with other types. Nothing was committed; run again",
        )


def refuse_missing_columns(snapshot: DerivedSnapshot, wanted: dict[str, Any]) -> None:
    """Check that new rows have all columns of a table. The arguments are as above.

    Raises:
        SchemaChangeRefused: They lack a column.
    """
    names = {field["name"].lower() for field in wanted["fields"]}
    missing = [field for field in snapshot.schema["fields"] if field["name"].lower() not in names]
    if missing:
        raise SchemaChangeRefused(
            snapshot.table.uri,
            f"the new rows lack {', '.join(field['name'] for field in missing)}. Nothing was written. If "
            "they are to be null from now on, select null under their names, as in "
            f"CAST(NULL AS {_text(missing[0]['type'])}) AS {missing[0]['name']}",
        )


def _text(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)
