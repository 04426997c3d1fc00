"""Upgrades tables of older releases whose schema forbids null in a column that may be null now.

delta-rs does not compare a commit's files with the table's schema: it would add a file with nulls to such a
table, and its readers might fail or return wrong values. So rows are committed only through a snapshot whose
schema accepts null in every column where this release may write it.

The schema is changed by a separate commit. Existing files are valid under the new schema. Delta refuses every
commit that is based on a version before the change of the metadata, and it is tried again; this includes the
commits of runs of an older release. Of several concurrent changes, one is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltalake import Schema

from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.version import KEEP_ENTRIES

if TYPE_CHECKING:
    from deltalake import DeltaTable

_MAY_BE_NULL = frozenset(field.name for field in Schema.from_arrow(TABLE_SCHEMA).fields if field.nullable)


def columns_without_null(delta: DeltaTable) -> list[str]:
    """Return the columns in which a table forbids null although this release may write it."""
    return [
        field.name for field in delta.schema().fields if field.name in _MAY_BE_NULL and not field.nullable
    ]


def accept_null(delta: DeltaTable) -> None:
    """Change the schema to accept null in these columns, by one commit for each.

    Source: https://docs.delta.io/latest/delta-batch.html#change-column-comment-or-ordering (ALTER COLUMN)

    Raises:
        CommitFailedError: Another commit changed the table's metadata.
        DeltaError, OSError: The commit failed, or its response was lost.
    """
    for name in columns_without_null(delta):
        delta.alter.drop_column_not_null(name, post_commithook_properties=KEEP_ENTRIES)
