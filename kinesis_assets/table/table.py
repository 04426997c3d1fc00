"""The one place that knows Delta Lake: a table whose log points at its streams' positions.

Never import it in a Spark task: the Rust library behind it does not survive a fork. Its errors are told
without their causes: where a signature is refused, S3's answer repeats the request with the session's token.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from kinesis_assets.errors import TableMissing, TableUnreachable, TableUnsuitable
from kinesis_assets.table.data_file import PARTITION_COLUMNS, TABLE_SCHEMA
from kinesis_assets.table.nullable_columns import accept_null, columns_without_null
from kinesis_assets.table.ownership import OWNER
from kinesis_assets.table.properties import TABLE_PROPERTIES
from kinesis_assets.table.refusals import not_writable
from kinesis_assets.table.rewrites import RewriteLog
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.table.storage import write_new
from kinesis_assets.table.table_files import TableFiles

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions_chain import ChainPolicy

_PROBE = "_kinesis/writable"
"""One name, so that there is nothing to be deleted."""


class PositionedTable(TableFiles):
    """A Delta table that holds records and, per stream, the positions up to which it holds them.

    Attributes:
        rewrites: Finds restores and overwrites in its log.

    Args:
        uri: Where it is.
        policy: How positions files are written.

    Raises:
        InvalidInput: The URI cannot be meant.
    """

    def __init__(self, uri: str, policy: ChainPolicy | None = None) -> None:
        super().__init__(uri, policy)
        self.rewrites = RewriteLog(uri, self.files)

    def reopened(self) -> PositionedTable:
        """The same table, of whose files nothing is remembered."""
        return PositionedTable(self.uri)

    def create_if_missing(self, owner: StreamIdentity | None = None) -> None:
        """Create the table, empty; of several creators at once, one does.

        Args:
            owner: The stream that a new table belongs to; by default the first one that claims it.

        Raises:
            TableUnsuitable: There is a table of another shape.
            TableNotWritable: It cannot be created there.
            TableUnreachable: It can be neither opened nor created.
        """
        with suppress(TableMissing):
            self.snapshot()
            return
        refused: Exception | None = None
        try:
            DeltaTable.create(
                self.folder.uri,
                Schema.from_arrow(TABLE_SCHEMA),
                mode="error",
                partition_by=PARTITION_COLUMNS,
                description="Kinesis records as they came, with the positions up to which they are here.",
                configuration=TABLE_PROPERTIES | ({} if owner is None else {OWNER: owner.arn}),
                raise_if_key_not_exists=False,  # the owner is no property of Delta's
                # A retry would put a second creation on top of another run's table.
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (DeltaError, OSError) as error:
            refused = error  # unless another run was first
        try:
            self.snapshot()
        except TableMissing:
            final = None if refused is None else not_writable(self.uri, refused)
            raise final or TableUnreachable(self.uri, f"cannot be created: {refused}") from None

    def require_writable(self) -> None:
        """Write an empty file into the table's folder, before anything costly is begun.

        Raises:
            TableNotWritable: That is refused. Of any other error nothing is said: another try may succeed.
        """
        try:
            write_new(self.files, _PROBE).close()
        except OSError as error:
            if refused := not_writable(self.uri, error):
                raise refused from None

    def snapshot(self) -> TableSnapshot:
        """The table as it stands now.

        Raises:
            TableMissing: There is none.
            TableUnreachable: Its log cannot be read.
            TableUnsuitable: It has another shape.
        """
        try:
            delta = DeltaTable(self.folder.uri)
        except TableNotFoundError as error:
            raise TableMissing(self.uri, "there is no table; the first run creates it") from error
        except (DeltaError, OSError) as error:
            self._refuse_a_file()
            raise TableUnreachable(self.uri, f"cannot be opened: {error}") from None
        found = {field.name: field.type for field in delta.schema().fields}
        wanted = {field.name: field.type for field in Schema.from_arrow(TABLE_SCHEMA).fields}
        wrong = [name for name, kind in wanted.items() if found.get(name) != kind]
        if wrong or delta.metadata().partition_columns != PARTITION_COLUMNS:
            raise TableUnsuitable(
                self.uri,
                f"not a raw Kinesis table (wrong or missing: {', '.join(wrong) or 'its partition column'}); "
                "name a table of its own for the stream",
            )
        return TableSnapshot(self, delta)

    def snapshot_for_rows(self) -> TableSnapshot:
        """The table as it is now, after its schema was changed to accept the rows of this release.

        Raises as `snapshot`, and what `nullable.accept_null` raises.
        """
        snapshot = self.snapshot()
        if not columns_without_null(snapshot.delta):
            return snapshot
        accept_null(snapshot.delta)
        return self.snapshot()

    def _refuse_a_file(self) -> None:
        if not isinstance(self.files.base_fs, pyarrow.fs.LocalFileSystem):
            return
        with suppress(OSError):  # then it is not this
            place = self.files.base_path.rstrip("/")
            if self.files.base_fs.get_file_info(place).type is pyarrow.fs.FileType.File:
                raise TableUnsuitable(self.uri, "is a file, not a folder; give a folder for the table")
