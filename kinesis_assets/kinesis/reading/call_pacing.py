"""The time of a shard's next GetRecords call, and its number of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.page_limit import LARGEST_PAGE_BYTES, PageLimit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.kinesis.page_sizes import PageSizes
    from kinesis_assets.kinesis.quota import Quota
    from kinesis_assets.kinesis.read_timing import ReadTiming
    from kinesis_assets.kinesis.records.record import Records


class CallPacing:
    """The pace of one reading's calls.

    Args:
        sizes: The numbers of records to request.
        timing: The rates that the shard allows, and the clock.

    Attributes:
        next_call: The earliest time of the next call, by the monotonic clock.
    """

    def __init__(self, sizes: PageSizes, timing: ReadTiming) -> None:
        self.next_call = 0.0
        self._timing = timing
        self._clock = timing.clock
        self._page_limit = PageLimit(sizes.page)
        self._smallest_request = sizes.smallest_request
        self._mean_bytes = 0.0

    def seconds_left(self) -> float:
        """Return the time in seconds until the next call."""
        return max(0.0, self.next_call - self._clock.monotonic())

    def limit(self, quotas: Iterable[Quota]) -> int:
        """Return the number of records to request: no more than the quotas are expected to allow."""
        left = [quota.records for quota in quotas if quota.records is not None]
        bytes_left = [quota.bytes for quota in quotas if quota.bytes is not None]
        if self._mean_bytes and bytes_left:
            left.append(max(self._smallest_request, int(1.25 * min(bytes_left) / self._mean_bytes)))
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
        timing = self._timing
        self.next_call = sent + max(timing.seconds_between_calls, size / timing.bytes_per_second)
        if records:
            self._mean_bytes = records.payload_bytes / len(records)

    def note_failure(self, *, too_long: bool) -> None:
        """Record a failed call, or a page that was too long to receive."""
        timing = self._timing
        largest = LARGEST_PAGE_BYTES / timing.bytes_per_second
        self.next_call = self._clock.monotonic() + (largest if too_long else timing.seconds_between_calls)

    def halve(self, limit: int) -> bool:
        """Lower the page limit, see `PageLimit.halve`."""
        return self._page_limit.halve(limit)
