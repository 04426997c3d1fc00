"""Dagster's standard metadata of tables: of the definition of an asset, and of its events."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.table.schema import COLUMNS, NOT_IN_ICEBERG
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_CODE = "dagster/code_references"

_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""By Delta's name of a type, that of Spark SQL, where they differ."""

_DESCRIPTIONS = {(column.name, column.type): column.description for column in COLUMNS} | {
    ("data", "binary"): "Payload of the record, or one of its documents.",
    ("arrival_date", "date"): "Date of the arrival, UTC.",
    ("batch_id", "bigint"): "Id of the attempt whose commit added the record to the raw table.",
    ("error", "string"): "Why the record could not be decoded; null otherwise.",
    ("document_number", "int"): "Place of the document in its record; null if that could not be split.",
    ("schema_id", "string"): "Id of the schema of the record in its registry.",
    ("table_batch_id", "bigint"): "Id of the commit of the typed table that set the record apart.",
    ("_batch_id", "bigint"): "Id of the commit that added the row.",
}
"""The descriptions of the columns that derived tables have in common, by name and type."""

_OF_ROUTER = {
    ("commit_order", "string"): "Place of the record in the order of the commits of the source.",
    ("route", "string"): "Value by which the document was routed; null if no route matches it.",
}
"""Those of the columns that a router adds, which has both."""


STORAGE_KIND = "dagster/storage_kind"
"""The key of the format of a table."""

ICEBERG = "iceberg"
"""Its value for Iceberg tables."""

_STORAGE_KINDS = {"delta": "deltalake"}
"""The names of formats in Dagster, where they are others."""


def kinds_of(kinds: Iterable[str] | None, format_: str) -> set[str]:
    """Return the kinds of a table's asset: those of the setting, or by default those of its format."""
    return {"pyspark", _STORAGE_KINDS.get(format_, format_)} if kinds is None else {*kinds}


def definition_metadata(table: str, format_: str, name: str | None) -> dict[str, Any]:
    """Return the metadata that the definition of each table has.

    Args:
        name: Its name in its catalog; None for a table without one, which is named by its folder.
    """
    uri = TableFolder.at(table).uri
    return {
        "dagster/uri": uri,
        "dagster/table_name": name or uri.partition("://")[2],
        STORAGE_KIND: _STORAGE_KINDS.get(format_, format_),
    }


def raw_columns(format_: str) -> dg.TableSchema:
    """Return the columns of the raw table in a format."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type,
                description=column.description,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in COLUMNS
            if format_ == "delta" or column.name not in NOT_IN_ICEBERG
        ]
    )


def derived_columns(schema: Mapping[str, Any]) -> dg.TableSchema:
    """Return the columns of a derived table, whose schema is as in Delta's metadata."""
    fields = [(field, (field["name"], _type_name(field["type"]))) for field in schema["fields"]]
    is_router = _OF_ROUTER.keys() <= {column for _, column in fields}
    known = _DESCRIPTIONS | _OF_ROUTER if is_router else _DESCRIPTIONS
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                *column,
                description=field["metadata"].get("comment") or known.get(column),
                constraints=dg.TableColumnConstraints(nullable=field["nullable"]),
            )
            for field, column in fields
        ]
    )


def _type_name(kind: Any) -> str:
    """Return a type of Delta's metadata as Spark SQL names it."""
    if isinstance(kind, str):
        return _SQL_NAMES.get(kind, kind)
    match kind["type"]:
        case "array":
            return f"array<{_type_name(kind['elementType'])}>"
        case "map":
            return f"map<{_type_name(kind['keyType'])}, {_type_name(kind['valueType'])}>"
        case _:
            fields = [f"{each['name']}: {_type_name(each['type'])}" for each in kind["fields"]]
            return f"struct<{', '.join(fields)}>"


def code_references(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the metadata that links an asset with its function; empty if the function's file is unknown."""
    try:
        path = inspect.getsourcefile(function)
        _, line = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return {}
    if path is None:
        return {}
    with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
        reference = dg.LocalFileCodeReference(file_path=path, line_number=line, label=function.__name__)
        return {_CODE: dg.CodeReferencesMetadataValue(code_references=[reference])}


def place_of_code(metadata: Mapping[str, Any]) -> str:
    """Return the file and the line of the function of an asset; empty if its metadata does not have them."""
    found = metadata.get(_CODE)
    return (
        ""
        if found is None
        else ", ".join(f"{each.file_path}:{each.line_number}" for each in found.code_references)
    )
