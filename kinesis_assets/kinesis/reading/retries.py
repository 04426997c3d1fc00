"""Which failed calls are retried, and when; and which shards make no progress."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from kinesis_assets.errors import ReadFailed, ShardSilent, ShardThrottled
from kinesis_assets.kinesis.reading.pages import UNCONFIRMED
from kinesis_assets.kinesis.records.wire import RepeatedPage
from kinesis_assets.kinesis.stream import UNCERTAIN

if TYPE_CHECKING:
    from kinesis_assets.errors import CallFailed
    from kinesis_assets.kinesis.settings import ReadTiming


_MIN_ATTEMPTS = 3
"""The minimum number of attempts for a throttled shard, whatever its `retry_seconds`: where many shards share
the calls of a task, attempts are far apart."""

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
