"""Finished shards that an idle run passes over, so that it can be one run over one range of partitions.

After splits and merges, the open shards of a stream are not contiguous in Dagster's order, and each of their
ranges would have an idle run of its own. A finished shard costs a run no call, and is not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.ingest.plan import stored_positions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.positions.positions import ShardPosition


def finished_between(
    opened: OpenStream,
    listing: StreamListing,
    shards: Mapping[str, ShardPosition],
    keys: Sequence[str],
    waited: Collection[str],
) -> set[str]:
    """Return the finished shards that lie between two due idle ones, with no other shard between these.

    Args:
        opened: The stream.
        listing: The shards of the stream.
        shards: The position of each shard, without archived ones. These are read if there may be some.
        keys: The newest partitions in Dagster's order.
        waited: The idle shards that are due, see `DueShards.waited`.

    Raises what `plan.stored_positions` raises.
    """
    due = [index for index, shard_id in enumerate(keys) if shard_id in waited]
    if not due:
        return set()
    between = keys[due[0] : due[-1] + 1]
    archived = [shard_id for shard_id in between if shard_id not in shards]
    if archived:
        _, positions = stored_positions(opened.table, listing, opened.policy.on_recreated, archived)
        if positions is not None and positions.identity == listing.summary.identity:
            shards = {**positions.shards, **shards}
    passed: set[str] = set()
    gap: list[str] | None = None  # the finished shards since the last due one; None after any other shard
    for shard_id in between:
        if shard_id in waited:
            passed.update(gap or ())
            gap = []
        elif gap is not None and shard_id in shards and shards[shard_id].finished:
            gap.append(shard_id)
        else:
            gap = None
    return passed
