"""What 50,000 finished shards add to a tick, a plan and a commit: in the archive, and while still listed."""

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

from benchmarks.section import Section, table
from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.names import shard_partitions
from kinesis_assets.dagster.sensor import evaluate
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.table.commit import commit
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions_chain import POSITIONS_FOLDER, ChainPolicy
from kinesis_assets.table.table import PositionedTable
from kinesis_assets.testing import LocalKinesis, aws_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions import ShardPosition, StreamPositions

FINISHED = 50_000
OPEN = 4
ROUNDS = 21
SEGMENT_SHARDS = 256
"""Of the archive, as commits write it."""

STREAM = "often-resharded"


def section(full: bool) -> Section:
    """Of the report."""
    del full
    cases = {
        "none": _measured(0, listed=False),
        f"{FINISHED:,} in the archive": _measured(FINISHED, listed=False),
        f"{FINISHED:,} that are still listed": _measured(FINISHED, listed=True),
    }
    what = (
        f"A stream of {OPEN} open shards. CPU of this process, the median of {ROUNDS}; each time the table "
        "is opened and its positions are read. Each finished shard has its partition in Dagster. What a "
        "tick takes more for those in the archive is the query for the newest partitions in Dagster's "
        "database. Of those that are still listed, neither a tick nor the listing itself is measured."
    )
    columns = ["finished shards", "sensor tick, ms", "plan of a run, ms", "commit, ms", "largest file, KB"]
    rows = [[name, *map(str, row)] for name, row in cases.items()]
    return Section("Finished shards", f"{what}\n\n{table(columns, rows)}")


def _measured(finished: int, *, listed: bool) -> list[str]:
    """CPU of a tick, of a plan and of a commit, and the largest positions file."""
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
            ended = _end(uri, listing, finished, archived=not listed)
            open_shards = [shard.shard_id for shard in listing.shards]
            partitions = str(shard_partitions(STREAM).name)
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
                seen = listing.summary.service_time
                moved = {
                    shard_id: msgspec.structs.replace(planned.expected.shards[shard_id], tip_time=seen)
                    for shard_id in open_shards
                }
                commit(
                    PositionedTable(uri),
                    expected=planned.expected,
                    listing=planned.listing,
                    batch_id=planned.batch_id,
                    moved=moved,
                    files=[],
                    landed={},
                )

            if not listed:
                tick()  # it reports the commits before it
            return [
                "-" if listed else _cpu(tick),
                _cpu(plan),
                _cpu(commit_of, plan),
                f"{max(file.stat().st_size for file in Path(uri, POSITIONS_FOLDER).iterdir()) / 1000:,.1f}",
            ]


def _end(uri: str, listing: StreamListing, count: int, *, archived: bool) -> dict[str, Shard]:
    """Record so many shards as read to their end; their ids are before those of the open ones."""
    archiving = PositionedTable(uri, ChainPolicy(max_files=0, min_archived=1))
    snapshot = archiving.snapshot()
    positions = snapshot.positions(listing.summary.identity)
    assert positions is not None
    like = next(iter(positions.shards.values()))
    ended = {
        shard_id: Shard(shard_id, (), (str(number << 100), str((number + 1 << 100) - 1)), "1", closed=True)
        for number, shard_id in enumerate(f"shardId-000-{number:08}" for number in range(count))
    }
    recorded = {
        shard_id: msgspec.structs.replace(
            like,
            hash_range=shard.hash_range,
            position=Position.after(str(1 << 180 + place % 4)),
            finished=True,
        )
        for place, (shard_id, shard) in enumerate(ended.items())
    }
    ids, size = list(recorded), SEGMENT_SHARDS if archived else count
    for first in range(0, count, size or 1):
        part = ids[first : first + size]
        positions = _following(positions, {shard_id: recorded[shard_id] for shard_id in part})
        archiving.chain.write(positions, retired=part if archived else ())
        positions = archiving.chain.positions_at(positions.commit_id)
    if count:
        snapshot.commit([], identity=positions.identity, positions=_following(positions, {}))
    return ended


def _following(positions: StreamPositions, ended: Mapping[str, ShardPosition]) -> StreamPositions:
    commit_id = new_id()
    return msgspec.structs.replace(
        positions,
        commit_id=commit_id,
        previous=positions.commit_id,
        generation=positions.generation + 1,
        batch_id=commit_id,
        shards={**positions.shards, **ended},
    )


def _cpu(do: Callable[..., object], before: Callable[[], object] | None = None) -> str:
    """Milliseconds of CPU, the median."""
    spent = []
    for _ in range(ROUNDS):
        given = [] if before is None else [before()]
        began = time.process_time()
        do(*given)
        spent.append(time.process_time() - began)
    return f"{statistics.median(spent) * 1000:.1f}"
