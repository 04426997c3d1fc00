"""The check of a table's small files, from the statistics in its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.dagster.checks.result import WORST, CheckResult, counted, worst
from kinesis_assets.table.maintenance.compaction import SMALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from kinesis_assets.dagster.settings.check_settings import CompactionDebtCheck

FILES_EVERY = 600.0
"""Minimum seconds from one reading of the data files' statistics to the next: it takes time for each file."""


class SmallFiles(msgspec.Struct, frozen=True, array_like=True):
    """The small files of one part of a table.

    Attributes:
        part: The part: of a raw table, the arrival date of the rows; of a derived one, the partition.
        files: Their number.
        bytes: Their size together.
    """

    part: str
    files: int
    bytes: int


class FileFacts(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a table's data files.

    Attributes:
        version: The version of the table.
        read_at: When they were read, in seconds since the epoch.
        small: The number of small files.
        parts: The parts with the most small files, in this order.
    """

    version: int
    read_at: float
    small: int
    parts: tuple[SmallFiles, ...]

    def may_be_outdated(self, version: int, now: datetime) -> bool:
        """Return whether to read the files again: the table has another version, and some time has passed.

        Args:
            version: The version of the table.
            now: The time.
        """
        return self.version != version and abs(now.timestamp() - self.read_at) >= FILES_EVERY


def file_facts(files: Iterable[tuple[str, int]], version: int, now: datetime) -> FileFacts:
    """Return the facts about the data files of a version of a table.

    Args:
        files: The part and the size in bytes of each file.
        version: The version.
        now: The time.
    """
    parts: dict[str, tuple[int, int]] = {}
    for part, size in files:
        if size < SMALL_BYTES:
            number, total = parts.get(part, (0, 0))
            parts[part] = (number + 1, total + size)
    found = [SmallFiles(part, number, size) for part, (number, size) in parts.items()]
    found.sort(key=lambda each: (each.files, each.part), reverse=True)
    return FileFacts(version, now.timestamp(), sum(each.files for each in found), tuple(found[:WORST]))


def check_compaction_debt(check: CompactionDebtCheck, facts: FileFacts, part: str) -> CheckResult:
    """Check that maintenance keeps up with the small files.

    Args:
        check: The bound.
        facts: The facts about the data files.
        part: What a part of the table is, in the metadata.
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
        {part: each.part, "files": str(each.files), "size": f"{each.bytes / 1e6:.1f} MB"}
        for each in facts.parts
    ]
    return CheckResult(
        "compaction_debt",
        passed,
        check.severity,
        description,
        {"small files": facts.small, **worst(rows, f"{part}s")},
    )
