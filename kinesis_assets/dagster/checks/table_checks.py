"""The checks that raw and derived tables share: of the share of bad records, and of small files.

The records of a raw table are counted from the totals that runs reported in the last day; those of a derived
table, from the entries of its commits of the last day. The small files are those of the statistics in the
table's log.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import dagster as dg
import msgspec

from kinesis_assets.dagster.checks.results import WORST, CheckResult, counted, worst
from kinesis_assets.dagster.dagster_internals import unpartitioned_materializations
from kinesis_assets.dagster.events.metadata import TOTAL_BAD_RECORDS, TOTAL_ROWS
from kinesis_assets.errors import PositionsUnreadable
from kinesis_assets.table.maintenance.steps import SMALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from kinesis_assets.dagster.settings.check_settings import (
        BadRecordsCheck,
        CompactionDebtCheck,
        UnmatchedRecordsCheck,
    )
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derived_table import CommitEntries


WINDOW = 24
"""The number of hours of which the records count."""

_HOUR = 3600.0


class HourOfRecords(msgspec.Struct, frozen=True, array_like=True):
    """The records that runs wrote in one hour, and how many of them are bad.

    Attributes:
        hour: The hour, counted since the epoch.
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

    def redriven(self, left: int) -> None:
        """Leave at most a number of the records so far bad, because the others were decoded again."""
        for hour in sorted(self._hours, reverse=True):
            records, bad = self._hours[hour]
            self._hours[hour] = (records, min(bad, left))
            left -= min(bad, left)

    def counted(self, through: int | None) -> BadRecords:
        """Return what is counted now, up to the event or commit with an id."""
        hours = tuple(HourOfRecords(hour, *self._hours[hour]) for hour in sorted(self._hours))
        return BadRecords(through, hours)


def check_bad_records(check: BadRecordsCheck, counted: BadRecords, advice: str) -> CheckResult:
    """Check that few records are bad."""
    records = sum(each.records for each in counted.hours)
    bad = sum(each.bad for each in counted.hours)
    share = bad / records if records else 0.0
    found = f"{bad} of the {records} records that runs wrote in the last {WINDOW} h are bad ({share:.2%})"
    passed = share <= check.max_share
    if not passed:
        found += f", more than {check.max_share:.2%}. {advice}"
    facts = {"records": records, "bad records": bad, "share of bad records (%)": round(100 * share, 4)}
    return CheckResult("bad_records", passed, check.severity, found, facts)


def check_unmatched_records(check: UnmatchedRecordsCheck, counted: BadRecords) -> CheckResult:
    """Check that few records have no route: those that are counted as bad."""
    records = sum(each.records for each in counted.hours)
    unmatched = sum(each.bad for each in counted.hours)
    share = unmatched / records if records else 0.0
    found = (
        f"no route matches {unmatched} of the {records} records that runs wrote in the last {WINDOW} h "
        f"({share:.2%})"
    )
    passed = share <= check.max_share
    if not passed:
        found += (
            f", more than {check.max_share:.2%}. They are the rows of the table whose route is null; add a "
            "route for them, or raise checks.unmatched_records.max_share"
        )
    facts = {"records": records, "unmatched records": unmatched, "share (%)": round(100 * share, 4)}
    return CheckResult("unmatched_records", passed, check.severity, found, facts)


DAMAGED = "The column error says why; a producer may aggregate records wrongly"

_MAX_EVENTS = 5000
"""The maximum number of events of the asset that a step goes through. The next one goes further."""


def count_reported(
    instance: dg.DagsterInstance, key: dg.AssetKey, before: BadRecords, now: float
) -> BadRecords:
    """Add the records that runs have reported since the last time."""
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


MAX_COMMITS = 200
"""The maximum number of commits that a step counts, from the newest one."""


