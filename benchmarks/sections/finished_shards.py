"""What 50,000 finished shards add to a sensor tick, a plan and a commit: archived, and while still listed."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import boto3
import dagster as dg
import msgspec

from benchmarks.data.finished_shards import finish_shards
from benchmarks.harness.section import Section, markdown_table
from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.table.commits.commit import commit
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.testing import LocalKinesis, aws_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.ingest.plan import RunPlan

FINISHED = 50_000
OPEN = 4
ROUNDS = 21

STREAM = "often-resharded"


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    cases = {
        "none": _measure(0, listed=False),
        f"{FINISHED:,} in the archive": _measure(FINISHED, listed=False),
        f"{FINISHED:,} that are still listed": _measure(FINISHED, listed=True),
    }
    text = (
        f"The stream has {OPEN} open shards. The figures are CPU of this process, the median of {ROUNDS}, "
        "and include opening the table and reading its positions. Each finished shard has a partition in "
        "Dagster. The additional time of a tick with archived shards is the query for the newest partitions "
        "in Dagster's database. For shards that are still listed, the tick and the listing itself are not "
        "measured."
    )
    columns = ["finished shards", "sensor tick, ms", "plan of a run, ms", "commit, ms", "largest file, KB"]
    rows = [[name, *map(str, row)] for name, row in cases.items()]
    return Section("Finished shards", f"{text}\n\n{markdown_table(columns, rows)}")


def _measure(finished: int, *, listed: bool) -> list[str]:
    """Return the CPU of a tick, a plan and a commit, and the size of the largest positions file."""
    with (
        LocalKinesis() as local,
        patch.dict(os.environ, aws_environment(local)),
        tempfile.TemporaryDirectory() as home,
    ):
        Path(home, "dagster.yaml").touch()
        uri = str(Path(home, "table"))
        kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
        kinesis.create_stream(StreamName=STREAM, ShardCount=OPEN)
        definitions = build_kinesis_stream(STREAM, table=uri, endpoint_url=local.endpoint_url)
        with (
            dg.DagsterInstance.from_config(home) as instance,
            StreamProject(STREAM, definitions).open_stream() as opened,
        ):
            client, policy = opened.client, ReadPolicy()
            listing = plan_run(client, PositionedTable(uri), asked=[], policy=policy).listing
            ended = finish_shards(uri, listing.summary.identity, finished, archived=not listed)
            open_shards = [shard.shard_id for shard in listing.shards]
            partitions = StreamNames(STREAM).partitions_name
            instance.add_dynamic_partitions(partitions, [*ended, *open_shards])
            if listed:
                listing = replace(listing, shards=[*ended.values(), *listing.shards])
            cursor: str | None = None

            def tick() -> None:
                nonlocal cursor
                cursor = evaluate(opened, instance, cursor).cursor

            def plan() -> RunPlan:
                asked, opened = open_shards, PositionedTable(uri)
                return plan_run(client, opened, asked=asked, policy=policy, listing=listing)

            def commit_of(planned: RunPlan) -> None:
                now = listing.summary.service_time
                moved = {
                    shard_id: msgspec.structs.replace(planned.expected.shards[shard_id], tip_time=now)
                    for shard_id in open_shards
                }
                commit(
                    PositionedTable(uri),
                    expected=planned.expected,
                    listing=planned.listing,
                    batch_id=planned.batch_id,
                    moved=moved,
                    files=[],
                    added={},
                )

            if not listed:
                tick()  # reports the commits so far
            return [
                "-" if listed else _cpu(tick),
                _cpu(plan),
                _cpu(commit_of, plan),
                f"{max(file.stat().st_size for file in Path(uri, POSITIONS_FOLDER).iterdir()) / 1000:,.1f}",
            ]


def _cpu(work: Callable[..., object], prepare: Callable[[], object] | None = None) -> str:
    """Return the median CPU time of a function in milliseconds.

    Args:
        work: The function.
        prepare: Returns the argument of the function; not measured.
    """
    seconds = []
    for _ in range(ROUNDS):
        arguments = [] if prepare is None else [prepare()]
        started = time.process_time()
        work(*arguments)
        seconds.append(time.process_time() - started)
    return f"{statistics.median(seconds) * 1000:.1f}"
