"""Delete the partitions of shards that were finished long ago.

A stream that is often resharded would otherwise collect them. Their events stay, and a partition that is
added again has its history. Whether a shard is finished is read from the table, which recorded it when the
service had said so twice; no list of shards decides it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kinesis_assets.dagster.partitions.partition_ranges import tagged_partitions
from kinesis_assets.dagster.sensor.sensor_runs import unfinished_runs
from kinesis_assets.table.clocks import AgreedClock
from kinesis_assets.table.maintenance.steps import State, Step

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import dagster as dg

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.table.positions.positions import ShardPosition


def prune_partitions(opened: OpenStream, instance: dg.DagsterInstance, *, dry_run: bool) -> Iterator[Step]:
    """Delete the partitions of shards that were finished `prune_after` days ago, if that is set.

    Args:
        opened: The stream.
        instance: The instance with the partitions and the runs.
        dry_run: Whether to report the step only.

    Raises:
        ClocksDisagree: This machine's clock does not confirm the service's. Nothing was deleted.
        StreamError: The stream cannot be described.
        TableError: The positions cannot be read.
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
    of = "1 partition" if len(pruned) == 1 else f"{len(pruned)} partitions"
    yield Step("prune", of, State.PLANNED if dry_run else State.DONE)


def _is_old(shard: ShardPosition, now: datetime, age: timedelta, retention_hours: int) -> bool:
    """Whether a shard was finished some time ago, at least its retention."""
    if not shard.finished or shard.complete_until is None:
        return False
    retention = timedelta(hours=max(retention_hours, shard.retention_hours or 0))
    return now - shard.complete_until > max(age, retention)
