"""Refuses tables with Delta features with which files cannot be read or replaced one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import TableUnsuitable

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAPPING = "delta.columnMapping.mode"
_READING = {"deletionVectors": "delta.enableDeletionVectors"}
_REPLACING = {"appendOnly": "delta.appendOnly", "changeDataFeed": "delta.enableChangeDataFeed"}


def refuse_unreadable(table: str, delta: DeltaTable) -> None:
    """Check that every row of a data file is a row of the table, under the same column names.

    Args:
        table: The table's URI, for the error.
        delta: The table.

    Raises:
        TableUnsuitable: The table has deletion vectors or column mapping.
    """
    _refuse(table, delta, _READING)


def refuse_irreplaceable(table: str, delta: DeltaTable) -> None:
    """Check that files can be replaced by others. Raises `TableUnsuitable`, also as `refuse_unreadable`."""
    _refuse(table, delta, _READING | _REPLACING)


def _refuse(table: str, delta: DeltaTable, features: dict[str, str]) -> None:
    properties = delta.metadata().configuration
    found = [name for name, key in features.items() if properties.get(key, "false").lower() == "true"]
    # The protocol lists a feature also if only old files have it. delta-rs lists none for old protocols.
    named = {str(name) for name in delta.protocol().reader_features or ()}
    found += [name for name in _READING if name in named and name not in found]
    if properties.get(_MAPPING, "none").lower() != "none":
        found.append("columnMapping")
    if found:
        raise TableUnsuitable(
            table,
            f"uses {', '.join(found)}, with which its files cannot be read or replaced one by one; "
            "nothing was changed. Remove the feature, or copy the rows to a table without it",
        )
