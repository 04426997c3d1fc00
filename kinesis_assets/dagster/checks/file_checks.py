"""The checks of a table's data files, from the statistics in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.result import WORST, CheckResult, counted, worst
from kinesis_assets.table.maintenance.compaction import SMALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kinesis_assets.dagster.checks.settings import CompactionDebtCheck
    from kinesis_assets.table.file_stats import ActiveFile


class SmallFiles(msgspec.Struct, frozen=True, array_like=True):
    """The small files of one day.

    Attributes:
        day: The arrival date of their rows, as an ISO date in UTC.
        files: Their number.
        bytes: Their size together.
    """

    day: str
    files: int
    bytes: int


class FileFacts(msgspec.Struct, frozen=True, array_like=True):
    """What is remembered of a table's data files.

    Attributes:
        version: The version of the table.
        read_at: When they were read, in seconds since the epoch.
        small: The number of small files.
        days: The days with the most small files, in this order.
    """

    version: int
    read_at: float
    small: int
    days: tuple[SmallFiles, ...]


def file_facts(files: Iterable[ActiveFile], version: int, now: datetime) -> FileFacts:
    """Return the facts about the data files of a version of a table.

    Args:
        files: The files.
        version: The version.
        now: The time.
    """
    days: dict[str, tuple[int, int]] = {}
    for file in files:
        if file.size < SMALL_BYTES:
            number, size = days.get(file.arrival_date, (0, 0))
            days[file.arrival_date] = (number + 1, size + file.size)
    found = [SmallFiles(day, number, size) for day, (number, size) in days.items()]
    found.sort(key=lambda each: (each.files, each.day), reverse=True)
    return FileFacts(version, now.timestamp(), sum(each.files for each in found), tuple(found[:WORST]))


def check_compaction_debt(check: CompactionDebtCheck, facts: FileFacts) -> CheckResult:
    """Check that maintenance keeps up with the small files.

    Args:
        check: The bound.
        facts: The facts about the data files.
    """
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
        {"day": day.day, "files": str(day.files), "size": f"{day.bytes / 1e6:.1f} MB"} for day in facts.days
    ]
    return CheckResult(
        "compaction_debt",
        passed,
        check.severity,
        description,
        {"small_files": facts.small, **worst(rows, "days")},
    )
