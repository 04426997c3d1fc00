"""Commits without rows, which make a table's log longer at little cost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import commit

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.raw_table import PositionedTable


def commit_tip(table: PositionedTable, listing: StreamListing) -> None:
    """Commit a later tip time of one shard."""
    expected = table.snapshot().positions(listing.summary.identity)
    assert expected is not None
    shard_id, shard = next(iter(expected.shards.items()))
    later = (shard.tip_time or listing.summary.service_time) + timedelta(microseconds=1)
    moved = {shard_id: msgspec.structs.replace(shard, tip_time=later)}
    commit(table, expected=expected, listing=listing, batch_id=new_id(), moved=moved, files=[], added={})
