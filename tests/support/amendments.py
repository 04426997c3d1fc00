"""Amendments, as replays, seeks and the retention of a table commit them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.amendments import next_amendment
from support.attempts import STREAM

if TYPE_CHECKING:
    from kinesis_assets.kinesis.stream import StreamIdentity
    from kinesis_assets.table.positions.amendments import Amendment
    from kinesis_assets.table.raw_table import PositionedTable


def new_amendment(before: Amendment | None = None, **fields: Any) -> Amendment:
    """Return an amendment that follows another one, or the first one of a table."""
    defaults = {"batch_id": new_id(), "at": datetime.now(UTC), "by": None}
    return next_amendment(before, **defaults | fields)


def commit_amendment(table: PositionedTable, identity: StreamIdentity = STREAM, **fields: Any) -> Amendment:
    """Commit an amendment, and return it."""
    snapshot = table.snapshot()
    amendment = new_amendment(snapshot.amendment(identity), **fields)
    snapshot.commit([], identity=identity, amendment=amendment)
    return amendment
