"""The time of a shard's next GetRecords call, and its number of records."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.page_limit import LARGEST_PAGE_BYTES, PageLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.kinesis.quota import Quota
    from kinesis_assets.kinesis.records.record import Records

SECONDS_BETWEEN_CALLS = 0.2
"""A shard allows five GetRecords calls per second (AWS, Kinesis quotas)."""

BYTES_PER_SECOND = 2_000_000
"""The read rate of a shard. After a larger page it throttles calls until the rate is met (AWS API reference,
GetRecords)."""

MIN_LIMIT = 100
"""The minimum number of records to request, unless the quota is lower."""


class CallPacing:
    """The pace of one reading's calls.

    Args:
        max_records: The maximum number of records in a page.

    Attributes:
        next_call: The earliest time of the next call, by the monotonic clock.
    """

    def __init__(self, max_records: int) -> None:
        self.next_call = 0.0
        self._page_limit = PageLimit(max_records)
        self._mean_bytes = 0.0

    def seconds_left(self) -> float:
        """Return the time in seconds until the next call."""
        return max(0.0, self.next_call - time.monotonic())

    def limit(self, quotas: Iterable[Quota]) -> int:
        """Return the number of records to request: no more than the quotas are expected to allow."""
        left = [quota.records for quota in quotas if quota.records is not None]
        sizes = [quota.bytes for quota in quotas if quota.bytes is not None]
        if self._mean_bytes and sizes:
            left.append(max(MIN_LIMIT, int(1.25 * min(sizes) / self._mean_bytes)))
        return max(1, min([self._page_limit.records, *left]))

    def note_page(self, records: Records, sent: float) -> None:
        """Record a page.

        Args:
            records: The records of the page.
            sent: The time of the request, by the monotonic clock. The next call is paced from then, so that a
                slow response does not delay it.
        """
        self._page_limit.note_received()
        size = records.payload_bytes + records.key_bytes
        self.next_call = sent + max(SECONDS_BETWEEN_CALLS, size / BYTES_PER_SECOND)
        if records:
            self._mean_bytes = records.payload_bytes / len(records)

    def note_failure(self, *, too_long: bool) -> None:
        """Record a failed call, or a page that was too long to receive."""
        seconds = LARGEST_PAGE_BYTES / BYTES_PER_SECOND if too_long else SECONDS_BETWEEN_CALLS
        self.next_call = time.monotonic() + seconds

    def halve(self, limit: int) -> bool:
        """Lower the page limit, see `PageLimit.halve`."""
        return self._page_limit.halve(limit)
