"""Ranges of a replay that ended at a tip although the service had not returned all of their records.

One response may wrongly report the tip. If a range ends there before its last record, it is read once more
from that point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kinesis_assets.errors import ShardError
from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.replay.manifest import ShardFillResult


def early_ends(
    client: StreamClient, ranges: Mapping[str, ShardRange], shards: Iterable[ShardFillResult]
) -> dict[str, str]:
    """Return why the tip at which a range ended is not its end, by shard id.

    Args:
        client: The stream.
        ranges: The ranges that were read, by shard id.
        shards: The results of reading them.
    """
    reasons = {
        shard.shard_id: _reason(client, ranges[shard.shard_id], shard)
        for shard in shards
        if shard.error is None and shard.end is RangeEnd.TIP
    }
    return {shard_id: reason for shard_id, reason in reasons.items() if reason is not None}


def _reason(client: StreamClient, range_: ShardRange, shard: ShardFillResult) -> str | None:
    up_to, through = range_.up_to, shard.stats.through
    if up_to is not None:
        end, reached = passed(up_to), passed(through)
        if end is not None and reached is not None and reached >= end:
            return None
        # The last record cannot have expired if an earlier one was read: the oldest ones expire first.
        if up_to.kind is PositionKind.AFTER_SEQUENCE_NUMBER and shard.first_read is not None:
            return "the service reported the tip before a record that the table has, so it did not return all"
    rest = replace(range_, start=through, bounds=replace(range_.bounds, max_records=1))
    try:
        found = next(iter(ShardReading(client, rest)), None)
    except ShardError as error:
        return f"the service reported the tip, which a second read could not confirm ({error.sentence})"
    if found is None:
        return None
    return f"the service reported the tip before record {found[0].sequence_number}, so it did not return all"
