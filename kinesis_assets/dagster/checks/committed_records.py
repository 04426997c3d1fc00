"""The records of a derived table, from the records of its commits in the last day."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.bad_records import BadRecords, RecordCounter
from kinesis_assets.errors import PositionsUnreadable

if TYPE_CHECKING:
    from kinesis_assets.derive.derived_table import DerivedCommit, RecordFiles

UNDECODED = "The column error says why; correct the schema or the producer"
"""The advice about bad records of a derived table."""

MAX_COMMITS = 200
"""The maximum number of commits that a step counts, from the newest one."""


def count_committed(
    records: RecordFiles,
    newest: DerivedCommit,
    before: BadRecords,
    now: float,
    *,
    max_commits: int = MAX_COMMITS,
) -> BadRecords:
    """Add the records of the commits since the last time. Commits that did not count theirs are left out.

    Args:
        records: The records of the table's commits.
        newest: The newest commit.
        before: What was counted so far.
        now: The time, in seconds since the epoch.
        max_commits: The maximum number of commits to read.
    """
    counter = RecordCounter(before, now)
    with suppress(PositionsUnreadable):  # no run needs the earlier records
        for commit in islice(records.back_from(newest), max_commits):
            time = commit.at.timestamp()
            if commit.commit_id == before.through or time < counter.since:
                break
            if commit.records is not None:
                counter.add(time, commit.records, commit.bad_records or 0)
    return counter.counted(newest.commit_id)
