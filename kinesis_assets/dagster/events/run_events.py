"""The events of the shards of a run: made from its result, and read back."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.events.metadata import event_metadata, exact_values
from kinesis_assets.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.stored_table import TableTotals

_log = logging.getLogger(__name__)

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run config for a run whose events are read afterwards: nothing is logged to the console."""

PAGE_SIZE = 500

_EVENTS = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}


def events_of(
    instance: dg.DagsterInstance, run_id: str, *, newest_first: bool = False
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    """Yield the events in the order in which they were stored, or newest first. Pages are read as needed."""
    cursor: str | None = None
    while True:
        page = instance.get_records_for_run(run_id, cursor, _EVENTS, PAGE_SIZE, ascending=not newest_first)
        for entry in (record.event_log_entry for record in page.records):
            event = entry.asset_materialization or entry.asset_observation
            if event is not None:
                yield event
        if not page.has_more:
            return
        cursor = page.cursor


def metadata_of_events(instance: dg.DagsterInstance, run_id: str) -> list[dict[str, Any]]:
    """Return the exact values of each shard's event, in the order in which they were stored."""
    return [exact_values(event) for event in events_of(instance, run_id) if event.partition is not None]


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
