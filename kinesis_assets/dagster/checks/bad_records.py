"""The check of the share of bad records, from the totals that runs reported in the last day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.checks.result import CheckResult
from kinesis_assets.dagster.metadata import TOTAL_BAD_RECORDS, TOTAL_ROWS
from kinesis_assets.dagster.names import raw_key

if TYPE_CHECKING:
    from kinesis_assets.dagster.checks.settings import BadRecordsCheck

WINDOW = 24
"""The number of hours of which the records count."""

_HOUR = 3600.0
_PAGE_SIZE = 500
_MAX_PAGES = 10
"""The maximum number of pages of events that a step reads. The next one reads further."""


class HourOfRecords(msgspec.Struct, frozen=True, array_like=True):
    """The records that runs reported in one hour.

    Attributes:
        hour: The hour, counted since the epoch.
        records: Number of records.
        bad: How many of them are bad.
    """

    hour: int
    records: int
    bad: int


class BadRecords(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is remembered of the records that runs reported.

    Attributes:
        through: Storage id of the last event that was read; None before the first.
        hours: The records of each hour of the window, oldest first.
    """

    through: int | None = None
    hours: tuple[HourOfRecords, ...] = ()


def count_reported(instance: dg.DagsterInstance, stream: str, before: BadRecords, now: float) -> BadRecords:
    """Add the records that runs have reported since the last time.

    Args:
        instance: The instance with the events.
        stream: The stream's name.
        before: What was counted so far.
        now: The time of the instance's clock, in seconds since the epoch.
    """
    first = int(now // _HOUR) - WINDOW + 1
    hours = {each.hour: (each.records, each.bad) for each in before.hours if each.hour >= first}
    through, cursor = before.through, None
    wanted = dg.AssetRecordsFilter(
        raw_key(stream),
        after_storage_id=through,
        after_timestamp=first * _HOUR if through is None else None,
    )
    for _ in range(_MAX_PAGES):
        page = instance.fetch_observations(wanted, _PAGE_SIZE, cursor, ascending=True)
        for record in page.records:
            through = max(record.storage_id, through or 0)
            event = record.asset_observation
            hour = int(record.timestamp // _HOUR)
            if event is None or event.partition is not None or hour < first:
                continue
            rows, bad = _count(event, TOTAL_ROWS), _count(event, TOTAL_BAD_RECORDS)
            known = hours.get(hour, (0, 0))
            hours[hour] = (known[0] + rows, known[1] + bad)
        cursor = page.cursor
        if not page.has_more:
            break
    return BadRecords(through, tuple(HourOfRecords(hour, *hours[hour]) for hour in sorted(hours)))


def _count(event: dg.AssetObservation, name: str) -> int:
    value = event.metadata.get(name)
    return value.value or 0 if isinstance(value, dg.IntMetadataValue) else 0


def check_bad_records(check: BadRecordsCheck, counted: BadRecords) -> CheckResult:
    """Check that few records are bad.

    Args:
        check: The bound.
        counted: The records of the window.
    """
    records = sum(each.records for each in counted.hours)
    bad = sum(each.bad for each in counted.hours)
    share = bad / records if records else 0.0
    found = f"{bad} of the {records} records that runs wrote in the last {WINDOW} h are bad ({share:.2%})"
    passed = share <= check.max_share
    if not passed:
        found += (
            f", more than {check.max_share:.2%}. The column error says why; a producer may aggregate records "
            "wrongly"
        )
    return CheckResult(
        "bad_records",
        passed,
        check.severity,
        found,
        {"records": records, "bad_records": bad, "share_of_bad_records": round(share, 6)},
    )
