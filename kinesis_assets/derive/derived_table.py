"""A derived table: a Delta table whose log points at the record of how much of its source it has consumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import Transaction

from kinesis_assets.derive.data_files import bounded_columns
from kinesis_assets.derive.records import RecordFiles
from kinesis_assets.errors import CommitOvertaken, TableOfAnotherSource, TableUnsuitable
from kinesis_assets.table.log.delta_log import KEEP_ENTRIES
from kinesis_assets.table.log.rewrites import RewriteLog
from kinesis_assets.table.opening import delta_errors, has_later_version, open_delta, open_or_create
from kinesis_assets.table.policy import HISTORY_PROPERTIES, STATISTICS_PROPERTY, TablePolicy
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction

    from kinesis_assets.derive.records import DerivedCommit
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.role import AssumedRole

SOURCE_PROPERTY = "kinesis_assets.source"
"""The property of a derived table with the id of its source table."""

APPLICATION = "kinesis-derived"
"""The application id of the transaction that points at the newest record."""


class DerivedTable:
    """A derived table, which may not exist yet.

    Args:
        uri: The table's path or URI.
        policy: How the table is written.
        role: The role that accesses this table and its source on S3; None for the credentials of the process.

    Attributes:
        uri: The table's path or URI, as given.
        policy: How the table is written.
        folder: The table's folder.
        files: A file system whose root is that folder.
        records: The records of its commits; caches those it has read.
        rewrites: Finds restores and overwrites in its log.

    Raises:
        InvalidInput: The path or URI is invalid.
    """

    def __init__(
        self, uri: str, policy: TablePolicy = TablePolicy(), role: AssumedRole | None = None
    ) -> None:
        self.uri = uri
        self.policy = policy
        self.folder = TableFolder.at(uri, role)
        self.files = self.folder.open()
        self.records = RecordFiles(uri, self.files)
        self.rewrites = RewriteLog(uri, self.files)

    @property
    def clock(self) -> Clock:
        """The clock by which the table is written."""
        return self.policy.clock

    def snapshot(self) -> DerivedSnapshot:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
            TableUnsuitable: The table is not a derived table.
        """
        delta = open_delta(self.uri, self.folder)
        if SOURCE_PROPERTY not in delta.metadata().configuration:
            raise TableUnsuitable(
                self.uri, "was not created as a derived table; use a table of its own for each derived table"
            )
        return DerivedSnapshot(self, delta)

    def open_or_create(
        self, source: str, schema: dict[str, Any], partition_by: Sequence[str]
    ) -> DerivedSnapshot:
        """Open the table; create it if it does not exist. Of several processes, one creates it.

        Args:
            source: The id of the source table.
            schema: The schema of a new table, as in Delta's metadata.
            partition_by: The partition columns of a new table.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableOfAnotherSource: The table belongs to another source.
            TableNotWritable: The table cannot be created because writing is refused.
            TableUnreachable: The table can be neither opened nor created.
            TableUnsuitable: The table is not a derived table, or has other partition columns.
        """
        columns = Schema.from_json(json.dumps(schema))
        stored = [field for field in pa.schema(columns.to_arrow()) if field.name not in partition_by]
        snapshot = open_or_create(
            self.snapshot,
            self.uri,
            self.folder,
            columns,
            self.clock,
            partition_by=partition_by,
            configuration=HISTORY_PROPERTIES
            | {SOURCE_PROPERTY: source, STATISTICS_PROPERTY: ",".join(bounded_columns(stored))},
        )
        snapshot.check_identity(source, partition_by)
        return snapshot


@dataclass(frozen=True)
class DerivedSnapshot:
    """One version of a derived table.

    Attributes:
        table: The table.
        delta: The table, opened by delta-rs.
    """

    table: DerivedTable
    delta: DeltaTable

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The table's schema, as in Delta's metadata, with the column of the batch id."""
        found: dict[str, Any] = json.loads(self.delta.schema().to_json())
        return found

    @cached_property
    def commit_id(self) -> int | None:
        """The commit id of the newest commit, at whose record the log points; None if there is none."""
        with delta_errors(self.table.uri, "opened"):
            found: int | None = self.delta.transaction_version(APPLICATION)
        return found

    @cached_property
    def newest(self) -> DerivedCommit | None:
        """The record of the newest commit; None if nothing has been consumed yet.

        Raises:
            PositionsUnreadable: The file that the log points at is missing, damaged or of another commit.
            TableUnreachable: The file cannot be read at present.
        """
        return None if self.commit_id is None else self.table.records.at(self.commit_id)

    def check_identity(self, source: str, partition_by: Sequence[str]) -> None:
        """Check that the table belongs to a source and has some partition columns.

        Raises:
            TableOfAnotherSource: The table belongs to another source.
            TableUnsuitable: The table has other partition columns.
        """
        metadata = self.delta.metadata()
        owner = metadata.configuration.get(SOURCE_PROPERTY)
        if owner != source:
            raise TableOfAnotherSource(
                self.table.uri,
                f"was derived from the table with the id {owner}, but the source now has the id {source}; "
                "nothing was changed. Correct the source, or use another table",
            )
        if metadata.partition_columns != list(partition_by):
            raise TableUnsuitable(
                self.table.uri,
                f"is partitioned by {metadata.partition_columns}, and not by {list(partition_by)}; use "
                "another table for other partition columns",
            )

    def commit(
        self,
        record: DerivedCommit,
        actions: Sequence[AddAction | RemoveAction],
        *,
        exclusive: bool,
        columns: dict[str, Any] | None = None,
    ) -> None:
        """Add and remove files and point the log at a new record, in one atomic commit.

        The record is first written to a new file. Delta refuses the commit if another one has written the
        same transaction entry since this version. An error does not mean that the commit failed, because its
        response may have been lost.

        Args:
            record: The record of the commit.
            actions: The files to add and to remove.
            exclusive: Refuse the commit after any other commit since this version, even after a compaction.
            columns: The schema that the table gets, as in Delta's metadata; None to keep its own. This
                version must have no files, and the commit must be exclusive.

        Raises:
            CommitOvertaken: Another commit was made after this version.
        """
        self.table.records.write(record)
        entries = [Transaction(APPLICATION, record.commit_id)]
        self._write(actions, entries, exclusive=exclusive, columns=columns)

    def replace(self, actions: Sequence[AddAction | RemoveAction]) -> None:
        """Replace files by others with the same rows, if no other commit was made after this version.

        Raises:
            CommitOvertaken: Another commit was made. As in `commit`, an error does not prove that this one
                was not.
        """
        self._write(actions, [], exclusive=True)

    def _write(
        self,
        actions: Sequence[AddAction | RemoveAction],
        entries: list[Transaction],
        *,
        exclusive: bool,
        columns: dict[str, Any] | None = None,
    ) -> None:
        try:
            self.delta.create_write_transaction(
                list(actions),
                mode="append" if columns is None else "overwrite",
                schema=self.delta.schema() if columns is None else Schema.from_json(json.dumps(columns)),
                partition_by=self.delta.metadata().partition_columns,
                commit_properties=CommitProperties(
                    app_transactions=entries, max_commit_retries=0 if exclusive else None
                ),
                post_commithook_properties=KEEP_ENTRIES,
            )
        except CommitFailedError as error:
            if has_later_version(self.table.files, self.delta.version()):
                raise CommitOvertaken(self.table.uri, str(error)) from None
            raise
