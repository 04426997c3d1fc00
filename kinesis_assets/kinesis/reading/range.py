"""What is to be read of one shard, and what ended it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.data_loss import Expiry
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind

if TYPE_CHECKING:
    from kinesis_assets.kinesis.records.wire import Record, Records


class ShardRange(msgspec.Struct, frozen=True):
    """What is to be read of one shard.

    Attributes:
        shard_id: The shard.
        start: Where to begin; see `Position` for which kinds include the record they name.
        bounds: Where to end at the latest; the tip and the shard's end always end it.
        hash_range: The shard's first and last hash key, both inclusive, decimal text; None where sub-records
            are not judged by them, see `aggregation`.
        closed: The shard takes no more records: it ends at its null iterator alone, never at the tip.
        tip_not_before: Take MillisBehindLatest 0 for the tip only in an answer given at or after this time
            (service's clock). None takes any. It makes reading up to a time repeatable.
        expiry: Tells when records may have expired unread; None does not look.
        max_bad_records: End before the damaged record that would be one more; None takes all of them.
        up_to: End before the record where a read from this position would begin. It is one of the two
            SEQUENCE_NUMBER kinds; None is no such end.
        expected: Payload bytes that are expected from `start` on, as a weight beside other shards; None is
            unknown.
        patience: For so many seconds it may be asked in vain while others wait for it with their commit; then
            it ends with what it has, or, throttled and never answered, fails. None, and where nothing but
            empty pages came, is `STALL_SECONDS`. Whatever else fails has some tries.
        answer_within: It fails when an answer does not come, or go on, for so many seconds; None is when that
            is so for as long as the client waits, some times. The SDK alone waits that long once.
    """

    shard_id: str
    start: Position
    bounds: Bounds
    hash_range: tuple[str, str] | None
    closed: bool = False
    tip_not_before: datetime | None = None
    expiry: Expiry | None = None
    max_bad_records: int | None = None
    up_to: Position | None = None
    expected: int | None = None
    patience: float | None = None
    answer_within: float | None = None


class RangeEnd(StrEnum):
    """What ended a range."""

    BOUND = "bound"
    """One of its bounds but that of time, an allowance that is used up, or a stop."""
    LATE = "late"
    """Its time, or that of all shards together, was over, or the patience with it."""
    TIP = "tip"
    SHARD_END = "shard_end"


def count_before_end(records: Records, until: datetime | None, up_to: Position | None) -> int:
    """How many of the leading records are before the range's `Bounds.until` and its `up_to`."""
    count = len(records)
    if until is not None and count:
        seconds = until.timestamp()
        if max(records.arrivals) >= seconds:
            late = (i for i, arrival in enumerate(records.arrivals) if arrival >= seconds)
            count = next(late, count)
    if up_to is not None:
        rest = (i for i, record in enumerate(islice(records, count)) if not _is_before(record, up_to))
        count = next(rest, count)
    return count


def _is_before(record: Record, position: Position) -> bool:
    """Whether a read that begins at a sequence number, or after it, leaves a record out."""
    own, number = int(record.sequence_number), int(position.sequence_number or 0)
    if own != number:
        return own < number
    if position.kind is PositionKind.AT_SEQUENCE_NUMBER:
        return False
    sub = position.sub_sequence_number
    return sub is None or record.sub_sequence_number <= sub
