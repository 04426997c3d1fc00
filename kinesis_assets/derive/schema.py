"""The columns of a derived table: those of a DataFrame, and their changes."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from kinesis_assets.derive.column_types import (
    TypesConflict,
    fields_twice,
    grown,
    is_storable,
    lacking,
    text_of,
    with_nulls,
)
from kinesis_assets.derive.commit_entry import REBUILD_COMMAND
from kinesis_assets.derive.data_files import BATCH_COLUMN
from kinesis_assets.errors import CommitOvertaken, InvalidInput, SchemaChangeRefused, UpsertOvertaken
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.schema import refusal_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kinesis_assets.derive.derivation import Derivation
    from kinesis_assets.derive.derived_table import DerivedSnapshot
    from kinesis_assets.table.partition_field import PartitionField


def table_schema(
    table: str, rows: DataFrame, partition_by: Sequence[str], key: Sequence[str]
) -> dict[str, Any]:
    """Return the schema of a derived table for the rows that a transformation returned.

    Every column and its parts accept null, because a later version of the transformation may leave them out.

    Raises:
        InvalidInput: A column is missing, has the name of the batch id, or has a type that the table cannot
            have.
    """
    partitions = partition_fields(partition_by)
    fields: list[dict[str, Any]] = json.loads(rows.schema.json())["fields"]
    types = {field["name"]: field["type"] for field in fields}
    _check_names(table, [field["name"] for field in fields])
    used = [*(field.column for field in partitions), *key]
    if missing := [name for name in dict.fromkeys(used) if name not in types]:
        raise InvalidInput(
            f"table {table}: the transformation does not return {', '.join(missing)}, which a setting names "
            f"(partition_by, key, order_by or by). It returns {', '.join(types)}. Return it, or correct the "
            "setting"
        )
    for name, kind in types.items():
        if kind == "void":
            raise InvalidInput(f"table {table}: the column {name} has no type; cast it")
        if not is_storable(kind):
            raise InvalidInput(
                f"table {table}: the column {name} has the type {text_of(kind)}, which Delta tables do not "
                "have; cast it"
            )
        if twice := fields_twice(kind):
            raise InvalidInput(
                f"table {table}: the column {name} has the fields {', '.join(twice)}, whose names differ "
                "only by case, which Delta tables ignore; rename one"
            )
        if name in key and not isinstance(kind, str):
            raise InvalidInput(
                f"table {table}: the column {name} has the type {text_of(kind)}, whose values cannot be "
                "compared; use its parts"
            )
    for partition in partitions:
        _check_partition(table, partition, types)
    columns = [
        {**field, "type": with_nulls(field["type"]), "nullable": True, "metadata": {}} for field in fields
    ]
    batch_id = {"name": BATCH_COLUMN, "type": "long", "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [*columns, batch_id]}


def _check_partition(table: str, field: PartitionField, types: Mapping[str, Any]) -> None:
    """Check that columns with some types can have a partition."""
    kind = types[field.column]
    if (refusal := field.refusal_of(kind)) is not None:
        raise InvalidInput(
            f"table {table}: partition_by: {field.column} has the type {text_of(kind)}; for {field} {refusal}"
        )
    same = [name for name in types if name.lower() == field.name.lower() and name != field.column]
    if same:
        raise InvalidInput(
            f"table {table}: the column {same[0]} has the name of the partition {field}; rename the column"
        )


def _check_names(table: str, names: Sequence[str]) -> None:
    """Check that columns can have some names. Their case does not distinguish them in Spark and Delta."""
    counts = Counter(name.lower() for name in names)
    for name in names:
        if counts[name.lower()] > 1:
            raise InvalidInput(f"table {table}: the transformation returns {name} twice; rename the column")
        if (refusal := refusal_of(name)) is not None:
            raise InvalidInput(
                f"table {table}: the transformation returns {name!r}, which no column can be called: the "
                f"name {refusal}; rename the column"
            )


def accept_columns(snapshot: DerivedSnapshot, wanted: dict[str, Any]) -> None:
    """Add the columns, and the fields of structs, to a table that new rows have and the table lacks.

    A column or field of the table that new rows lack becomes null in them. A value of a narrower type is
    widened.

    Args:
        wanted: The schema of the new rows, see `table_schema`.

    Raises:
        SchemaChangeRefused: A column has another type in the table.
        UpsertOvertaken: The files of the table must be rewritten first, see `derive.type_widening`, since
            another run has changed its columns.
    """
    schema = accepted_schema(snapshot, wanted)
    if growing(snapshot, schema):
        raise UpsertOvertaken(
            snapshot.table.uri,
            "another run has changed its columns, and they must grow again. Nothing was committed; run again",
        )
    new = [field for field in schema["fields"] if field not in snapshot.schema["fields"]]
    try:
        if new:
            snapshot.add_columns(new)
            snapshot = snapshot.table.snapshot()
        snapshot.complete_properties()
    except CommitOvertaken:
        accept_columns(snapshot.table.snapshot(), wanted)  # another run may have added the same ones


def accepted_schema(
    snapshot: DerivedSnapshot | None, wanted: dict[str, Any], compared: Collection[str] = ()
) -> dict[str, Any]:
    """Return the schema that a table needs for new rows: the one that it has, with what they need besides.

    Args:
        compared: The columns by which rows replace others.

    Raises:
        SchemaChangeRefused: A column has a type in the table that does not grow to that of the new rows.
    """
    if snapshot is None:
        return wanted
    new = {field["name"].lower(): field for field in wanted["fields"]}
    fields = []
    for field in snapshot.schema["fields"]:
        name = field["name"]
        other = new.pop(name.lower(), None)
        if other is None:
            fields.append(field)
            continue
        if other["name"] != name:
            raise SchemaChangeRefused(
                snapshot.table.uri,
                f"the column {name} is called {other['name']} in the new rows. Nothing was written. Give it "
                "the same name",
            )
        fields.append(
            field | {"type": _grown(snapshot, name, field["type"], other["type"], name in compared)}
        )
    return {"type": "struct", "fields": [*fields, *new.values()]}


def _grown(snapshot: DerivedSnapshot, name: str, old: Any, new: Any, is_compared: bool) -> Any:
    """Return the type of a column after new rows are added. Raises as `accepted_schema`."""
    try:
        kind = grown(old, new)
    except TypesConflict as error:
        raise _conflict(snapshot, (name, *error.path), error.old, error.new) from None
    if not snapshot.table.format.can_grow(old, kind):
        raise _conflict(snapshot, (name,), old, new)
    if is_compared and (old, kind) == ("float", "double"):
        raise SchemaChangeRefused(
            snapshot.table.uri,
            f"the column {name} has the type float, and the new rows have double. Rows are compared by it, "
            f"and 0.1 is not the same number in both. {_WAYS_OUT}",
        )
    return kind


def _conflict(snapshot: DerivedSnapshot, path: tuple[str, ...], old: Any, new: Any) -> SchemaChangeRefused:
    """Return the error that a column, or a field of one, cannot have the type of new rows."""
    place = f"the field {'.'.join(path)}" if len(path) > 1 else f"the column {path[0]}"
    return SchemaChangeRefused(
        snapshot.table.uri,
        f"{place} has the type {text_of(old)}, and the new rows have {text_of(new)}. {_WAYS_OUT}",
    )


_WAYS_OUT = (
    "Nothing was written. Cast it in the transformation, give it another name, or run "
    f"{REBUILD_COMMAND} to derive all rows again with the new type"
)


def growing(snapshot: DerivedSnapshot, schema: dict[str, Any]) -> list[str]:
    """Return the columns of a table whose files, or whose types, must change for another schema."""
    kinds = {field["name"]: field["type"] for field in schema["fields"]}
    return [
        field["name"]
        for field in snapshot.schema["fields"]
        if snapshot.table.format.needs_files(field["type"], kinds[field["name"]])
    ]


def columns_to_grow(snapshot: DerivedSnapshot, wanted: dict[str, Any], derivation: Derivation) -> list[str]:
    """Return the columns of a table that must grow, see `growing`, before it can have new rows.

    Raises:
        SchemaChangeRefused: The table cannot have the rows, or they lack columns that they must have.
    """
    schema = accepted_schema(snapshot, wanted, compared=derivation.compared)
    if derivation.all_columns:
        refuse_missing_columns(snapshot, wanted)
    return growing(snapshot, schema)


def refuse_other_types(snapshot: DerivedSnapshot, written: pa.Schema) -> None:
    """Check that a table has the columns with which files were written.

    Raises:
        UpsertOvertaken: Another run has added one of them with a wider type, or with another id.
    """
    columns = snapshot.file_schema
    if not all(
        field.name in columns.names and field.equals(columns.field(field.name), check_metadata=True)
        for field in written
    ):
        raise UpsertOvertaken(
            snapshot.table.uri,
            "another run has added the same columns with other types. Nothing was committed; run again",
        )


def refuse_missing_columns(snapshot: DerivedSnapshot, wanted: dict[str, Any]) -> None:
    """Check that new rows have all columns of a table, with all fields of structs.

    Args:
        snapshot: The newest version of the table, which accepts the columns of the new rows.
    """
    kinds = {field["name"].lower(): field["type"] for field in wanted["fields"]}
    missing = [field for field in snapshot.schema["fields"] if field["name"].lower() not in kinds]
    if missing:
        raise SchemaChangeRefused(
            snapshot.table.uri,
            f"the new rows lack {', '.join(field['name'] for field in missing)}. Nothing was written. If "
            "they are to be null from now on, select null under their names, as in "
            f"CAST(NULL AS {text_of(missing[0]['type'])}) AS {missing[0]['name']}",
        )
    fields = [
        name
        for field in snapshot.schema["fields"]
        for name in lacking(field["type"], kinds[field["name"].lower()], (field["name"],))
    ]
    if fields:
        raise SchemaChangeRefused(
            snapshot.table.uri,
            f"the new rows lack {', '.join(fields)}, as if an older version of the schema were the latest. "
            "Nothing was written. Register a version with these fields, or name a version in the setting "
            "schema, with which they are null from now on",
        )
