"""The raw table: a Delta table whose log points at the positions of its stream.

Never import this module in a Spark task, see `opening`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow.fs

from kinesis_assets.errors import TableUnreachable, TableUnsuitable
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.nullable_columns import accept_null, columns_without_null
from kinesis_assets.table.opening import open_delta, open_or_create
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.policy import TABLE_PROPERTIES
from kinesis_assets.table.snapshot import TableFiles, TableSnapshot
from kinesis_assets.table.store.suitability import require_writable
from kinesis_assets.table.version import schema_of

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity


class PositionedTable(TableFiles):
    """A Delta table with a stream's records and the positions up to which it contains them.

    The arguments and errors are those of `StoredTable`.
    """

    def reopened(self) -> PositionedTable:
        """Return the same table with empty caches."""
        return PositionedTable(self.uri, self.policy, self.folder.role)

    def create_if_missing(self, owner: StreamIdentity | None = None) -> TableSnapshot:
        """Open the newest version of the table, or create an empty table if none exists.

        If several processes create it at once, one of them does.

        Args:
            owner: The stream that a new table belongs to. By default, the first stream that claims the table.

        Raises:
            StoreUnsuitable: The store ignores the condition of a conditional put. Nothing was created.
            TableUnsuitable: A table with another schema or partitioning exists.
            TableNotWritable: The table cannot be created because writing is refused.
            TableUnreachable: The table can be neither opened nor created.
        """
        return open_or_create(
            self.snapshot,
            self.uri,
            self.folder,
            schema_of(TABLE_SCHEMA),
            self.clock,
            partition_by=PARTITION_COLUMNS,
            configuration=TABLE_PROPERTIES | ({} if owner is None else {OWNER: owner.arn}),
            description="Kinesis records as received, with the positions up to which they are in the table.",
        )

    def require_writable(self) -> None:
        """Check that the table's folder can be written to. Raises as `suitability.require_writable`."""
        require_writable(self.uri, self.files)

    def snapshot(self) -> TableSnapshot:
        """Open the newest version of the table.

        Raises:
            TableMissing: The table does not exist.
            TableUnreachable: The table's log cannot be read.
            TableUnsuitable: The table has another schema or partitioning.
        """
        try:
            opened = TableSnapshot(self, open_delta(self.uri, self.folder))
        except TableUnreachable:
            self._refuse_a_file()
            raise
        found, wanted = (
            {field["name"]: field["type"] for field in schema["fields"]}
            for schema in (opened.schema, schema_of(TABLE_SCHEMA))
        )
        wrong = [name for name, kind in wanted.items() if found.get(name) != kind]
        if wrong or opened.partition_columns != PARTITION_COLUMNS:
            raise TableUnsuitable(
                self.uri,
                f"not a raw Kinesis table (wrong or missing: {', '.join(wrong) or 'its partition column'}); "
                "use a separate table for the stream",
            )
        return opened

    def snapshot_for_rows(self) -> TableSnapshot:
        """Open the newest version of the table with a schema that accepts the rows of this release.

        The schema of a table from an older release is changed first. Raises what `snapshot` and
        `nullable_columns.accept_null` raise.
        """
        snapshot = self.snapshot()
        if not columns_without_null(snapshot.delta):
            return snapshot
        accept_null(snapshot.delta)
        return self.snapshot()

    def _refuse_a_file(self) -> None:
        if not isinstance(self.files.base_fs, pyarrow.fs.LocalFileSystem):
            return
        with suppress(OSError):  # the caller reports its own error
            path = self.files.base_path.rstrip("/")
            if self.files.base_fs.get_file_info(path).type is pyarrow.fs.FileType.File:
                raise TableUnsuitable(self.uri, "is a file, not a folder; use a folder for the table")
