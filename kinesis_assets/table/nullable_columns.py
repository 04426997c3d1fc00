"""Tables of older releases, in which a column that may be null by now must not be.

delta-rs does not compare a commit's files with the table's schema: it would add a file with nulls to such a
table, whose readers may then fail or read something else. So rows are committed only through a snapshot whose
schema accepts null wherever this release may write it.

The change of the schema is one commit of its own, which changes nothing else; all files that are there keep
to the new schema, too. Any commit that began before it is refused and tried again (protocol: change of the
metadata), also that of a run of an older release. Of several changes at once, one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import Schema

from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.log_entries import KEEP_ENTRIES

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAY_BE_NULL = frozenset(field.name for field in Schema.from_arrow(TABLE_SCHEMA).fields if field.nullable)


def columns_without_null(delta: DeltaTable) -> list[str]:
    """The columns that must not be null in a table, and may be null in what this release writes."""
    return [
        field.name for field in delta.schema().fields if field.name in _MAY_BE_NULL and not field.nullable
    ]


def accept_null(delta: DeltaTable) -> None:
    """Let these columns be null, by one commit each.

    Source: https://docs.delta.io/latest/delta-batch.html#change-column-comment-or-ordering (ALTER COLUMN)

    Raises:
        CommitFailedError: Another commit changed the table's metadata.
        DeltaError, OSError: The commit failed, or its response was lost.
    """
    for name in columns_without_null(delta):
        delta.alter.drop_column_not_null(name, post_commithook_properties=KEEP_ENTRIES)
