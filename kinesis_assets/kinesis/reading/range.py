"""The range of a shard to read, the limits of it and of a whole run, and the reasons for its end."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from enum import StrEnum
from itertools import accumulate, islice
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.data_loss import Expiry
from kinesis_assets.kinesis.position import Position, passed

if TYPE_CHECKING:
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.records.records import Record, Records


class TipIterator(msgspec.Struct, frozen=True):
    """The iterator that a page at the tip of an idle shard returned.

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
        tip_iterator: The iterator with which a previous read without records ended at the tip, to ask whether
            the shard is still idle: from an old position, the service may return many empty pages before the
            tip. Records are always read from `start`. None if there is none.
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


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The limits of one shard's range. They all apply; the first one that is reached ends the range.

    Records are user records: a KPL aggregate counts as its sub-records.

    Attributes:
        max_records: The maximum number of records, at least 1.
        max_bytes: The maximum sum of payload bytes. The range ends before the record that would exceed it,
            but always includes the first record.
        max_seconds: The time in seconds after the first record from which no further page is requested.
        until: The range ends before the first record that arrived at or after this time (UTC, by the
            service's clock).

    Raises:
        InvalidInput: A number is not above 0, or the time has no UTC offset.
    """

    max_records: int | None = None
    max_bytes: int | None = None
    max_seconds: float | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("max_records", "max_bytes", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidInput(f"{name} must be above 0, not {value}")
        if self.until is not None and self.until.tzinfo is None:
            raise InvalidInput(f"until needs a UTC offset, for example {self.until.isoformat()}Z")


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The amount that all shards of a run may still read together; None means no limit.

    Attributes:
        bytes: The maximum sum of payload bytes. The record that would exceed it is not read, unless it is the
            first one of a task.
        seconds: The time in seconds after the start of reading from which no further page is requested.
    """

    records: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def less(self, records: int, bytes_: int, seconds: float) -> Allowance:
        """Return the allowance that remains after some of it has been used."""
        return Allowance(
            records=None if self.records is None else max(0, self.records - records),
            bytes=None if self.bytes is None else max(0, self.bytes - bytes_),
            seconds=None if self.seconds is None else max(0.0, self.seconds - seconds),
        )

    def within(self, seconds: float) -> Allowance:
        """Return this allowance with its time limited to a number of seconds."""
        return msgspec.structs.replace(
            self, seconds=seconds if self.seconds is None else min(self.seconds, seconds)
        )

    def shares(self, count: int) -> list[Allowance]:
        """Divide the allowance among at most `count` independent tasks.

        The shares add up to the allowance. None is empty, unless the allowance itself is.
        """
        amounts = [amount for amount in (self.records, self.bytes) if amount is not None]
        count = max(1, min([count, *amounts]))
        return [
            Allowance(
                records=_share(self.records, index, count),
                bytes=_share(self.bytes, index, count),
                seconds=self.seconds,
            )
            for index in range(count)
        ]


def _share(amount: int | None, index: int, count: int) -> int | None:
    return None if amount is None else amount // count + (index < amount % count)


class Quota:
    """An allowance that any number of readings use up together. Its time starts now, by the given clock.

    Attributes:
        records: The number of records that may still be read; None for no limit.
        bytes: The payload bytes that may still be read; None for no limit.
    """

    def __init__(self, allowance: Allowance, clock: Clock = MACHINE_CLOCK) -> None:
        self.records = allowance.records
        self.bytes = allowance.bytes
        self._clock = clock
        self._deadline = None if allowance.seconds is None else clock.monotonic() + allowance.seconds
        self._taken = False

    @property
    def used_up(self) -> bool:
        """Whether no further record may be read."""
        return self.records == 0 or self.bytes == 0

    @property
    def timed_out(self) -> bool:
        """Whether the time of the allowance is over."""
        return self._deadline is not None and self._clock.monotonic() >= self._deadline

    def take(self, records: Records) -> int:
        """Use the allowance for the leading records that fit in it, and return their number."""
        if self.records is None and self.bytes is None:
            return len(records)
        count = len(records) if self.records is None else min(len(records), self.records)
        if count and self.bytes is not None:
            count = self._take_bytes(records.first(count), self.bytes)
        if count:
            self._taken = True
            if self.records is not None:
                self.records -= count
        return count

    def _take_bytes(self, records: Records, left: int) -> int:
        """Use the remaining bytes for the leading records that fit in them, and return their number."""
        count, size = len(records), records.payload_bytes
        if size > left:
            sizes = list(accumulate(map(len, records.payloads)))
            # The first record always fits: one larger than the whole allowance could never be read otherwise.
            count = max(bisect_right(sizes, left), 0 if self._taken else 1)
            size = sizes[count - 1] if count else 0
        self.bytes = max(0, left - size)
        return count
