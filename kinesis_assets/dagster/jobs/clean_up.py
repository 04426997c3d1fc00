"""Delete what Dagster no longer needs of a stream: old runs, and the partitions of finished shards.

What is still read of the history stays: the newest event of each partition, and the runs of the commits
that a new sensor or `doctor` compares with the events.

A stream that is often resharded would otherwise collect the partitions of finished shards. Their events
stay, and a partition that is added again has its history. Whether a shard is finished is read from the
table, which recorded it when the service had said so twice; no list of shards decides it.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checks.results import counted
from kinesis_assets.dagster.events.missing_events import MAX_FILES, ChainSegment, read_links
from kinesis_assets.dagster.partition_ranges import tagged_partitions
from kinesis_assets.dagster.sensor.sensor_runs import unfinished_runs
from kinesis_assets.errors import TableMissing
from kinesis_assets.table.clocks import AgreedClock
from kinesis_assets.table.maintenance.steps import State, Step
from kinesis_assets.table.positions.commit_link import CommitLink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.table.positions.positions import ShardPosition


SENSOR_TAG = "dagster/sensor_name"
"""Dagster's tag for the sensor that requested a run."""

_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]

NEWEST = 100
"""How many of the newest events of the asset stay in any case, such as those without a partition."""

_SECONDS = 1800.0
"""The maximum time for deleting runs. The next time, the others are deleted."""

_PAGE_SIZE = 500


def delete_runs(
    instance: dg.DagsterInstance, run_ids: Sequence[str], clock: Callable[[], float] = time.monotonic
) -> int:
    """Delete runs with their events until the time is over, and return how many were deleted."""
    until = clock() + _SECONDS
    for number, run_id in enumerate(run_ids):
        if clock() >= until:
            return number
        instance.delete_run(run_id)
    return len(run_ids)


def old_runs(
    opened: OpenStream, instance: dg.DagsterInstance, before: datetime, most: int, *, newest: int = NEWEST
) -> list[str]:
    """Return the ids of runs that can be deleted, oldest first.

    Args:
        newest: How many of the newest events of each type stay, whatever their partitions.
    """
    found: list[str] = []
    kept = {*_runs_of_newest_events(instance, opened.names, newest), *_runs_of_newest_commits(opened)}
    wanted = dg.RunsFilter(statuses=_ENDED, tags={SENSOR_TAG: opened.names.sensor}, created_before=before)
    cursor: str | None = None
    while len(found) < most:
        records = instance.get_run_records(wanted, limit=_PAGE_SIZE, cursor=cursor, ascending=True)
        runs = [record.dagster_run for record in records]
        found += [
            run.run_id
            for run in runs
            # The sensor of another stream may have the same name in another code location.
            if run.run_id not in kept and run.asset_selection == {opened.names.raw_key}
        ]
        if len(records) < _PAGE_SIZE:
            break
        cursor = runs[-1].run_id
    return found[:most]


def _runs_of_newest_events(instance: dg.DagsterInstance, names: StreamNames, newest: int) -> Iterator[str]:
    """Yield the runs of the newest events of the asset, and of the newest ones of each partition."""
    key = names.raw_key
    for fetch in (instance.fetch_materializations, instance.fetch_observations):
        yield from (record.run_id for record in fetch(key, limit=newest).records)
        for partition in instance.get_dynamic_partitions(names.partitions_name):
            of_partition = dg.AssetRecordsFilter(key, asset_partitions=[partition])
            yield from (record.run_id for record in fetch(of_partition, limit=1).records)


def _runs_of_newest_commits(opened: OpenStream) -> Iterator[str]:
    """Yield the runs whose commits are compared with the events by a sensor without a cursor."""
    try:
        snapshot = opened.table.snapshot()
    except TableMissing:
        return
    positions = snapshot.positions(opened.client.describe().identity, or_older=True)
    if positions is not None:
        links, _ = read_links(
            lambda commit_id: CommitLink.of_positions(snapshot.table.chain.positions_at(commit_id)),
            ChainSegment(positions.commit_id, None),
            MAX_FILES,
        )
        yield from (link.by for link in links if link.by is not None)


def prune_partitions(opened: OpenStream, instance: dg.DagsterInstance, *, dry_run: bool) -> Iterator[Step]:
    """Delete the partitions of shards that were finished `prune_after` days ago, if that is set.

    Raises:
        ClocksDisagree: This machine's clock does not confirm the service's. Nothing was deleted.
    """
    days = opened.settings.prune_after
    if days is None:
        return
    table, summary = opened.table, opened.client.describe()
    now = AgreedClock(table.uri, summary.service_time).now()
    positions = table.snapshot().positions(summary.identity)
    if positions is None:
        return
    name = opened.names.partitions_name
    keys = instance.get_dynamic_partitions(name)
    shards = table.chain.with_archived(positions, keys).shards
    age = timedelta(days=days)
    old = [key for key in keys if key in shards and _is_old(shards[key], now, age, summary.retention_hours)]
    in_runs = {
        key
        for record in unfinished_runs(instance, opened.names)
        for key in tagged_partitions(record.dagster_run.tags, keys)
    }
    pruned = [key for key in old if key not in in_runs]
    if not pruned:
        return
    if not dry_run:
        for key in pruned:
            instance.delete_dynamic_partition(name, key)
    yield Step("prune", counted(len(pruned), "partition"), State.PLANNED if dry_run else State.DONE)


def _is_old(shard: ShardPosition, now: datetime, age: timedelta, retention_hours: int) -> bool:
    """Whether a shard was finished some time ago, at least its retention."""
    if not shard.finished or shard.complete_until is None:
        return False
    retention = timedelta(hours=max(retention_hours, shard.retention_hours or 0))
    return now - shard.complete_until > max(age, retention)
