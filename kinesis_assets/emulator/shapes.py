"""The types of request and response members, with the service's constraints, and the errors of the API.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORDS = {"arn": "ARN", "kib": "KiB"}


def _wire_name(name: str) -> str:
    return "".join(_WORDS.get(word, word.capitalize()) for word in name.split("_"))


class Member(Struct, rename=_wire_name, omit_defaults=True):
    """A structure of the API. `stream_name` is `StreamName` on the wire, and None is omitted."""


StreamName = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[a-zA-Z0-9_.-]+$")]
StreamARN = Annotated[
    str, Meta(min_length=1, max_length=2048, pattern=r"^arn:aws.*:kinesis:.*:\d{12}:stream/\S+$")
]
ConsumerName = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[a-zA-Z0-9_.-]+$")]
ConsumerARN = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2048,
        pattern=r"^(arn):aws.*:kinesis:.*:\d{12}:.*stream\/[a-zA-Z0-9_.-]+\/consumer\/[a-zA-Z0-9_.-]+:[0-9]+$",
    ),
]
ResourceARN = Annotated[
    str,
    Meta(
        min_length=1, max_length=2048, pattern=r"^arn:aws.*:kinesis:.*:\d{12}:.*(stream|channel|queue)/\S+$"
    ),
]
ShardId = Annotated[str, Meta(min_length=1, max_length=128, pattern="^[a-zA-Z0-9_.-]+$")]
PositiveInteger = Annotated[int, Meta(ge=1)]
HashKey = Annotated[str, Meta(pattern=r"^(0|([1-9]\d{0,38}))$")]
SequenceNumberText = Annotated[str, Meta(pattern=r"^(0|([1-9]\d{0,128}))$")]
PartitionKey = Annotated[str, Meta(min_length=1, max_length=256)]
PageLimit = Annotated[int, Meta(ge=1, le=10_000)]
NextToken = Annotated[str, Meta(min_length=1, max_length=1_048_576)]
ShardIterator = Annotated[str, Meta(min_length=1, max_length=512)]
MaxRecordSizeInKiB = Annotated[int, Meta(ge=1024, le=10_240)]
TagKey = Annotated[str, Meta(min_length=1, max_length=128)]
TagValue = Annotated[str, Meta(min_length=0, max_length=256)]
Tags = Annotated[dict[TagKey, TagValue], Meta(min_length=1, max_length=200)]
StreamMode = Literal["PROVISIONED", "ON_DEMAND"]
RecordDistributionStrategy = Literal["USER_PARTITION_KEY", "AUTO"]
Timestamp = float
"""Seconds since the epoch, with millisecond precision."""


def milliseconds(timestamp: Timestamp) -> int:
    """Convert a timestamp in seconds to the nearest millisecond."""
    return round(timestamp * 1000)


class ServiceError(Exception):
    """The service refuses a request. The response is HTTP 400 with the class name as `__type`."""


class AccessDeniedException(ServiceError):
    """The caller's account is not allowed to call the operation on another account's stream."""


class DryRunOperationException(ServiceError):
    """The request is valid. It was not carried out because DryRun is set."""

    def __init__(self) -> None:
        super().__init__("The request would have succeeded, but DryRun is set.")


class ExpiredIteratorException(ServiceError):
    """The shard iterator is older than five minutes."""


class ExpiredNextTokenException(ServiceError):
    """The pagination token is older than five minutes."""


class InvalidArgumentException(ServiceError):
    """An argument is well-formed but invalid for this stream, shard or operation."""


class LimitExceededException(ServiceError):
    """The request would exceed a limit of the account."""


class ResourceInUseException(ServiceError):
    """The resource already exists."""


class ResourceNotFoundException(ServiceError):
    """The stream or shard does not exist."""


class SerializationException(ServiceError):
    """The body is not JSON, or a member has the wrong type."""


class UnknownOperationException(ServiceError):
    """The operation does not exist, or the request does not use the endpoint's protocol."""


class ValidationException(ServiceError):
    """A member is missing, or violates a constraint on its length, range, pattern or value."""


MAX_TAGS = 50


def check_tags(tags: Mapping[str, str]) -> None:
    """Raise `InvalidArgumentException` if a stream or a consumer may not have these tags together."""
    if len(tags) > MAX_TAGS:
        raise InvalidArgumentException(f"The resource would have more than {MAX_TAGS} tags.")
