"""Starts a derived table again: without its rows, and then with other columns if need be.

Each of the two is one commit. After the first, the table has no rows, and the next step continues.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import Schema, TableFeatures
from deltalake.exceptions import CommitFailedError

from kinesis_assets.derive.commit import commit, until_not_overtaken
from kinesis_assets.derive.data_files import bounded_columns
from kinesis_assets.derive.features import refuse_irreplaceable
from kinesis_assets.derive.files import files_of
from kinesis_assets.derive.new_rows import first_cursor
from kinesis_assets.derive.policy import NOTHING_DELETED
from kinesis_assets.errors import UpsertOvertaken
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.log.log_entries import KEEP_ENTRIES
from kinesis_assets.table.opening import delta_errors, has_later_version
from kinesis_assets.table.properties import STATISTICS_PROPERTY

if TYPE_CHECKING:
    from kinesis_assets.derive.derived_table import DerivedSnapshot, DerivedTable
    from kinesis_assets.derive.policy import Decision
    from kinesis_assets.derive.records import DerivedCommit
    from kinesis_assets.derive.source import Source

_TIMESTAMP_NTZ, _TIMESTAMP_NTZ_FEATURE = '"timestamp_ntz"', "timestampNtz"
"""The type in a schema, and the feature of a table with such a column, at any depth."""


def emptied(
    table: DerivedTable,
    source: Source,
    newest: DerivedCommit | None,
    by: str | None,
    decision: Decision = NOTHING_DELETED,
) -> DerivedCommit:
    """Delete all rows of a table, so that it starts again with the source's present rows.

    Args:
        table: The table.
        source: Its source.
        newest: The table's newest commit, which must be the newest still.
        by: The Dagster run id or the person that does it.
        decision: The rows of the source whose deletion is the reason.
    """

    def attempt() -> DerivedCommit:
        snapshot = table.snapshot()
        refuse_irreplaceable(table.uri, snapshot.delta)
        return commit(
            table,
            expected=newest,
            cursor=first_cursor(source),
            batch_id=new_id(table.clock),
            removed=files_of(snapshot.delta),
            base=snapshot,
            restarts=True,
            decision=decision,
            by=by,
        )

    return until_not_overtaken(table, attempt)


def restarted(
    table: DerivedTable, source: Source, present: DerivedSnapshot, columns: dict[str, Any], by: str | None
) -> DerivedCommit | None:
    """Delete the rows of a table that is to get other columns; or, if it has none, replace its columns.

    Args:
        table: The table.
        source: Its source.
        present: The version of the table without these columns.
        columns: The schema that it is to get, see `table_schema`.
        by: The Dagster run id or the person that does it.

    Returns:
        The commit; None if another one has added rows to the empty table.
    """
    newest = present.newest
    if files_of(present.delta):
        return emptied(table, source, newest, by)

    def attempt() -> DerivedCommit | None:
        prepare_columns(table.snapshot(), columns)
        base = table.snapshot()
        if files_of(base.delta):
            return None
        return commit(
            table,
            expected=newest,
            cursor=first_cursor(source) if newest is None else newest.cursor,
            batch_id=new_id(table.clock),
            base=base,
            columns=columns,
            by=by,
        )

    return until_not_overtaken(table, attempt)


def prepare_columns(snapshot: DerivedSnapshot, columns: dict[str, Any]) -> None:
    """Make the table's properties and features those that a table with other columns needs.

    The property of columns with statistics must stay true: readers find no rows by one that files lack. A
    write transaction adds no feature, and a table that lacks the one of its columns cannot be opened.

    Raises:
        UpsertOvertaken: Another commit was made after this version.
        TableNotWritable: Writing is refused.
        TableUnreachable: The table cannot be changed at present.
    """
    delta, schema = snapshot.delta, Schema.from_json(json.dumps(columns))
    listed = delta.metadata().configuration.get(STATISTICS_PROPERTY, "").split(",")
    bounded = bounded_columns(pa.schema(schema.to_arrow()))
    kept = [name for name in listed if name in bounded]
    features = delta.protocol().writer_features or []
    with delta_errors(snapshot.table.uri, "changed", writes=True):
        try:
            if _TIMESTAMP_NTZ in json.dumps(columns) and _TIMESTAMP_NTZ_FEATURE not in features:
                delta.alter.add_feature(
                    TableFeatures.TimestampWithoutTimezone,
                    allow_protocol_versions_increase=True,
                    post_commithook_properties=KEEP_ENTRIES,
                )
            if len(kept) < len(listed):
                delta.alter.set_table_properties(
                    {STATISTICS_PROPERTY: ",".join(kept)}, post_commithook_properties=KEEP_ENTRIES
                )
        except CommitFailedError as error:
            if has_later_version(snapshot.table.files, snapshot.delta.version()):
                raise UpsertOvertaken(snapshot.table.uri, str(error)) from None
            raise
