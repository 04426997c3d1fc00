"""What each part of the suite gives: a section of the report, what it says of the targets, its charts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Goal(Enum):
    """The targets, in the order of the report: what, and how much."""

    LESS_THAN_DISCARD = (
        "landing, HTTP to committed Delta, CPU per GB beside the boto3 loop that discards",
        "5x less",
    )
    LESS_THAN_SPARK = ("landing, CPU per GB beside boto3 rows through Spark", "6.5x less")
    OVERHEAD = ("landing over its bare parts: typed read, Parquet write", "at most 1.25")
    FASTER_THAN_DLT = ("landing beside dlt's Kinesis source to Parquet, records a second", "at least 25x")
    SMALL_PAGES = (
        "pages of 100 records, 100 ms latency, 64 shards in 2 tasks",
        "at least 60,000 records a second",
    )
    SMALL_PAGES_256 = ("the same with 256 shards", "no slower")
    IDLE_SHARD_CPU = ("1,000 shards, nothing new: CPU of a run for each, planning included", "at most 5 ms")
    IDLE_SHARD_CALLS = ("1,000 shards, nothing new: API calls for each", "at most 3")
    THOUSAND_SHARDS = (
        "1,000 shards, 1,000 records each: whole run",
        "at most 40 s, one commit, at most 8 files an arrival date",
    )
    SENSOR_TICK = ("sensor tick at 1,000 shards, 20 ms latency", "at most 8 s")
    PEAK_MEMORY = (
        "peak memory of a task over idle, any record size up to 10 MiB, 64 shards at once",
        "at most 512 MiB",
    )
    COMMITS = (
        "load and commit at 10,000 commits, maintenance on",
        "at most 100 ms, flat from 1,000 on",
    )
    FAIR_COMMITS = (
        "10 runs on different shards, 20 ms for each request: commits of the one that made fewest",
        "at least half of the mean",
    )
    CHAIN_BYTES = (
        "1,000 shards that all move, a commit a second: positions files of 3 days",
        "at most 10 GB",
    )
    FRESHNESS = ("put to row visible in the table, steady trickle, follow mode, p95", "at most 3 s")
    IMPORTS = ("what a stream's definitions add to `import dagster`, CPU of a process", "at most 0.3 s")

    @property
    def what(self) -> str:
        """What is measured."""
        return self.value[0]

    @property
    def target(self) -> str:
        """How much it is to be."""
        return self.value[1]


@dataclass(frozen=True)
class Target:
    """What was measured for a goal.

    Attributes:
        goal: Which.
        measured: In numbers with their unit; why not, where it was not measured.
        met: None where it was not measured.
    """

    goal: Goal
    measured: str
    met: bool | None


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        title: Its heading.
        markdown: What stands under it.
        targets: What it measured for goals.
        charts: PNG files in `charts/`, by their caption.
    """

    title: str
    markdown: str
    targets: Sequence[Target] = ()
    charts: Mapping[str, Path] = field(default_factory=dict)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
