"""Assigns a table that an older release created to its stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.table.commits.commit_loop import commit_until_known

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.table import PositionedTable


def claim(table: PositionedTable, identity: StreamIdentity) -> None:
    """Write the owning stream into the properties of a table that has positions of it.

    Args:
        table: The table. It is not changed if it has an owner already or has no positions.
        identity: The stream.

    Raises:
        TableOfAnotherStream: The table belongs to another stream.
        CommitFailed: Every try failed. Nothing else depends on it, and the next run tries again.
        TableError: The table cannot be used.
    """

    def claimed(*, may_commit: bool) -> bool | None:
        snapshot = table.snapshot()
        snapshot.refuse_other_stream(identity)
        if snapshot.owner is not None or not snapshot.owners:
            return True
        if may_commit:
            snapshot.claim(identity)
        return None

    commit_until_known(table, claimed)
