"""The records of a raw table, from the totals that runs reported in the last day."""

from __future__ import annotations

import dagster as dg

from kinesis_assets.dagster.checks.bad_records import BadRecords, RecordCounter
from kinesis_assets.dagster.dagster_internals import unpartitioned_materializations
from kinesis_assets.dagster.events.metadata import TOTAL_BAD_RECORDS, TOTAL_ROWS

DAMAGED = "The column error says why; a producer may aggregate records wrongly"
"""The advice about bad records of a raw table."""

_MAX_EVENTS = 5000
"""The maximum number of events of the asset that a step goes through. The next one goes further."""


def count_reported(
    instance: dg.DagsterInstance, key: dg.AssetKey, before: BadRecords, now: float
) -> BadRecords:
    """Add the records that runs have reported since the last time.

    Args:
        instance: The instance with the events.
        key: The key of the raw table's asset.
        before: What was counted so far.
        now: The time of the instance's clock, in seconds since the epoch.
    """
    counter = RecordCounter(before, now)
    totals, through = unpartitioned_materializations(
        instance, key, before.through, since=counter.since, limit=_MAX_EVENTS
    )
    for record in totals:
        if (event := record.asset_materialization) is not None:
            counter.add(record.timestamp, _count(event, TOTAL_ROWS), _count(event, TOTAL_BAD_RECORDS))
    return counter.counted(through)


def _count(event: dg.AssetMaterialization, name: str) -> int:
    value = event.metadata.get(name)
    return value.value or 0 if isinstance(value, dg.IntMetadataValue) else 0
