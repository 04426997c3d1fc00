"""The range of a shard to read, and the reasons for its end."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.data_loss import Expiry
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, passed

if TYPE_CHECKING:
    from kinesis_assets.kinesis.records.records import Record, Records


class TipIterator(msgspec.Struct, frozen=True):
    """The iterator of a page at the tip of an idle shard.

    Attributes:
        issued: The service's clock at the response that had it.
    """

    iterator: str
    issued: datetime


class ShardRange(msgspec.Struct, frozen=True):
    """The range of one shard to read.

    Attributes:
        start: The start position; `Position` documents which kinds include the record that they name.
        bounds: The limits of the range. It also ends at the tip or at the end of the shard.
        hash_range: The shard's first and last hash key, both inclusive, as decimal text; None if sub-records
            are not checked against it, see `aggregation`.
        provisioned: Only aggregates that arrived from the first time on and before the second one are checked
            against `hash_range`. None checks all.
        closed: Whether the shard accepts no more records: it ends at the null iterator, never at the tip.
        tip_not_before: The earliest time (by the service's clock) of a response whose MillisBehindLatest of 0
            is accepted as the tip; None accepts any. It makes reading up to a time repeatable.
        expiry: The facts for detecting records that expired unread; None disables the detection.
        max_bad_records: The maximum number of damaged records; the range ends before the next one. None
            means no limit.
        up_to: The position at which the range ends, exclusive: a read from there starts with the record after
            the range. One of the two SEQUENCE_NUMBER kinds, or None for no such end.
        expected_bytes: The expected payload bytes from `start`, to weight shards against each other; None if
            unknown.
        retry_seconds: The time in seconds without progress after which the range ends with the records that
            it has, because other shards wait to commit. A shard that has been throttled and has never
            responded fails. None, and a shard that returns only empty pages, wait for
            `ReadTiming.stall_seconds`. Other failures have a limited number of attempts.
        response_timeout: The time in seconds without any data of a response after which the range fails. None
            is the client's read timeout, with retries. Calls made by the SDK always use that timeout, once.
        tip_iterator: The iterator with which a previous read without records ended, to find out whether the
            shard is still idle: from an old position, the service may return many empty pages first. Records
            are always read from `start`. None if there is none.
    """

    shard_id: str
    start: Position
    bounds: Bounds
    hash_range: tuple[str, str] | None
    provisioned: tuple[datetime, datetime] | None = None
    closed: bool = False
    tip_not_before: datetime | None = None
    expiry: Expiry | None = None
    max_bad_records: int | None = None
    up_to: Position | None = None
    expected_bytes: int | None = None
    retry_seconds: float | None = None
    response_timeout: float | None = None
    tip_iterator: TipIterator | None = None

    def hash_range_for(self, record: Record) -> tuple[str, str] | None:
        """Return the hash range for checking the sub-records of a record; None for no check."""
        if self.provisioned is None or self.provisioned[0] <= record.arrival < self.provisioned[1]:
            return self.hash_range
        return None


class RangeEnd(StrEnum):
    """The reason for the end of a range."""

    BOUND = "bound"
    """A limit on records, bytes or arrival time; an exhausted allowance; or a stop request."""
    TIME_LIMIT = "time_limit"
    """The time limit of the range or of all shards together; the range's `retry_seconds`; or the end of what
    a subscription has received by then."""
    TIP = "tip"
    SHARD_END = "shard_end"


def count_before_end(records: Records, until: datetime | None, up_to: Position | None) -> int:
    """Return the number of leading records before the range's `Bounds.until` and `ShardRange.up_to`."""
    count = len(records)
    if until is not None and count:
        seconds = until.timestamp()
        if max(records.arrivals) >= seconds:
            after = (i for i, arrival in enumerate(records.arrivals) if arrival >= seconds)
            count = next(after, count)
    if up_to is not None and (last := passed(up_to)) is not None:
        before = islice(records, count)
        places = ((int(record.sequence_number), record.sub_sequence_number) for record in before)
        count = next((i for i, place in enumerate(places) if place > last), count)
    return count
