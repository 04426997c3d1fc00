"""Ranges of a replay that ended at a tip although the service had not returned all of their records.

A response may wrongly report the tip. If a range ends there before its last record, it is read once more from
that point. Such a read counts only if it returns the last record that was read before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kinesis_assets.errors import ShardError
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.table.row_predicates import passed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.replay.manifest import ShardFillResult


def early_ends(
    client: StreamClient,
    ranges: Mapping[str, ShardRange],
    gaps: Mapping[str, Collection[Gap]],
    shards: Iterable[ShardFillResult],
) -> dict[str, str]:
    """Return why the tip at which a range ended is not its end, by shard id.

    Args:
        client: The stream.
        ranges: The ranges that were read, by shard id.
        gaps: The recorded gaps of their shards, by shard id.
        shards: The results of reading them.
    """
    reasons = {
        shard.shard_id: _reason(client, ranges[shard.shard_id], gaps[shard.shard_id], shard)
        for shard in shards
        if shard.error is None and shard.end is RangeEnd.TIP
    }
    return {shard_id: reason for shard_id, reason in reasons.items() if reason is not None}


def _reason(
    client: StreamClient, range_: ShardRange, gaps: Collection[Gap], shard: ShardFillResult
) -> str | None:
    up_to, through = range_.up_to, shard.stats.through
    if up_to is not None:
        end, reached = passed(up_to), passed(through)
        if end is not None and reached is not None and reached >= end:
            return None
        # Its record cannot have expired if an earlier one was read: the oldest ones expire first.
        if shard.first_read is not None and _is_of_a_record(up_to, gaps):
            return "the service reported the tip before a record that exists, so it did not return all"
    return _reason_of_second_read(client, range_, shard)


def _is_of_a_record(up_to: Position, gaps: Collection[Gap]) -> bool:
    """Whether the end of a range is a record that was read. An operator may seek to any number."""
    return up_to.kind is PositionKind.AFTER_SEQUENCE_NUMBER or any(
        gap.next_sequence_number == up_to.sequence_number for gap in gaps
    )


def _reason_of_second_read(client: StreamClient, range_: ShardRange, shard: ShardFillResult) -> str | None:
    start = shard.stats.through
    last = None if shard.first_read is None else start.sequence_number
    if last is not None:
        start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=last)
    found = last is None
    try:
        for records in ShardReading(
            client, replace(range_, start=start, bounds=Bounds(until=range_.bounds.until))
        ):
            later = next((number for number in records.numbers if number != last), None)
            if later is not None:
                return f"the service reported the tip before record {later}, so it did not return all"
            found = True
    except ShardError as error:
        return f"the service reported the tip, which a second read could not confirm ({error.sentence})"
    if not found:
        return f"the service reported the tip, but a second read did not return record {last}"
    return None
