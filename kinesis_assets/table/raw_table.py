"""The raw table, whose log points at the positions of its stream.

Never import this module in a Spark task, see `delta.opening`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kinesis_assets.table.delta.raw_table import DeltaFormat
from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.snapshot import ChainedTable
from kinesis_assets.table.store.suitability import require_writable

if TYPE_CHECKING:
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.data_file_writer import FileLayout
    from kinesis_assets.table.format import RawFormat
    from kinesis_assets.table.snapshot import TableSnapshot


class PositionedTable(ChainedTable):
    """A table with a stream's records and the positions up to which it contains them.

    Args:
        format: Returns the format of the table; by default Delta Lake.

    The other arguments and the errors are those of `StoredTable`.
    """

    def __init__(
        self,
        uri: str,
        policy: TablePolicy = TablePolicy(),
        role: AssumedRole | None = None,
        format: RawFormat = DeltaFormat,  # noqa: A002  # as in Spark
    ) -> None:
        super().__init__(uri, policy, role)
        self._format_of = format
        self.format = format(self)

    @property
    def layout(self) -> FileLayout:
        """The sizes and the schema of data files."""
        return replace(self.policy.data_files, field_ids=self.format.field_ids)

    def reopened(self) -> PositionedTable:
        """Return the same table with empty caches."""
        return PositionedTable(self.uri, self.policy, self.folder.role, self._format_of)

    def create_if_missing(self, owner: StreamIdentity | None = None) -> TableSnapshot:
        """Open the newest version of the table, or create an empty table if none exists.

        The arguments and errors are those of `TableFormat.create`, and the errors those of `snapshot`.
        """
        return self.format.create(self.snapshot, owner)

    def require_writable(self) -> None:
        """Check that the table's folder can be written to. Raises as `suitability.require_writable`."""
        require_writable(self.uri, self.files)

    def snapshot(self) -> TableSnapshot:
        """Open the newest version of the table. Raises as `TableFormat.open`."""
        return self.format.open()

    def snapshot_for_rows(self) -> TableSnapshot:
        """Open the newest version of the table with a schema that accepts the rows of this release.

        Raises what `snapshot` and `TableSnapshot.accept_rows` raise.
        """
        snapshot = self.snapshot()
        return self.snapshot() if snapshot.accept_rows() else snapshot
