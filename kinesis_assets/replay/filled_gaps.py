"""Which recorded gaps a replay has filled: only those of which every record was proven to be readable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.table.amendments import ClearedGap
from kinesis_assets.table.row_predicates import at, passed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kinesis_assets.kinesis.data_loss import Gap
    from kinesis_assets.replay.manifest import ShardFilling


def filled_gaps(
    gaps: Sequence[Gap], filling: ShardFilling, *, not_before: datetime, up_to_position: bool
) -> tuple[ClearedGap, ...]:
    """The gaps of a shard that a replay read as a whole.

    The service goes on after trimmed records without an error, and what it trims is always the oldest. So
    none of a gap's records was missing if the replay read a record that is not after the gap's beginning.
    A gap that begins at a time or at TRIM_HORIZON has no such record and is never taken for filled.

    Args:
        gaps: The shard's recorded gaps.
        filling: What was read of the shard.
        not_before: Records that arrived before were left out.
        up_to_position: The range ended at the shard's committed position, which is after each gap.
    """
    if filling.error is not None or filling.end in {None, RangeEnd.LATE} or filling.first_read is None:
        return ()
    first, through = at(filling.first_read), passed(filling.through)
    filled = []
    for gap in gaps:
        begin = passed(gap.after)
        ended = up_to_position or (
            through is not None
            and gap.next_sequence_number is not None
            and through >= at(gap.next_sequence_number)
        )
        nothing_left_out = gap.since is not None and gap.since >= not_before
        if begin is not None and first <= begin and ended and nothing_left_out:
            filled.append(ClearedGap.of(gap))
    return tuple(filled)
