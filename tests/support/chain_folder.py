"""A chain of positions files in a folder, without a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.positions_chain import PositionsChain, positions_path
from kinesis_assets.table.raw_table import PositionedTable
from support.stored_positions import positions_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from kinesis_assets.table.positions.positions import Header, ShardPosition, StreamPositions
    from kinesis_assets.table.positions.positions_chain import ChainPolicy


class ChainFolder:
    """A folder in which one process writes positions that follow each other.

    Attributes:
        newest: The newest positions.
        chain: The chain as the writing process has it.
    """

    def __init__(self, folder: Path, policy: ChainPolicy) -> None:
        self._folder, self._policy = folder, policy
        self.newest: Any = None
        self.chain = self.reopened()

    def reopened(self) -> PositionsChain:
        """Return the chain as another process opens it."""
        files = PositionedTable(str(self._folder)).files
        return PositionsChain("the table", lambda: files, self._policy)

    def follow(
        self, shards: Mapping[str, ShardPosition], retired: Collection[str] = (), **fields: Any
    ) -> StreamPositions:
        """Write positions that follow the newest ones."""
        commit_id, before = new_id(), self.newest
        follows = {} if before is None else {"previous": before.commit_id, "generation": 1}
        self.newest = msgspec.structs.replace(
            positions_of(**shards), commit_id=commit_id, batch_id=commit_id, **follows, **fields
        )
        self.chain.write(self.newest, retired)
        return self.newest

    def read(self) -> tuple[int, StreamPositions]:
        """Return the number of files that another process reads for the newest positions, and these."""
        chain = self.reopened()
        found = chain.positions_at(self.newest.commit_id)
        return chain.files_read, found

    def path(self, positions: StreamPositions) -> Path:
        return self._folder / positions_path(positions.commit_id)

    def header(self, positions: StreamPositions) -> Header:
        return self.reopened().header_at(positions.commit_id)

    @property
    def segments(self) -> list[Path]:
        """The paths of all archive segments."""
        return sorted(self._folder.glob("_kinesis/archive/*.json"))
