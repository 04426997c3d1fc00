"""A table's folder, and the positions and amendment files in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.table.amendment_files import AmendmentFiles
from kinesis_assets.table.positions_chain import PositionsChain
from kinesis_assets.table.storage import TableFolder

if TYPE_CHECKING:
    from kinesis_assets.table.positions_chain import ChainPolicy


class TableFiles:
    """A table's folder, with readers and writers of the files that the table's log points at.

    Attributes:
        uri: The table's path or URI, as given.
        folder: The table's folder.
        files: A file system whose root is that folder.
        chain: The positions files and the archive; caches the files it has read.
        amendments: The amendment files; caches the files it has read.

    Args:
        uri: The table's path or URI.
        policy: When a positions file holds all shards, and when shards are archived.

    Raises:
        InvalidInput: The path or URI is invalid.
    """

    def __init__(self, uri: str, policy: ChainPolicy | None = None) -> None:
        self.uri = uri
        self.folder = TableFolder.at(uri)
        self.files = self.folder.open()
        self.chain = PositionsChain(uri, lambda: self.files, policy)
        self.amendments = AmendmentFiles(uri, lambda: self.files)
