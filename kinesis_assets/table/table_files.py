"""A table's folder, and the positions and amendment files in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.table.policy import TablePolicy
from kinesis_assets.table.positions.amendment_files import AmendmentFiles
from kinesis_assets.table.positions.positions_chain import PositionsChain
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.role import AssumedRole


class TableFiles:
    """A table's folder, with readers and writers of the files that the table's log points at.

    Attributes:
        uri: The table's path or URI, as given.
        policy: How the table is written.
        folder: The table's folder.
        files: A file system whose root is that folder.
        chain: The positions files and the archive; caches the files it has read.
        amendments: The amendment files; caches the files it has read.

    Args:
        uri: The table's path or URI.
        policy: How the table is written.
        role: The role that accesses a table on S3; None for the credentials of the process.

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
        self.chain = PositionsChain(uri, lambda: self.files, policy.chain)
        self.amendments = AmendmentFiles(uri, lambda: self.files)

    @property
    def clock(self) -> Clock:
        """The clock by which the table is written."""
        return self.policy.clock
