"""Ten runs on shards of their own, over a bucket whose responses take a while: how often each commits."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

from benchmarks.harness.section import Goal, Section, Target, table
from benchmarks.sections.contention import BEGINNING, LISTING, attempt
from benchmarks.servers.slow_bucket import slow_bucket
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.kinesis.stream import StreamListing
from kinesis_assets.table.commit import freeze
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Barrier

WRITERS = 10
COMMITS = 120
REQUEST_SECONDS = 0.02

_shared: tuple[Barrier, Synchronized[int]] | None = None
"""Of a writer's process: where it waits for the others, and how many commits they are to make together."""


def commits_of_each(uri: str, *, writers: int, commits: int) -> list[int]:
    """How many commits each of some writers made when all of them together had made so many.

    Args:
        uri: Where the table is to be.
        writers: Each in a process, on a shard of its own, without a pause.
        commits: Of all.

    Raises:
        TableError: A commit did not come about.
    """
    shard_ids = [f"shardId-{number:012}" for number in range(writers)]
    shards = [Shard(shard_id, (), ("0", "9"), "1") for shard_id in shard_ids]
    freeze(PositionedTable(uri), StreamListing(LISTING.summary, shards), dict.fromkeys(shard_ids, BEGINNING))
    context = get_context("spawn")  # what the table's library needs: it does not survive a fork
    shared = context.Barrier(writers), context.Value("q", commits)
    with ProcessPoolExecutor(writers, context, initializer=_enter, initargs=shared) as pool:
        made = list(pool.map(partial(_write, uri), shard_ids))
    return sorted(made)


def _enter(barrier: Barrier, left: Synchronized[int]) -> None:
    global _shared  # noqa: PLW0603  # the one thing that a process pool hands to its processes at their start
    _shared = barrier, left


def _write(uri: str, shard_id: str) -> int:
    assert _shared is not None
    barrier, left = _shared
    slow, made = PositionedTable(uri), 0
    barrier.wait(timeout=120)
    while left.value > 0:
        _, landed = attempt(slow, shard_id)
        assert landed, "nobody else commits to this shard"
        with left.get_lock():  # what lands after the last of them does not count: nobody competes then
            made += left.value > 0
            left.value -= 1
    return made


def section(full: bool) -> Section:
    """Of the report."""
    del full
    with slow_bucket(REQUEST_SECONDS) as bucket:
        made = commits_of_each(f"{bucket}/raw", writers=WRITERS, commits=COMMITS)
    mean = sum(made) / len(made)
    what = (
        f"{WRITERS} processes, each on a shard of its own, commit one record at a time without a pause to a "
        f"table in a bucket, until there are {COMMITS} commits. Each request to the bucket takes "
        f"{REQUEST_SECONDS * 1000:.0f} ms more, those that delta-rs makes included."
    )
    told = f"{made[0]} of a mean of {mean:.0f}, {made[0] / mean:.2f} of it"
    return Section(
        "Commits of many runs over a slow store",
        f"{what}\n\n{table(['commits of each'], [[', '.join(map(str, made))]])}",
        targets=[Target(Goal.FAIR_COMMITS, told, met=made[0] >= mean / 2)],
    )
