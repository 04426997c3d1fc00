"""The sensor: finds new shards, and asks for runs over those that can be read.

It lists shards and looks at the table's positions, and never reads the stream itself.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)

from kinesis_assets.errors import TableMissing
from kinesis_assets.keys import raw_key, shard_partitions, stream_key
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.table.positions import initial_positions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.io_manager import ShardIOManager
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.shards import Shard
    from kinesis_assets.table.delta import PositionedTable
    from kinesis_assets.table.positions import ShardPosition

RUNS_PER_TICK = 3
"""Most runs that one tick asks for."""


def evaluate(manager: ShardIOManager, instance: dg.DagsterInstance, cursor: str | None) -> dg.SensorResult:
    """One tick. A shard that is new becomes a partition, told as a materialization of the stream's asset.

    Args:
        manager: The stream's I/O manager.
        instance: Where partitions and runs are.
        cursor: The last shard that the tick before asked for: spans after it go first, so that with more
            spans than runs in a tick all get their turn.
    """
    client = manager.client()
    partitions = shard_partitions(manager.stream)
    listed = client.list_shards()
    unread = initial_positions(listed, Position(PositionKind.TRIM_HORIZON))
    shards = unread | _recorded(client, manager.positioned_table())
    finished = {shard_id for shard_id, shard in shards.items() if shard.finished}
    known = partitions.get_partition_keys(dynamic_partitions_store=instance)
    # Those read to their end before the sensor first saw them need no partition.
    found = [shard for shard in listed if shard.shard_id not in {*known, *finished}]
    new = [shard.shard_id for shard in found]
    keys = [*known, *new]
    # One that is no longer listed and not read to its end is asked for too: its run tells what was lost.
    readable = {
        shard_id
        for shard_id, shard in shards.items()
        if not shard.finished and not unfinished_parents(shard.parents, known=shards, finished=finished)
    }
    busy = _shards_of_unfinished_runs(instance, raw_key(manager.stream), keys)
    spans = _from_cursor(contiguous_spans(keys, readable - busy), keys, cursor)[:RUNS_PER_TICK]
    return dg.SensorResult(
        run_requests=[run_request(manager.stream, span) for span in spans],
        dynamic_partitions_requests=[partitions.build_add_request(new)] if new else [],
        asset_events=[_discovery(manager.stream, shard) for shard in found],
        cursor=spans[-1][-1] if spans else cursor,
        skip_reason=None if spans else "every readable shard has an unfinished run",
    )


def _discovery(stream: str, shard: Shard) -> dg.AssetMaterialization:
    """A new shard, as the stream's page shows it."""
    metadata = {
        "shard": shard.shard_id,
        "parents": ", ".join(shard.parents) or "none",
        "hash_range": " to ".join(shard.hash_range),
        "starting_sequence_number": shard.starting_sequence_number,
    }
    return dg.AssetMaterialization(stream_key(stream), partition=shard.shard_id, metadata=metadata)


def run_request(stream: str, span: Sequence[str]) -> dg.RunRequest:
    """A run over a contiguous span of partitions, as the UI would ask for it.

    It has no run key: that of a failed run would block its shards for ever.
    """
    return dg.RunRequest(asset_selection=[raw_key(stream)], tags=span_tags(span))


def span_tags(span: Sequence[str]) -> dict[str, str]:
    """The tags by which a run knows its partitions."""
    if len(span) == 1:
        return {PARTITION_NAME_TAG: span[0]}
    return {ASSET_PARTITION_RANGE_START_TAG: span[0], ASSET_PARTITION_RANGE_END_TAG: span[-1]}


def contiguous_spans(keys: Sequence[str], wanted: Collection[str]) -> list[list[str]]:
    """The runs of wanted keys that stand side by side in `keys`, in their order."""
    return [list(span) for is_wanted, span in groupby(keys, key=lambda key: key in wanted) if is_wanted]


def _from_cursor(spans: list[list[str]], keys: Sequence[str], cursor: str | None) -> list[list[str]]:
    if cursor not in keys:
        return spans
    after = set(keys[keys.index(cursor) + 1 :])
    return sorted(spans, key=lambda span: span[0] not in after)


def _recorded(client: StreamClient, table: PositionedTable) -> dict[str, ShardPosition]:
    try:
        snapshot = table.snapshot()
    except TableMissing:
        return {}
    positions = snapshot.positions(client.describe().identity)
    return {} if positions is None else positions.shards


def _shards_of_unfinished_runs(
    instance: dg.DagsterInstance, asset_key: dg.AssetKey, keys: Sequence[str]
) -> set[str]:
    runs = instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
    ours = [run for run in runs if run.asset_selection is None or asset_key in run.asset_selection]
    return {shard_id for run in ours for shard_id in _shards_of(run.tags, keys)}


def _shards_of(tags: Mapping[str, str], keys: Sequence[str]) -> Sequence[str]:
    if PARTITION_NAME_TAG in tags:
        return [tags[PARTITION_NAME_TAG]]
    first, last = tags.get(ASSET_PARTITION_RANGE_START_TAG), tags.get(ASSET_PARTITION_RANGE_END_TAG)
    if first not in keys or last not in keys:
        return []
    return keys[keys.index(first) : keys.index(last) + 1]
