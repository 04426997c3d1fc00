"""What a section of the report consists of: its text, the targets that it measures, its charts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.harness.charts import Chart


class Goal(Enum):
    """The targets, in the order of the report: what is measured, and its bound."""

    LESS_THAN_DISCARD = (
        "CPU per GB of a landing (HTTP to committed Delta), compared with a boto3 loop that discards records",
        "5x less",
    )
    LESS_THAN_SPARK = ("CPU per GB of a landing, compared with boto3 rows written by Spark", "6.5x less")
    OVERHEAD = (
        "CPU per GB of a landing, relative to its bare parts (typed read and Parquet write)",
        "at most 1.25",
    )
    CLUSTER_CPU = (
        "CPU per GB of a landing on a standalone cluster with 2 executors, compared with a local session",
        "at most 1.1x",
    )
    FASTER_THAN_DLT = (
        "records per second of a landing, compared with dlt's Kinesis source writing Parquet",
        "at least 25x",
    )
    SMALL_PAGES = (
        "small pages: 100 records each, 100 ms latency, 64 shards in 2 tasks",
        "at least 60,000 records per second",
    )
    SMALL_PAGES_256 = ("small pages with 256 shards", "no slower")
    IDLE_SHARD_CPU = ("CPU per shard of a run over 1,000 idle shards, planning included", "at most 5 ms")
    IDLE_SHARD_CALLS = ("API calls per shard of a run over 1,000 idle shards", "at most 3")
    THOUSAND_SHARDS = (
        "whole run over 1,000 shards with 1,000 records each",
        "at most 40 s, one commit, at most 8 files per arrival date",
    )
    DEPLOYED_RUN = (
        "plan, probe, landing, commit and report of a run of the sensor on PostgreSQL, over the same shards",
        "at most 20 s, and no run without new records",
    )
    SENSOR_TICK = ("sensor tick with 1,000 shards and 20 ms latency", "at most 8 s")
    PEAK_MEMORY = (
        "peak memory of a task above idle, records of any size up to 10 MiB, 64 shards at once",
        "at most 512 MiB",
    )
    STEP_MEMORY = (
        "peak memory of a local session with its default settings, which upserts 64 JSON documents of 10 MiB",
        "at most 3 GiB",
    )
    COMPARISON_MEMORY = (
        "peak memory of a comparison with another table, which finds 10 planted differences of each kind",
        "at most 3 GiB with 10 million records",
    )
    COMMITS = (
        "load and commit after 10,000 commits, with maintenance",
        "at most 100 ms, flat from 1,000 commits on",
    )
    REQUESTS = (
        "requests to S3 of a tick, of a run and of a commit of a continuous run, with 100 shards in 2 tasks",
        "at most 65, 215 and 95",
    )
    FAIR_COMMITS = (
        "10 runs on different shards, 20 ms per request: commits of the run with the fewest",
        "at least half of the mean",
    )
    ICEBERG_UPSERT = (
        "CPU of an upsert of 10,000 keys into 10 million rows in Iceberg, compared with Delta",
        "at most 1.5x, with keys in one file and in all",
    )
    CHAIN_BYTES = (
        "positions files of 3 days, for 1,000 shards that all move and one commit per second",
        "at most 10 GB",
    )
    FRESHNESS = (
        "time from put to visible row in a continuous run, with a steady trickle of records, p95",
        "at most 3 s",
    )
    FAN_OUT_FRESHNESS = (
        "the same with a consumer, beside three others that poll as often as a shard allows",
        "at most 1.2 s",
    )
    FAN_OUT_CPU = (
        "CPU of landings with a consumer, of the driver and of Spark, for each MB",
        "at most 15 ms",
    )
    DERIVED_FRESHNESS = (
        "time from put to visible row in a typed table that the same continuous run moves, p95",
        "at most 5 s",
    )
    INCREMENT = (
        "CPU of 10,000 new rows in a derived table below 100 million rows, compared with 1 million",
        "at most 1.5x",
    )
    TYPED_JSON = (
        "CPU per GB of a typed table from JSON, compared with delta-spark's read, from_json and write",
        "at most 0.3x",
    )
    ROUTES = (
        "CPU of five typed tables from one stream, compared with one table that decodes the same records",
        "at most 1.6x",
    )
    LINES = (
        "CPU per GB of a typed table from records of 100 lines of JSON, compared with a document a record",
        "at most 1.2x",
    )
    DEBEZIUM = (
        "CPU per GB of a typed table from changes of Debezium, compared with plain JSON",
        "at most 2x",
    )
    DYNAMODB = ("the same from changes of DynamoDB", "at most 2x")
    PROTOBUF = (
        "CPU of a typed table from Protobuf, compared with the same documents in JSON",
        "at most 1x",
    )
    UPSERT_CLUSTERED = (
        "CPU of an upsert of 10,000 keys in one file of 10 million rows, compared with delta-spark's MERGE",
        "at most 0.5x",
    )
    UPSERT_SCATTERED = ("the same with keys in all files", "at most 0.5x")
    ICEBERG_LANDING = (
        "CPU per GB of a landing in an Iceberg table, compared with a Delta table",
        "at most 1.1x",
    )
    ICEBERG_COMMITS = (
        "a commit to an Iceberg table after 10,000 commits, with the snapshots that are kept by default",
        "at most 60 ms of CPU and 100 KB, flat from 1,000 commits on",
    )
    ICEBERG_FAIRNESS = (
        "4 runs on different shards of an Iceberg table: commits of the run with the fewest",
        "at least half of the mean",
    )
    IMPORTS = ("CPU that a stream's definitions add to `import dagster`, in a new process", "at most 0.3 s")

    @property
    def description(self) -> str:
        """What is measured."""
        return self.value[0]

    @property
    def bound(self) -> str:
        """The value that the measurement should reach."""
        return self.value[1]


@dataclass(frozen=True)
class Target:
    """The result for a goal.

    Attributes:
        goal: The goal.
        measured: Numbers with their unit, or the reason why it was not measured.
        met: Whether the goal was met; None if it was not measured.
    """

    goal: Goal
    measured: str
    met: bool | None


@dataclass(frozen=True)
class Section:
    """One section of the report.

    Attributes:
        title: The heading.
        markdown: The text below the heading.
        targets: The targets that the section measured.
        charts: The charts below the text.
    """

    title: str
    markdown: str
    targets: Sequence[Target] = ()
    charts: Sequence[Chart] = ()


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
