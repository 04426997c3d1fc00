"""Ten writers on different shards of a table in a slow bucket: how often each commits."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING

from benchmarks.data.one_record_commits import BEGINNING, LISTING, commit_one_record
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.waiting import SECONDS
from benchmarks.servers.slow_bucket import slow_bucket
from kinesis_assets.kinesis.stream import Shard, StreamListing
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.sharedctypes import Synchronized
    from multiprocessing.synchronize import Barrier

WRITERS = 10
COMMITS = 120
REQUEST_SECONDS = 0.02

_shared: tuple[Barrier, Synchronized[int]] | None = None
"""In the process of a writer: the barrier for the common start, and the number of commits left for all
writers."""


def commits_of_each(
    uri: str,
    *,
    writers: int,
    commits: int,
    open_table: Callable[[str], PositionedTable] = PositionedTable,
) -> list[int]:
    """Let writers commit to one table, and return the number of commits of each, in ascending order.

    Args:
        uri: The table to create.
        writers: Number of writers. Each runs in its own process, and commits to its own shard without a
            pause.
        commits: Number of commits of all writers together, after which they stop.
        open_table: Opens the table, in each process.

    Raises:
        TableError: A commit failed.
    """
    shard_ids = [f"shardId-{number:012}" for number in range(writers)]
    shards = [Shard(shard_id, (), ("0", "9"), "1") for shard_id in shard_ids]
    freeze(open_table(uri), StreamListing(LISTING.summary, shards), dict.fromkeys(shard_ids, BEGINNING))
    context = get_context("spawn")  # delta-rs does not survive a fork
    shared = context.Barrier(writers), context.Value("q", commits)
    with ProcessPoolExecutor(writers, context, initializer=_initialize, initargs=shared) as pool:
        made = list(pool.map(partial(_write, partial(open_table, uri)), shard_ids))
    return sorted(made)


def _initialize(barrier: Barrier, left: Synchronized[int]) -> None:
    global _shared  # noqa: PLW0603  # shared objects can be passed to the processes of a pool only at their start
    _shared = barrier, left


def _write(open_table: Callable[[], PositionedTable], shard_id: str) -> int:
    assert _shared is not None
    barrier, left = _shared
    table, made = open_table(), 0
    table.snapshot()  # what it imports is loaded before the start
    barrier.wait(timeout=SECONDS)
    while left.value > 0:
        landed = commit_one_record(table, shard_id)
        assert landed, "no other writer commits to this shard"
        with left.get_lock():  # a commit after the last one does not count, because writers stop then
            made += left.value > 0
            left.value -= 1
    return made


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    with slow_bucket(REQUEST_SECONDS) as bucket:
        made = commits_of_each(f"{bucket}/raw", writers=WRITERS, commits=COMMITS)
    mean = sum(made) / len(made)
    what = (
        f"{WRITERS} processes, each on its own shard, commit one record at a time without a pause to a table "
        f"in a bucket, until there are {COMMITS} commits. Each request to the bucket, including those of "
        f"delta-rs, is delayed by {REQUEST_SECONDS * 1000:.0f} ms."
    )
    measured = f"{made[0]}, which is {made[0] / mean:.2f} of the mean ({mean:.0f})"
    return Section(
        "Commits of many runs over a slow store",
        f"{what}\n\n{markdown_table(['commits of each process'], [[', '.join(map(str, made))]])}",
        targets=[Target(Goal.FAIR_COMMITS, measured, met=made[0] >= mean / 2)],
    )
