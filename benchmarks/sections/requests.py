"""The requests to S3 of a run, a commit, a tick of the sensor and maintenance, at an emulated bucket."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import uuid4

import boto3
import dagster as dg

from benchmarks.data.tip_commits import commit_tip
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.servers.bucket import bucket, upload
from benchmarks.servers.request_log import RequestLog, Requests
from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.checks.evaluation import Evaluation
from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.steps.stream_totals import TotalsEvents
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.land import packed
from kinesis_assets.ingest.manifest import Landing
from kinesis_assets.ingest.outcome import RunTotals
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.policy import TABLE_PROPERTIES
from kinesis_assets.table.run_files.heartbeat import Heartbeat
from kinesis_assets.table.run_files.pause import read_pause
from kinesis_assets.testing import LocalKinesis, aws_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.ingest.task import LandingJob
    from kinesis_assets.kinesis.reading.range import Allowance, ShardRange
    from kinesis_assets.kinesis.stream import StreamListing

CYCLE = int(TABLE_PROPERTIES["delta.checkpointInterval"])
"""Number of commits from one checkpoint of the log to the next."""

QUIET_TICK = "tick of the sensor, nothing new"
TICK = "tick of the sensor, new records"
RUN = "run"
COMMIT = "commit of a continuous run"
MAINTENANCE = "maintenance, without compaction"
OPERATIONS = (QUIET_TICK, TICK, RUN, COMMIT, MAINTENANCE)

MOST = {TICK: 65, RUN: 215, COMMIT: 95}
"""The largest numbers of requests that are accepted for a table with 100 shards and 2 tasks."""


@dataclass(frozen=True)
class Table:
    """A table that is measured.

    Attributes:
        shards: Number of shards of its stream.
        tasks: Number of tasks of a landing, each of which writes one file.
        commits: Number of commits before the measurement.
    """

    shards: int
    tasks: int
    commits: int


TABLES = (Table(1, 1, CYCLE + 10), Table(1, 1, 5 * CYCLE + 10), Table(100, 2, CYCLE + 10))
"""Tables that differ in one respect each. All of them have as many commits since the newest checkpoint."""


def measure(tables: Sequence[Table] = TABLES) -> list[Mapping[str, Requests]]:
    """Return the requests of each operation, by its name, for each table. Those of a commit are the mean over
    all commits from one checkpoint to the next.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        local = stack.enter_context(LocalKinesis())
        stack.enter_context(patch.dict(os.environ, aws_environment(local)))
        uri = stack.enter_context(bucket(folder / "requests"))
        log = RequestLog(folder / "requests")
        instance = stack.enter_context(dg.DagsterInstance.ephemeral())
        measured = []
        for table in tables:
            deployment = _Deployment(table, local, instance, log)
            deployment.fill(folder)
            upload(folder / deployment.stream, deployment.stream)
            deployment.store_in(f"{uri}/{deployment.stream}")
            measured.append(deployment.measure())
        return measured


