"""The check of the share of bad records, in the hours of the last day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.result import CheckResult

if TYPE_CHECKING:
    from kinesis_assets.dagster.settings.stream_check_settings import BadRecordsCheck

WINDOW = 24
"""The number of hours of which the records count."""

_HOUR = 3600.0


class HourOfRecords(msgspec.Struct, frozen=True, array_like=True):
    """The records that runs wrote in one hour.

    Attributes:
        hour: The hour, counted since the epoch.
        records: Number of records.
        bad: How many of them are bad.
    """

    hour: int
    records: int
    bad: int


class BadRecords(msgspec.Struct, frozen=True, omit_defaults=True):
    """The counts of the records that runs wrote.

    Attributes:
        through: Id of the last event or commit that was counted; None before the first.
        hours: The records of each hour of the window, oldest first.
    """

    through: int | None = None
    hours: tuple[HourOfRecords, ...] = ()


class RecordCounter:
    """Adds records to those that were counted before.

    Args:
        before: What was counted so far.
        now: The time, in seconds since the epoch.

    Attributes:
        since: The start of the window, in seconds since the epoch.
    """

    def __init__(self, before: BadRecords, now: float) -> None:
        first = int(now // _HOUR) - WINDOW + 1
        self.since = first * _HOUR
        self._hours = {each.hour: (each.records, each.bad) for each in before.hours if each.hour >= first}

    def add(self, time: float, records: int, bad: int) -> None:
        """Add the records of a time, in seconds since the epoch, unless that is before the window."""
        if time >= self.since:
            hour = int(time // _HOUR)
            known = self._hours.get(hour, (0, 0))
            self._hours[hour] = (known[0] + records, known[1] + bad)

    def counted(self, through: int | None) -> BadRecords:
        """Return what is counted now.

        Args:
            through: Id of the last event or commit that was added.
        """
        hours = tuple(HourOfRecords(hour, *self._hours[hour]) for hour in sorted(self._hours))
        return BadRecords(through, hours)


def check_bad_records(check: BadRecordsCheck, counted: BadRecords, advice: str) -> CheckResult:
    """Check that few records are bad.

    Args:
        check: The bound.
        counted: The records of the window.
        advice: What to do if too many are bad.
    """
    records = sum(each.records for each in counted.hours)
    bad = sum(each.bad for each in counted.hours)
    share = bad / records if records else 0.0
    found = f"{bad} of the {records} records that runs wrote in the last {WINDOW} h are bad ({share:.2%})"
    passed = share <= check.max_share
    if not passed:
        found += f", more than {check.max_share:.2%}. {advice}"
    return CheckResult(
        "bad_records",
        passed,
        check.severity,
        found,
        {"records": records, "bad records": bad, "share of bad records (%)": round(100 * share, 4)},
    )
