"""Recorded gaps that a replay has filled: those whose records could provably all be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import PositionKind
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.table.positions.amendments import ClearedGap
from kinesis_assets.table.row_predicates import at, passed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.replay.manifest import ShardFillResult


def filled_gaps(
    gaps: Mapping[Gap, Gap],
    result: ShardFillResult,
    *,
    created: datetime,
    kept_since: datetime,
    not_before: datetime,
    up_to_position: bool,
) -> tuple[ClearedGap, ...]:
    """Return the gaps of a shard that a replay has read completely, and the first parts of others.

    The service skips trimmed records without an error, and it always trims the oldest records. So no record
    of a gap was missing if the replay read a record that is not after the start of the gap. A gap that starts
    at a time or at TRIM_HORIZON has no such record: none was missing if none can have expired.

    Args:
        gaps: The recorded gaps of the shard, each with its unfilled part.
        result: What was read of the shard.
        created: When the stream was created, before all records.
        kept_since: No record that arrived at or after this time had expired when the replay had ended.
        not_before: Records that arrived before this time were skipped.
        up_to_position: The range ended at the shard's committed position, which is after every gap.
    """
    if result.error is not None or result.end is None:
        return ()
    in_part = result.end is RangeEnd.TIME_LIMIT
    first = None if result.first_read is None else at(result.first_read)
    through = passed(result.stats.through)
    filled = []
    for gap, part in gaps.items():
        start, since = passed(part.after), gap.since
        if start is None and part.after.kind is PositionKind.TRIM_HORIZON:
            since = since or created
        if since is None or since < not_before:
            continue
        if start is None and (since < kept_since or result.stats.start.sequence_number is not None):
            continue
        if start is not None and (first is None or first > start):
            continue
        read_to_end = (up_to_position and not in_part) or (
            through is not None
            and gap.next_sequence_number is not None
            and through >= at(gap.next_sequence_number)
        )
        if read_to_end:
            filled.append(ClearedGap.of(gap))
        elif in_part and through is not None and (start is None or through[0] > start[0]):
            filled.append(ClearedGap(gap.after, result.stats.through.sequence_number, result.last_arrival))
    return tuple(filled)
