"""Which calls that failed may succeed at the next try."""

from __future__ import annotations

import random
from http import HTTPStatus
from typing import TYPE_CHECKING

from kinesis_assets.errors import ReadFailed, ShardSilent, ShardThrottled
from kinesis_assets.kinesis.reading.shard_end import UNCONFIRMED
from kinesis_assets.kinesis.records.page_checks import REPEATED_PAGE
from kinesis_assets.kinesis.service_time import UNCERTAIN

if TYPE_CHECKING:
    from kinesis_assets.errors import CallFailed
    from kinesis_assets.kinesis.reading.stall_detector import Progress

_ATTEMPTS = 6
"""Tries of one page, but for throttling, which is waited out for as long as there is patience."""

_LEAST_TRIES = 3
"""Of a throttled shard, however little the patience: where many wait for a task's calls, tries come late."""

_LONGEST_WAIT = 5.0

_THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "ThrottlingException",
        "KMSThrottlingException",
    }
)

_TIMED_OUT = frozenset({"ConnectTimeoutError", "ReadTimeoutError"})
"""Names of botocore's exceptions."""

_TOO_LONG = "ResponseTooLong"
"""Name of the exception of `http_endpoint`."""

_TRIED_AGAIN = frozenset(
    {
        "ExpiredIteratorException",
        "IncompleteBody",
        REPEATED_PAGE,
        UNCERTAIN,
        UNCONFIRMED,
        # No whole answer came: names of botocore's exceptions.
        "EndpointConnectionError",
        "ProxyConnectionError",
        "ConnectionClosedError",
        "ResponseStreamingError",
        "HTTPClientError",
        _TOO_LONG,
    }
)


def is_throttled(error: CallFailed) -> bool:
    """Whether the service refused the call as one too many for now."""
    return error.code in _THROTTLED


def timed_out(error: CallFailed) -> bool:
    """Whether no answer came in time."""
    return error.code in _TIMED_OUT


def is_too_long(error: CallFailed) -> bool:
    """Whether a page was longer than may be received, so that one of fewer records is to be requested."""
    return error.code == _TOO_LONG and error.operation == "GetRecords"


def passes(error: CallFailed) -> bool:
    """Whether the cause may be gone at the next try: also whatever the service calls its own failure."""
    fault = error.status is not None and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return fault or error.code in _TRIED_AGAIN or is_throttled(error) or timed_out(error)


class PageRetries:
    """The tries of one page.

    Args:
        progress: The reading's.
        answer_within: Whether a call that is not answered in time is not tried again.
    """

    def __init__(self, progress: Progress, *, answer_within: bool) -> None:
        self._progress = progress
        self._answer_within = answer_within
        self._throttled = self._failed = 0

    def is_silent(self, error: CallFailed) -> bool:
        """Whether no answer came in the time that the range gives it."""
        return timed_out(error) and self._answer_within

    def note_failed(self, error: CallFailed, *, never_answered: bool) -> type[ReadFailed] | None:
        """Count a failed call; the error to raise if it was the last try."""
        if is_throttled(error):
            self._throttled += 1
            # Who has seen empty pages goes on, or the next run would meet the same ones again.
            impatient = never_answered and self._throttled >= _LEAST_TRIES and self._progress.out_of_patience
            return ShardThrottled if self._progress.stalled or impatient else None
        self._failed += 1
        if self.is_silent(error):
            return ShardSilent
        return ReadFailed if self._failed == _ATTEMPTS or not passes(error) else None

    def draw_wait(self) -> float:
        """Seconds before the next try."""
        longest = min(_LONGEST_WAIT, 0.1 * 2 ** min(self._throttled + self._failed, 10))
        return random.uniform(0, longest)  # noqa: S311
