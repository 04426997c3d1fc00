"""How a table is written: when files are split, commits repeated and shards archived, and by which clock.

It also has the Delta properties of a new table, and how long files and log entries are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from kinesis_assets.kinesis.clock import MACHINE_CLOCK, Clock
from kinesis_assets.retry import Backoff, full_jitter
from kinesis_assets.table.data_file import STATISTICS
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.positions.positions_chain import ChainPolicy


@dataclass(frozen=True, slots=True)
class CommitRetries:
    """How often, and after which waits, a commit is tried.

    Attributes:
        tries: Maximum number of failed tries. Those that another commit overtook do not count: only
        `seconds` limits them.
        refusals: Consecutive tries that are refused, for lack of permission or the like, after which no other
            is made. A single refusal may be due to credentials that are being replaced.
        seconds: Maximum seconds for all tries.
        backoff: The wait after a failed try.
        overtaken: The wait after another commit was first. It does not grow, so that each run gets its turn.
    """

    tries: int = 40
    refusals: int = 2
    seconds: float = 600.0
    backoff: Backoff = Backoff(0.05, 1.0, full_jitter)
    overtaken: Backoff = Backoff(0.1, 0.1, full_jitter)


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """How a table is written.

    Only tests and benchmarks replace the defaults.

    Attributes:
        chain: When a positions file holds all shards, and when shards are archived.
        commits: How often a commit is tried.
    """

    chain: ChainPolicy = ChainPolicy()
    commits: CommitRetries = CommitRetries()
    data_files: FileLayout = FileLayout()
    clock: Clock = MACHINE_CLOCK


VACUUM_RETENTION = timedelta(days=7)
"""Files that no commit refers to are kept for at least this long after they were written."""

HISTORY_RETENTION = timedelta(days=1)
"""Older versions of the table stay readable for this long: log entries that a checkpoint covers, and the
`remove` actions of deleted files, are kept until then. Spark's VACUUM keeps uncommitted files for as long.

Commits do not depend on older entries: a commit that is based on a version whose entry was deleted is refused
and tried again. Longer retention makes opening the table slower: a reader skips each action and, in a
local folder, each entry. In a bucket it lists only the entries after the newest checkpoint."""

DELETED_RETENTION = "delta.deletedFileRetentionDuration"

STATISTICS_PROPERTY = "delta.dataSkippingStatsColumns"
"""The columns whose statistics readers use to skip files."""

HISTORY_PROPERTIES = {
    "delta.logRetentionDuration": f"interval {HISTORY_RETENTION.days} days",
    DELETED_RETENTION: f"interval {HISTORY_RETENTION.days} days",
}
"""A table where one of them has another value keeps its own values of both."""

TABLE_PROPERTIES = HISTORY_PROPERTIES | {
    # Replay and doctor skip files by these statistics. Those of `data` would only make the log larger.
    STATISTICS_PROPERTY: ",".join(STATISTICS),
    # Opening the table takes one request for the newest checkpoint and one for each later entry. Writing a
    # checkpoint takes time in proportion to the table's files and `remove` actions.
    "delta.checkpointInterval": "20",
}
"""The properties of a new table. Maintenance adds those that an older table lacks."""


_INTERVAL = re.compile(
    r"\s*(?:interval\s+)?(\d{1,9})\s+(second|minute|hour|day|week)s?\s*", re.IGNORECASE | re.ASCII
)


def parse_interval(text: str) -> timedelta | None:
    """Parse the value of a property. Returns None if it is not an interval."""
    found = _INTERVAL.fullmatch(text)
    try:
        return None if found is None else timedelta(**{f"{found[2].lower()}s": int(found[1])})
    except OverflowError:  # more than 2.7 million years
        return None
