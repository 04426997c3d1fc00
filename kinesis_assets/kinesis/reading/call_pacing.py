"""When a shard's next page is asked for, and for how many records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.page_limit import LARGEST_PAGE_BYTES, PageLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.kinesis.quota import Budget
    from kinesis_assets.kinesis.records.wire import Records

SECONDS_BETWEEN_CALLS = 0.2
"""Five GetRecords a second and shard (AWS, Kinesis quotas)."""

BYTES_PER_SECOND = 2_000_000
"""What a shard gives; after a page of more it refuses calls for as long (AWS API reference, GetRecords)."""

LEAST_LIMIT = 100
"""Records that are always asked for, unless fewer may be taken."""


class CallPacing:
    """One reading's.

    Args:
        max_records: Records of a page at most.
    """

    def __init__(self, max_records: int) -> None:
        self._page_limit = PageLimit(max_records)
        self._mean_bytes = 0.0
        self.next_call = 0.0

    def seconds_left(self) -> float:
        """Until the next call may be made."""
        return max(0.0, self.next_call - time.monotonic())

    def limit(self, budgets: Iterable[Budget]) -> int:
        """Records to ask for: no more than may be taken, as far as that is known."""
        left = [budget.records for budget in budgets if budget.records is not None]
        sizes = [budget.bytes for budget in budgets if budget.bytes is not None]
        if self._mean_bytes and sizes:
            left.append(max(LEAST_LIMIT, int(1.25 * min(sizes) / self._mean_bytes)))
        return max(1, min([self._page_limit.records, *left]))

    def note_page(self, records: Records, sent: float) -> None:
        """What a page's bytes mean for when the next one is asked for, and for how many records.

        The pace is that of the calls: an answer that takes long on its way slows nothing down.
        """
        self._page_limit.note_received()
        size = records.payload_bytes + records.key_bytes
        self.next_call = sent + max(SECONDS_BETWEEN_CALLS, size / BYTES_PER_SECOND)
        if records:
            self._mean_bytes = records.payload_bytes / len(records)

    def note_failed(self, *, too_long: bool) -> None:
        """A call failed."""
        seconds = LARGEST_PAGE_BYTES / BYTES_PER_SECOND if too_long else SECONDS_BETWEEN_CALLS
        self.next_call = time.monotonic() + seconds

    def halve(self, limit: int) -> bool:
        """Note that the page of so many records was too long; whether fewer can be asked for."""
        return self._page_limit.halve(limit)
