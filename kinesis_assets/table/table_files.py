"""The files of a table: its folder, and the positions and amendment files in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.table.amendment_files import AmendmentFiles
from kinesis_assets.table.positions_chain import PositionsChain
from kinesis_assets.table.storage import TableFolder

if TYPE_CHECKING:
    from kinesis_assets.table.positions_chain import ChainPolicy


class TableFiles:
    """The folder of a table, and the files in it that its log points at.

    Attributes:
        uri: Where it is, as given.
        folder: The same, for reading and writing files.
        files: The folder, opened.
        chain: Its positions files and its archive; it remembers those that were read.
        amendments: Its amendment files, likewise.

    Args:
        uri: Where it is.
        policy: How positions files are written.

    Raises:
        InvalidInput: The URI cannot be meant.
    """

    def __init__(self, uri: str, policy: ChainPolicy | None = None) -> None:
        self.uri = uri
        self.folder = TableFolder.at(uri)
        self.files = self.folder.open()
        self.chain = PositionsChain(uri, lambda: self.files, policy)
        self.amendments = AmendmentFiles(uri, lambda: self.files)
