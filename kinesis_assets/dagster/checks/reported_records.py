"""The records of a raw table, from the totals that runs reported in the last day."""

from __future__ import annotations

import dagster as dg

from kinesis_assets.dagster.checks.bad_records import BadRecords, RecordCounter
from kinesis_assets.dagster.events.metadata import TOTAL_BAD_RECORDS, TOTAL_ROWS

DAMAGED = "The column error says why; a producer may aggregate records wrongly"
"""The advice about bad records of a raw table."""

_PAGE_SIZE = 500
_MAX_PAGES = 10
"""The maximum number of pages of events that a step reads. The next one reads further."""


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
    through, cursor = before.through, None
    wanted = dg.AssetRecordsFilter(
        key,
        after_storage_id=through,
        after_timestamp=counter.since if through is None else None,
    )
    for _ in range(_MAX_PAGES):
        page = instance.fetch_observations(wanted, _PAGE_SIZE, cursor, ascending=True)
        for record in page.records:
            through = max(record.storage_id, through or 0)
            event = record.asset_observation
            if event is not None and event.partition is None:
                counter.add(record.timestamp, _count(event, TOTAL_ROWS), _count(event, TOTAL_BAD_RECORDS))
        cursor = page.cursor
        if not page.has_more:
            break
    return counter.counted(through)


def _count(event: dg.AssetObservation, name: str) -> int:
    value = event.metadata.get(name)
    return value.value or 0 if isinstance(value, dg.IntMetadataValue) else 0
