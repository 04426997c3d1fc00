"""The sensor: finds new shards, and asks for runs over those that can be read.

It lists shards and looks at the table's positions, and never reads the stream itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES

from kinesis_assets.keys import raw_key, shard_partitions, stream_key
from kinesis_assets.kinesis.shards import unfinished_parents
from kinesis_assets.spans import contiguous_spans, span_tags, tagged_span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.io_manager import ShardIOManager
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
    stream, partitions = manager.stream, shard_partitions(manager.stream)
    shards = manager.standing_shards()
    finished = {shard_id for shard_id, shard in shards.items() if shard.finished}
    known = partitions.get_partition_keys(dynamic_partitions_store=instance)
    # Those read to their end before the sensor first saw them need no partition.
    new = [shard_id for shard_id in shards if shard_id not in {*known, *finished}]
    keys = [*known, *new]
    # One that is no longer listed and not read to its end is asked for too: its run tells what was lost.
    readable = {
        shard_id
        for shard_id, shard in shards.items()
        if not shard.finished and not unfinished_parents(shard.parents, known=shards, finished=finished)
    }
    busy = _shards_of_unfinished_runs(instance, stream, keys)
    spans = _from_cursor(contiguous_spans(keys, readable - busy), keys, cursor)[:RUNS_PER_TICK]
    return dg.SensorResult(
        # Without a run key: that of a failed run would block its shards for ever.
        run_requests=[
            dg.RunRequest(asset_selection=[raw_key(stream)], tags=span_tags(span)) for span in spans
        ],
        dynamic_partitions_requests=[partitions.build_add_request(new)] if new else [],
        asset_events=[_discovery(stream, shard_id, shards[shard_id]) for shard_id in new],
        cursor=spans[-1][-1] if spans else cursor,
        skip_reason=None if spans else "every readable shard has an unfinished run",
    )


def _discovery(stream: str, shard_id: str, shard: ShardPosition) -> dg.AssetMaterialization:
    """A new shard, as the stream's page shows it."""
    metadata = {
        "shard": shard_id,
        "parents": ", ".join(shard.parents) or "none",
        "hash_range": " to ".join(shard.hash_range),
    }
    return dg.AssetMaterialization(stream_key(stream), partition=shard_id, metadata=metadata)


def _from_cursor(spans: list[list[str]], keys: Sequence[str], cursor: str | None) -> list[list[str]]:
    if cursor not in keys:
        return spans
    after = set(keys[keys.index(cursor) + 1 :])
    return sorted(spans, key=lambda span: span[0] not in after)


def _shards_of_unfinished_runs(instance: dg.DagsterInstance, stream: str, keys: Sequence[str]) -> set[str]:
    runs = instance.get_runs(dg.RunsFilter(statuses=NOT_FINISHED_STATUSES))
    ours = [run for run in runs if run.asset_selection is None or raw_key(stream) in run.asset_selection]
    return {shard_id for run in ours for shard_id in tagged_span(run.tags, keys)}
