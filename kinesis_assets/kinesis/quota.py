"""The part of an allowance that a task's shards have not used yet."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.clock import MACHINE_CLOCK

if TYPE_CHECKING:
    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.records.record import Records


class Quota:
    """An allowance that any number of readings use up together. Its time starts now, by the given clock."""

    def __init__(self, allowance: Allowance, clock: Clock = MACHINE_CLOCK) -> None:
        self._clock = clock
        self._records = allowance.records
        self._bytes = allowance.bytes
        self._deadline = None if allowance.seconds is None else clock.monotonic() + allowance.seconds
        self._taken = False

    @property
    def used_up(self) -> bool:
        """Whether no further record may be read."""
        return self._records == 0 or self._bytes == 0

    @property
    def timed_out(self) -> bool:
        """Whether the time of the allowance is over."""
        return self._deadline is not None and self._clock.monotonic() >= self._deadline

    @property
    def records(self) -> int | None:
        """The number of records that may still be read; None for no limit."""
        return self._records

    @property
    def bytes(self) -> int | None:
        """The payload bytes that may still be read; None for no limit."""
        return self._bytes

    def take(self, records: Records) -> int:
        """Use the allowance for the leading records that fit in it, and return their number."""
        if self._records is None and self._bytes is None:
            return len(records)
        count = len(records) if self._records is None else min(len(records), self._records)
        if count and self._bytes is not None:
            count = self._take_bytes(records.first(count), self._bytes)
        if count:
            self._taken = True
            if self._records is not None:
                self._records -= count
        return count

    def _take_bytes(self, records: Records, left: int) -> int:
        """Use the remaining bytes for the leading records that fit in them, and return their number."""
        count, size = len(records), records.payload_bytes
        if size > left:
            sizes = list(accumulate(map(len, records.payloads)))
            # The first record always fits: one larger than the whole allowance could never be read otherwise.
            count = max(bisect_right(sizes, left), 0 if self._taken else 1)
            size = sizes[count - 1] if count else 0
        self._bytes = max(0, left - size)
        return count