def count_committed(
    entries: CommitEntries,
    newest: DerivedCommit,
    before: BadRecords,
    now: float,
    *,
    count: Callable[[DerivedCommit], tuple[int, int] | None] | None = None,
    max_commits: int = MAX_COMMITS,
) -> BadRecords:
    """Add the records of the commits since the last time. Commits that did not count theirs are left out.

    Records that a redrive has decoded are not bad any more. If the table has started again since, those of
    before do not count.

    Args:
        count: Returns the number of records of a commit and of those that count; None if it did not count
            them. By default the bad ones count.
    """
    counter = RecordCounter(before, now)
    since: list[DerivedCommit] = []
    with suppress(PositionsUnreadable):  # no run needs the earlier entries
        for commit in islice(entries.back_from(newest), max_commits):
            if commit.commit_id == before.through or commit.at.timestamp() < counter.since:
                break
            since.append(commit)
    if since and since[-1].previous is None:
        counter = RecordCounter(BadRecords(), now)
    for commit in reversed(since):
        found = (count or _bad_records)(commit)
        if found is not None:
            counter.add(commit.at.timestamp(), *found)
        if commit.redriven is not None and count is None:
            counter.redriven(commit.redriven.left)
    return counter.counted(newest.commit_id)


def _bad_records(commit: DerivedCommit) -> tuple[int, int] | None:
    return None if commit.records is None else (commit.records, commit.bad_records or 0)


def unmatched_records(commit: DerivedCommit) -> tuple[int, int] | None:
    """Return the number of records of a commit of a router, and of those that no route matches."""
    return None if commit.unmatched is None else (commit.rows, commit.unmatched)


FILES_EVERY = 600.0
"""Minimum seconds from one reading of the data files' statistics to the next: it takes time for each file."""


class SmallFiles(msgspec.Struct, frozen=True, array_like=True):
    """The small files of one part of a table.

    Attributes:
        part: The part: of a raw table, the arrival date of the rows; of a derived one, the partition.
    """

    part: str
    files: int
    bytes: int


class FileFacts(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a table's data files.

    Attributes:
        read_at: When they were read, in seconds since the epoch.
        parts: The parts with the most small files, in this order.
    """

    version: int
    read_at: float
    small: int
    parts: tuple[SmallFiles, ...]

    def may_be_outdated(self, version: int, now: datetime) -> bool:
        """Return whether to read the files again: the table has another version, and some time has passed."""
        return self.version != version and abs(now.timestamp() - self.read_at) >= FILES_EVERY


def file_facts(files: Iterable[tuple[str, int]], version: int, now: datetime) -> FileFacts:
    """Return the facts about the data files of a version of a table, given the part and bytes of each."""
    parts: dict[str, tuple[int, int]] = {}
    for part, size in files:
        if size < SMALL_BYTES:
            number, total = parts.get(part, (0, 0))
            parts[part] = (number + 1, total + size)
    found = [SmallFiles(part, number, size) for part, (number, size) in parts.items()]
    found.sort(key=lambda each: (each.files, each.part), reverse=True)
    return FileFacts(version, now.timestamp(), sum(each.files for each in found), tuple(found[:WORST]))


def check_compaction_debt(check: CompactionDebtCheck, facts: FileFacts, part: str) -> CheckResult:
    """Check that maintenance keeps up with the small files, by day or by partition, as `part` says."""
    passed = facts.small <= check.max_small_files
    small = counted(facts.small, "small file")
    if passed:
        description = f"{small}, at most {check.max_small_files} are allowed"
    else:
        description = (
            f"{small}, more than {check.max_small_files}: each one makes opening the table slower. See "
            "whether the maintenance job runs, or schedule it more often"
        )
    rows = [
        {part: each.part, "files": str(each.files), "size": f"{each.bytes / 1e6:.1f} MB"}
        for each in facts.parts
    ]
    metadata = {"small files": facts.small, **worst(rows, f"{part}s")}
    return CheckResult("compaction_debt", passed, check.severity, description, metadata)
