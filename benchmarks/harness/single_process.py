"""Runs without Spark and Dagster: plan, one task's landing in this very process, commit."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import LandingJob, client_of, land_group
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading import call_pacing
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.storage import TableFolder
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kinesis_assets.ingest.manifest import Landing

REGION = "us-east-1"
_NO_LIMIT = 1 << 60


@dataclass(frozen=True)
class Once:
    """One measured piece of work in this process.

    Attributes:
        cpu: Seconds, of all its threads.
        wall: Seconds.
        rows: That came of it.
        bytes: Of their payloads.
    """

    cpu: float
    wall: float
    rows: int
    bytes: int


@contextmanager
def unpaced() -> Iterator[None]:
    """Within, this process asks a shard for its pages as fast as they come.

    The pace is the service's, five calls and 2 MB a second and shard; it costs time and no CPU.
    """
    kept = call_pacing.SECONDS_BETWEEN_CALLS, call_pacing.BYTES_PER_SECOND
    call_pacing.SECONDS_BETWEEN_CALLS, call_pacing.BYTES_PER_SECOND = 0.0, _NO_LIMIT
    try:
        yield
    finally:
        call_pacing.SECONDS_BETWEEN_CALLS, call_pacing.BYTES_PER_SECOND = kept


def whole_run(url: str, stream: str, folder: str) -> Once:
    """The next range of every shard into the table in a folder: planned, landed by one task, committed."""
    client = client_of(stream, ClientSettings(REGION, url))
    table = PositionedTable(folder)

    def run() -> tuple[int, int]:
        listing = client.listing()
        asked = [shard.shard_id for shard in listing.shards]
        plan = plan_run(client, table, asked=asked, policy=ReadPolicy(), listing=listing)
        result = execute_run(land_group, client, table, plan)
        assert not result.errors, result.errors
        outcomes = result.outcomes.values()
        stats = [shard.stats for shard in outcomes if shard.stats is not None]
        return sum(each.rows for each in stats), sum(each.bytes for each in stats)

    return _measured(run)


def landing_of(url: str, stream: str, folder: str) -> Callable[[], Landing]:
    """One task over all shards from their beginnings, ready to be begun: no plan, no commit."""
    settings = ClientSettings(REGION, url)
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


def landing(url: str, stream: str, folder: str) -> Once:
    """What `landing_of` makes ready, done."""
    land = landing_of(url, stream, folder)

    def run() -> tuple[int, int]:
        landed = land()
        return landed.rows, landed.bytes

    return _measured(run)


def _measured(run: Callable[[], tuple[int, int]]) -> Once:
    cpu, began = time.process_time(), time.perf_counter()
    rows, size = run()
    return Once(time.process_time() - cpu, time.perf_counter() - began, rows, size)
