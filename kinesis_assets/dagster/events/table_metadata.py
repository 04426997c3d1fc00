"""Dagster's standard metadata of tables: of the definition of an asset, and of its events."""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.table.schema import COLUMNS
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BATCH_COLUMN = "_batch_id"

_CODE = "dagster/code_references"

_SQL_NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""By Delta's name of a type, that of Spark SQL, where they differ."""

_DESCRIPTIONS = {column.name: column.description for column in COLUMNS if column.name != "error"} | {
    _BATCH_COLUMN: "Id of the commit that added the row.",
    "error": "Why the record could not be decoded; null otherwise.",
}
"""The descriptions of the columns that derived tables have in common."""


def definition_metadata(table: str) -> dict[str, Any]:
    """Return the metadata that the definition of each table has.

    Args:
        table: The table's path or URI.
    """
    uri = TableFolder.at(table).uri
    return {
        "dagster/uri": uri,
        "dagster/table_name": uri.partition("://")[2],
        "dagster/storage_kind": "deltalake",
    }


def raw_columns() -> dg.TableSchema:
    """Return the columns of the raw table."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.type,
                description=column.description,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in COLUMNS
        ]
    )


def derived_columns(schema: Mapping[str, Any]) -> dg.TableSchema:
    """Return the columns of a derived table, whose schema is as in Delta's metadata."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                field["name"],
                _type_name(field["type"]),
                description=field["metadata"].get("comment") or _DESCRIPTIONS.get(field["name"]),
                constraints=dg.TableColumnConstraints(nullable=field["nullable"]),
            )
            for field in schema["fields"]
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
