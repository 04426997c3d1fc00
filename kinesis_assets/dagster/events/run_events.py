"""Read the materializations and observations of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.events.metadata import exact_values

if TYPE_CHECKING:
    from collections.abc import Iterator

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
