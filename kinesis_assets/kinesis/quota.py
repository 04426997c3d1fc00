"""What a task may still read, while its shards read it."""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinesis_assets.kinesis.limits import Allowance
    from kinesis_assets.kinesis.records.record import Records


class Budget:
    """An allowance while it is used up, by any number of readings."""

    def __init__(self, allowance: Allowance) -> None:
        self._records = allowance.records
        self._bytes = allowance.bytes
        self._deadline = None if allowance.seconds is None else time.monotonic() + allowance.seconds
        self._taken = False

    @property
    def used_up(self) -> bool:
        """Whether no further record may be taken."""
        return self._records == 0 or self._bytes == 0

    @property
    def late(self) -> bool:
        """Whether its time is over."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    @property
    def records(self) -> int | None:
        """Records that may still be taken; None for no bound."""
        return self._records

    @property
    def bytes(self) -> int | None:
        """Bytes that may still be taken; None for no bound."""
        return self._bytes

    def take(self, records: Records) -> int:
        """How many of the leading records may be taken; they are taken with that."""
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
        """How many of them are within the bytes that are left; these are taken."""
        count, size = len(records), records.payload_bytes
        if size > left:
            sizes = list(accumulate(map(len, records.payloads)))
            # Without the first, a record larger than the whole allowance could never be read.
            count = max(bisect_right(sizes, left), 0 if self._taken else 1)
            size = sizes[count - 1] if count else 0
        self._bytes = max(0, left - size)
        return count
