"""Limits of a shard's range and of a whole run."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.clock import MACHINE_CLOCK

if TYPE_CHECKING:
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.records.records import Records


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
