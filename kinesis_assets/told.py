"""What a run that was executed in this process told: the metadata of its events."""

from __future__ import annotations

from typing import Any

import dagster as dg

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run config: what the run tells is in its events, so nothing is printed."""

_EVENTS = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_OBSERVATION}


def told_by(instance: dg.DagsterInstance, run_id: str) -> list[dict[str, Any]]:
    """The metadata of each materialization and observation of a run, in the order of their storage."""
    records = instance.get_records_for_run(run_id, of_type=_EVENTS).records
    entries = [record.event_log_entry for record in records]
    events = [entry.asset_materialization or entry.asset_observation for entry in entries]
    return [
        {name: value.value for name, value in event.metadata.items()} for event in events if event is not None
    ]
