"""Runs without Spark and Dagster: this process plans, lands as one task, and commits."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import LandingJob, client_of, land_group
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, ShardRange
from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.ingest.manifest import Landing

REGION = "us-east-1"

NO_CALL_PACING = ReadTiming(seconds_between_calls=0.0, bytes_per_second=1 << 60)
"""Pages of a shard are requested as fast as they arrive. Kinesis allows five calls and 2 MB per second and
shard. Waiting for them costs time, but no CPU."""


def run(url: str, stream: str, folder: str) -> None:
    """Plan the next range of every shard, land it as one task, and commit it to the table in a folder."""
    client = client_of(stream, ClientSettings(REGION, url, timing=NO_CALL_PACING))
    table = PositionedTable(folder)
    listing = client.listing()
    asked = [shard.shard_id for shard in listing.shards]
    plan = plan_run(client, table, asked=asked, policy=ReadPolicy(), listing=listing)
    result = execute_run(land_group, client, table, plan)
    assert not result.errors, result.errors


def prepare_landing(
    url: str, stream: str, folder: str, timing: ReadTiming = NO_CALL_PACING
) -> Callable[[], Landing]:
    """Return a function that lands all shards from TRIM_HORIZON as one task, without a plan or a commit."""
    settings = ClientSettings(REGION, url, timing=timing)
    bounds = Bounds(until=datetime.now(UTC) + timedelta(hours=1))
    ranges = [
        ShardRange(shard.shard_id, Position(PositionKind.TRIM_HORIZON), bounds, shard.hash_range)
        for shard in client_of(stream, settings).list_shards()
    ]
    job = LandingJob(stream, settings, TableFolder.at(folder), new_id(), math.inf)

    def land() -> Landing:
        landing = land_group(job, ranges, Allowance())
        errors = [shard.error for shard in landing.shards if shard.error]
        assert not errors, errors
        return landing

    return land
