"""The events of the shards of a run, and the totals of its table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.events.metadata import event_metadata
from kinesis_assets.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.stored_table import TableTotals
    from kinesis_assets.table.table import PositionedTable

_log = logging.getLogger(__name__)


def shard_events(
    key: dg.AssetKey, stream: str, result: RunResult
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield an event for each shard: a materialization, or an observation if the shard failed."""
    for shard_id, outcome in result.outcomes.items():
        metadata = event_metadata(stream, outcome, result)
        if outcome.error is None:
            yield dg.AssetMaterialization(key, partition=shard_id, metadata=metadata)
        else:
            reason = str(outcome.error)
            yield dg.AssetObservation(key, partition=shard_id, description=reason, metadata=metadata)


def totals_of_raw(table: PositionedTable) -> TableTotals | None:
    """Return the totals of a raw table; None if it cannot be read."""
    try:
        return table.snapshot().totals()
    except TableError as error:
        _log.warning("the event does not have the rows of the table: %s", error)
        return None
