"""A table that an older version of this package made becomes its stream's for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.table.commit_loop import until_told

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.table import PositionedTable


def claim(table: PositionedTable, identity: StreamIdentity) -> None:
    """Name a stream in the properties of a table that has positions of it, unless they name it already.

    Args:
        table: The table; one that has no positions of any stream is left as it is.
        identity: The stream.

    Raises:
        TableOfAnotherStream: The table belongs to another stream.
        CommitFailed: The tries are used up; nothing else depends on it, the next run tries again.
        TableError: The table cannot be used.
    """

    def look(*, and_try: bool) -> bool | None:
        snapshot = table.snapshot()
        snapshot.refuse_another(identity)
        if snapshot.owner is not None or not snapshot.owners:
            return True
        if and_try:
            snapshot.claim(identity)
        return None

    until_told(table, look)
