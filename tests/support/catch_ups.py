"""Catch-ups of benches, and what kills them."""

from __future__ import annotations

from kinesis_assets.operations.catch_up import backfill, jump
from kinesis_assets.table.snapshot import TableSnapshot
from support.single_task import fill_as_in_spark
from support.timing import REPLAYING


class Killed(BaseException):
    """The process ends."""


def catch_up(bench, *shard_ids, fill=fill_as_in_spark):
    """Move shards, and return the errors of the backfill."""
    jump(bench.client, bench.table, shard_ids, by="ann", apply=True)
    return fill_gaps(bench, *shard_ids, fill=fill)


def fill_gaps(bench, *shard_ids, fill=fill_as_in_spark, report=lambda _: None):
    """Return the errors of a backfill."""
    return backfill(fill, bench.client, bench.table, shard_ids, report=report, by="ann", retries=REPLAYING)


def open_gaps(bench):
    """Return the number of recorded gaps of each shard that are not cleared."""
    amendment = bench.amendment
    return {
        shard_id: count
        for shard_id, shard in bench.positions.shards.items()
        if (count := sum(not (amendment and amendment.has_cleared(shard_id, gap)) for gap in shard.gaps))
    }


def expire_partly(bench):
    """Have the first of two skipped records expire. Return the number of the second."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=1)
    (number,) = bench.put(3)
    bench.later(minutes=2)
    bench.put(4)
    jump(bench.client, bench.table, by="ann", apply=True)
    bench.later(seconds=5)
    bench.run()
    bench.later(hours=23, seconds=10)
    return number


def kill(*_, **__):
    raise Killed


def kill_commit(monkeypatch, *, after, skip=0):
    """End the process at the next commit after some, before it or after it."""
    commit = TableSnapshot.commit
    left = [skip]

    def commit_and_kill(*arguments, **keywords):
        left[0] -= 1
        if left[0] >= 0:
            commit(*arguments, **keywords)
            return
        monkeypatch.setattr(TableSnapshot, "commit", commit)
        if after:
            commit(*arguments, **keywords)
        raise Killed

    monkeypatch.setattr(TableSnapshot, "commit", commit_and_kill)
