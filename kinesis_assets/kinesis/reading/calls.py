"""When the next GetRecords call of a shard is due, what it requests, and which failed calls are retried.

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

import math
import random
from http import HTTPStatus
from typing import TYPE_CHECKING

from kinesis_assets.errors import ReadFailed, ShardSilent, ShardThrottled
from kinesis_assets.kinesis.reading.pages import INCOMPLETE, UNCONFIRMED
from kinesis_assets.kinesis.records.wire import RepeatedPage
from kinesis_assets.kinesis.stream import UNCERTAIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kinesis_assets.errors import CallFailed
    from kinesis_assets.kinesis.reading.range import Quota
    from kinesis_assets.kinesis.records.records import Records
    from kinesis_assets.kinesis.settings import PageSizes, ReadTiming


LARGEST_PAGE_BYTES = 10 << 20
"""The maximum data of a page (AWS API reference, GetRecords). The service counts it, received or not."""

_RATES_EXCEEDED = "ProvisionedThroughputExceededException"
"""The name of the exception if all consumers together exceed the rates of a shard."""

_THROTTLED = frozenset(
    {_RATES_EXCEEDED, "LimitExceededException", "ThrottlingException", "KMSThrottlingException"}
)

_TIMED_OUT = frozenset({"ConnectTimeoutError", "ReadTimeoutError"})
"""The names of botocore's exceptions."""

_TOO_LONG = "ResponseTooLong"
"""The name of the exception of `http`."""

_TRANSIENT = frozenset(
    {
        "ExpiredIteratorException",
        "IncompleteBody",
        RepeatedPage.__name__,
        UNCERTAIN,
        UNCONFIRMED,
        INCOMPLETE,
        # There was no complete response: the names of botocore's exceptions.
        "EndpointConnectionError",
        "ProxyConnectionError",
        "ConnectionClosedError",
        "ResponseStreamingError",
        "HTTPClientError",
        _TOO_LONG,
    }
)


def is_throttled(error: CallFailed) -> bool:
    """Whether the service throttled the call."""
    return error.code in _THROTTLED


def exceeds_rates(error: CallFailed) -> bool:
    """Whether all consumers together exceeded the rates of the shard."""
    return error.code == _RATES_EXCEEDED


def timed_out(error: CallFailed) -> bool:
    """Whether there was no response in time."""
    return error.code in _TIMED_OUT


def is_too_long(error: CallFailed) -> bool:
    """Whether a page was too long to receive, so that the next request must ask for fewer records."""
    return error.code == _TOO_LONG and error.operation == "GetRecords"


def is_transient(error: CallFailed) -> bool:
    """Whether the next attempt may succeed, as after every error that the service reports as its own."""
    if error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return False
    fault = error.status is not None and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return fault or error.code in _TRANSIENT or is_throttled(error) or timed_out(error)


_SMALLEST_SHARE = 0.2
"""The smallest share of the rates, in which a reading is slow, but does not stop: a call a second."""

_INCREASE = 0.02
"""The increase of the share with each page: a halved share is whole again after at most 25 pages."""


class CallPacing:
    """The pace of one reading's calls.

    Attributes:
        next_call: The time of the next one, by the monotonic clock.
        page_limit: The limit of their pages.
    """

    def __init__(self, sizes: PageSizes, timing: ReadTiming) -> None:
        self.next_call = 0.0
        self._timing = timing
        self._clock = timing.clock
        self.page_limit = PageLimit(sizes.page)
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
        return max(1, min([self.page_limit.records, *left]))

    def note_page(self, records: Records, sent: float) -> None:
        """Record a page.

        Args:
            sent: The time of the request, by the monotonic clock. The next call is paced from then, so that a
                slow response does not delay it.
        """
        self.page_limit.note_received()
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


_MIN_ATTEMPTS = 3
"""The minimum number of attempts for a throttled shard, whatever its `retry_seconds`: where many shards share
the calls of a task, attempts are far apart."""


class PageRetries:
    """The failed attempts to read one page.

    Args:
        silence_is_final: Whether a call without a response in time is not retried.
    """

    def __init__(self, timing: ReadTiming, stall_detector: StallDetector, *, silence_is_final: bool) -> None:
        self._timing = timing
        self._stall_detector = stall_detector
        self._silence_is_final = silence_is_final
        self._throttled = self._failed = 0
        self._exceeded = False

    def is_silent(self, error: CallFailed) -> bool:
        """Whether the lack of a response in time ends the retries."""
        return timed_out(error) and self._silence_is_final

    def note_failure(self, error: CallFailed, *, never_answered: bool) -> type[ReadFailed] | None:
        """Record a failed attempt.

        Args:
            never_answered: Whether no call of the reading has returned a page yet.

        Returns:
            The error to raise if this was the last attempt; None to retry.
        """
        self._exceeded = exceeds_rates(error)
        if is_throttled(error):
            self._throttled += 1
            # After empty pages `retry_seconds` does not count: the next run would meet the same pages again.
            impatient = (
                never_answered and self._throttled >= _MIN_ATTEMPTS and self._stall_detector.retry_time_over
            )
            return ShardThrottled if self._stall_detector.stalled or impatient else None
        self._failed += 1
        if self.is_silent(error):
            return ShardSilent
        is_last = self._failed == self._timing.page_retries.attempts or not is_transient(error)
        return ReadFailed if is_last else None

    def wait(self) -> float:
        """Return the seconds to wait before the next attempt, apart from those of the shard's rates."""
        if self._exceeded:
            return 0.0
        return self._timing.page_retries.backoff.wait(self._throttled + self._failed)


class StallDetector:
    """The progress of one reading.

    Time without progress starts at the first response or failure without progress: before it, the shard may
    have waited for other shards. The first response is always progress.

    Args:
        retry_seconds: The maximum time in seconds without progress while other shards wait; None disables it.
    """

    def __init__(self, retry_seconds: float | None, timing: ReadTiming) -> None:
        self._clock = timing.clock
        self._stall_seconds = timing.stall_seconds
        self._retry_seconds = retry_seconds
        self._progress_at = 0.0
        self._nearest = math.inf  # milliseconds to the tip at that time
        self._stalled_since: float | None = None

    def note_response(self, millis_behind_latest: int, *, any_records: bool) -> None:
        """Record a response."""
        now = self._clock.monotonic()
        gained_ms = self._nearest - millis_behind_latest
        if any_records or gained_ms >= (now - self._progress_at) * 1000:
            self._progress_at, self._nearest = now, millis_behind_latest
            self._stalled_since = None
        else:
            self.note_no_progress()

    def note_no_progress(self) -> None:
        """Record a call without progress."""
        if self._stalled_since is None:
            self._stalled_since = self._clock.monotonic()

    @property
    def stalled(self) -> bool:
        """Whether the shard has made no progress for `ReadTiming.stall_seconds`."""
        return self._stalled_for_more_than(self._stall_seconds)

    @property
    def retry_time_over(self) -> bool:
        """Whether the shard has made no progress for as long as other shards wait for it."""
        return self._retry_seconds is not None and self._stalled_for_more_than(self._retry_seconds)

    def _stalled_for_more_than(self, seconds: float) -> bool:
        since = self._stalled_since
        return since is not None and self._clock.monotonic() - since > seconds