@dataclass
class _Deployment:
    """A stream, its table and its sensor, without Spark."""

    table: Table
    local: LocalKinesis
    instance: dg.DagsterInstance
    log: RequestLog
    project: StreamProject = field(init=False)
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.stream = f"shards-{self.table.shards}-commits-{self.table.commits}"
        self.kinesis: Any = boto3.client(
            "kinesis", endpoint_url=self.local.endpoint_url, region_name=self.local.region
        )
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=self.table.shards)
        listed = self.kinesis.list_shards(StreamName=self.stream)["Shards"]
        self.keys = {shard["ShardId"]: shard["HashKeyRange"]["StartingHashKey"] for shard in listed}

    def store_in(self, uri: str) -> None:
        """Define the stream with a table at a path or URI."""
        definitions = build_kinesis_stream(self.stream, table=uri, endpoint_url=self.local.endpoint_url)
        self.project = StreamProject(self.stream, definitions)

    def fill(self, folder: Path) -> None:
        """Commit to a table on the disk, since a bucket takes longer."""
        self.store_in(str(folder / self.stream))
        self.put()
        with self.project.open_stream() as opened:
            listing = self._run(opened)
            for _ in range(self.table.commits):
                commit_tip(opened.table, listing)

    def measure(self) -> Mapping[str, Requests]:
        """Return the requests of each operation."""
        for _ in range(2):  # they add the partitions and the events of all commits
            self.tick()
        self.log.take()
        assert not self.tick()
        requests = {QUIET_TICK: self.log.take()}
        self.put()
        self.log.take()
        assert self.tick()
        requests[TICK] = self.log.take()
        requests[RUN] = self.run()
        commits = self.commits()
        requests[COMMIT] = sum(commits, Requests()) * (1 / len(commits))
        with self.project.open_stream() as opened:
            self.log.take()
            list(maintain(opened.table, opened.client.describe()))
            requests[MAINTENANCE] = self.log.take()
        return requests

    def put(self) -> None:
        """Put a record into each shard."""
        entries = [
            {"Data": b"order", "PartitionKey": "k", "ExplicitHashKey": key} for key in self.keys.values()
        ]
        self.kinesis.put_records(StreamName=self.stream, Records=entries)

    def tick(self) -> bool:
        """Evaluate the sensor as a new process does, and return whether it requested a run."""
        with self.project.open_stream() as opened:
            result = evaluate(opened, self.instance, self.cursor)
        self.cursor = result.cursor
        for request in result.dynamic_partitions_requests or []:
            name = StreamNames(self.stream).partitions_name
            self.instance.add_dynamic_partitions(name, list(request.partition_keys))
        for event in result.asset_events:
            self.instance.report_runless_asset_event(event)
        return bool(result.run_requests)

    def run(self) -> Requests:
        """Do what a run does with the table: also its heartbeats, its totals and its checks."""
        self.log.take()
        with self.project.open_stream() as opened, Heartbeat(opened.table, str(uuid4()), seconds=3600):
            listing = self._run(opened)
            TotalsEvents(opened.names.raw_key, opened, self.instance, listing.summary).event(
                RunTotals(), set()
            )
            Evaluation(
                opened,
                self.instance,
                listing,
                opened.table.snapshot(),
                machine_time=datetime.now(UTC),
                waiting=(),
                failing={},
                pause=read_pause(opened.table),
                before=Cursor.parse(self.cursor).checks,
            )
        return self.log.take()

    def commits(self) -> list[Requests]:
        """Return the requests of each commit of a continuous run."""
        found = []
        with self.project.open_stream() as opened:
            for _ in range(CYCLE):
                self.put()
                self.log.take()
                self._run(opened, is_iteration=True)
                found.append(self.log.take())
        return found

    def _run(self, opened: OpenStream, *, is_iteration: bool = False) -> StreamListing:
        plan = plan_run(opened.client, opened.table, asked=list(self.keys), policy=opened.policy)
        result = execute_run(self._land, opened.client, opened.table, plan, is_iteration=is_iteration)
        assert result.version is not None, result
        return plan.listing

    def _land(self, job: LandingJob, ranges: Sequence[ShardRange], allowance: Allowance) -> Landing:
        groups = packed(ranges, self.table.tasks)
        return sum((land_group(job, group, allowance) for group in groups), Landing())


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    measured = measure()
    text = (
        "Requests to an emulated bucket. A tick and a run open the table as a new process does. A run "
        "includes its heartbeats at its start and its end, its totals and its checks. A longer run adds a "
        "PUT every 30 s for its heartbeat and, every 10 s, a PUT for each task and a LIST for its log; each "
        "task adds a HEAD a second. A tick while a run is active adds a LIST. The requests of a commit are "
        f"the mean over the {CYCLE} commits from one checkpoint of the log to the next; those of the others "
        "depend on how many commits there are since the newest checkpoint, here 10. The prices are those of "
        "S3 Standard in us-east-1."
    )
    columns = ["", "shards", "tasks", "commits before", "GET", "HEAD", "LIST", "PUT", "$ for 1,000"]
    rows = [
        [
            operation,
            *(f"{each:,}" for each in (table.shards, table.tasks, table.commits)),
            *(f"{each:.4g}" for each in (found.get, found.head, found.list, found.put)),
            f"{found.dollars * 1000:.3f}",
        ]
        for operation in OPERATIONS
        for table, requests in zip(TABLES, measured, strict=True)
        for found in (requests[operation],)
    ]
    return Section("Requests to S3", f"{text}\n\n{markdown_table(columns, rows)}", [target(measured[-1])])


def target(measured: Mapping[str, Requests]) -> Target:
    """Return the result for the goal of the requests, from those for the last of `TABLES`."""
    found = {operation: measured[operation].charged for operation in MOST}
    tick, run, commit = (f"{requests:.4g}" for requests in found.values())
    return Target(
        Goal.REQUESTS,
        f"{tick}, {run} and {commit}",
        all(requests <= MOST[operation] for operation, requests in found.items()),
    )
