"""Which calls that failed may succeed at the next try."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.reading.shard_end import UNCONFIRMED
from kinesis_assets.kinesis.records.page_checks import REPEATED_PAGE
from kinesis_assets.kinesis.service_time import UNCERTAIN

if TYPE_CHECKING:
    from kinesis_assets.errors import CallFailed

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
