"""When a shard's next GetRecords call is due, and how many records it requests.

All consumers of a shard share its rates, and only those that exceed them are refused. A consumer that calls
exactly as often as they allow takes all of them: it is never refused, while the others always are. So each
wait is a little longer than necessary, by a random part. In the gaps, others get their calls through, and the
next call of this reading is refused in turn. A refusal halves this reading's share of the rates, and each
page increases it by a constant. Readings that all do so converge to equal shares (Chiu and Jain, 1989,
"Analysis of the increase and decrease algorithms for congestion avoidance in computer networks").

The number of records is limited, so that responses do not exceed the maximum length. A page has at most
10 MiB of data. In JSON this is 14 MB of base64, and each record adds field names and a partition key:
10,000 records of 1 KB with keys of 250 characters take 18 MB.

A response that is too long halves the limit, down to a single record. After some responses that are not too
long, the limit doubles. If the next response is too long again, the number of responses before the next
attempt doubles, so that few calls are wasted while the pages stay large.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.retries import exceeds_rates, is_too_long

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.errors import CallFailed
    from kinesis_assets.kinesis.limits import Quota
    from kinesis_assets.kinesis.records.records import Records
    from kinesis_assets.kinesis.settings import PageSizes, ReadTiming


_SMALLEST_SHARE = 0.2
"""The smallest share of the rates, in which a reading is slow, but does not stop: a call a second."""

_INCREASE = 0.02
"""The increase of the share with each page: a halved share is whole again after at most 25 pages."""


class CallPacing:
    """The pace of one reading's calls. `next_call` is the time of the next one, by the monotonic clock."""

    def __init__(self, sizes: PageSizes, timing: ReadTiming) -> None:
        self.next_call = 0.0
        self._timing = timing
        self._clock = timing.clock
        self._page_limit = PageLimit(sizes.page)
        self._smallest_request = sizes.smallest_request
        self._mean_bytes = 0.0
        self._share = 1.0

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
            sent: The time of the request, by the monotonic clock. The next call is paced from then, so that a
                slow response does not delay it.
        """
        self._page_limit.note_received()
        size = records.payload_bytes + records.key_bytes
        timing = self._timing
        self.next_call = sent + self._wait(max(timing.seconds_between_calls, size / timing.bytes_per_second))
        self._share = min(1.0, self._share + _INCREASE)
        if records:
            self._mean_bytes = records.payload_bytes / len(records)

    def note_failure(self, error: CallFailed) -> None:
        """Record a failed call, or a page that was too long to receive."""
        timing = self._timing
        if exceeds_rates(error):
            self._share = max(_SMALLEST_SHARE, self._share / 2)
        largest = LARGEST_PAGE_BYTES / timing.bytes_per_second
        wait = largest if is_too_long(error) else timing.seconds_between_calls
        self.next_call = self._clock.monotonic() + self._wait(wait)

    def _wait(self, seconds: float) -> float:
        """Return the time to wait if the rates allow a call after some seconds, all in seconds."""
        return seconds / self._share * (1 + random.uniform(0, self._timing.wait_jitter))  # noqa: S311

    def halve(self, limit: int) -> bool:
        """Lower the page limit, see `PageLimit.halve`."""
        return self._page_limit.halve(limit)


LARGEST_PAGE_BYTES = 10 << 20
"""The maximum data of a page (AWS API reference, GetRecords). The service counts it, received or not."""

_FIRST_PROBATION = 4
_LONGEST_PROBATION = 256


class PageLimit:
    """The limit of one shard's pages: `records`, at least 1."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self.records = maximum
        self._probation = _FIRST_PROBATION
        self._received = 0
        self._raised = False

    def halve(self, requested: int) -> bool:
        """Lower the limit after a response that was too long. Return whether that is possible."""
        if requested <= 1:
            return False
        if self._raised:
            self._probation = min(2 * self._probation, _LONGEST_PROBATION)
        self.records, self._received, self._raised = requested // 2, 0, False
        return True

    def note_received(self) -> None:
        """Record a response that was not too long."""
        if self.records == self._maximum:
            return
        self._received += 1
        if self._received >= self._probation:
            self.records, self._received, self._raised = min(2 * self.records, self._maximum), 0, True
