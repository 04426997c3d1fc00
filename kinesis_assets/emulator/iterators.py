"""Shard iterators and pagination tokens. They are opaque to the client and hold all the state of a read.

A token holds when it was issued and when its stream was created, so the service keeps no state.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Struct

from kinesis_assets.emulator.shapes import (
    ExpiredIteratorException,
    ExpiredNextTokenException,
    InvalidArgumentException,
    ServiceError,
)

LIFETIME = 300_000
"""How long a token is valid, in milliseconds."""

T = TypeVar("T", bound="Token")


class Token(Struct, array_like=True, tag=True):
    """The base of all tokens: the time of issue in milliseconds."""

    argument: ClassVar[str] = "NextToken"
    expired: ClassVar[type[ServiceError]] = ExpiredNextTokenException

    issued_at: int


class ShardPosition(Token):
    """A shard iterator: the position of the next record to read."""

    argument: ClassVar[str] = "ShardIterator"
    expired: ClassVar[type[ServiceError]] = ExpiredIteratorException

    stream_name: str
    stream_created_at: int
    shard_id: str
    position: int


class ShardListing(Token):
    """A page of ListShards: the shards after a shard id that were open at some time within a time range.

    `since` and `until` are inclusive and in milliseconds; None for `until` means no end. The first page fixes
    the time range, so a reshard between two pages hides no shard. The token holds the ARN because a request
    with a token names no stream, and another account's stream is only found by its ARN.
    """

    stream_name: str
    stream_created_at: int
    after: str
    since: int
    until: int | None
    stream_arn: str


class StreamListing(Token):
    """A page of ListStreams: the streams after a stream name."""

    after: str


class ConsumerListing(Token):
    """A page of ListStreamConsumers: the consumers after a name."""

    stream_created_at: int
    after: str


def encode(token: Token) -> str:
    """Return the token as text."""
    return b64encode(msgspec.msgpack.encode(token)).decode()


def decode(text: str, kind: type[T], now: int) -> T:
    """Decode a token.

    Args:
        now: The current time in milliseconds; 0 accepts expired tokens.

    Raises:
        InvalidArgumentException: The text is not a token of that kind.
        ServiceError: The token has expired; see `Token.expired`.
    """
    try:
        token = msgspec.msgpack.decode(b64decode(text, validate=True), type=kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidArgumentException(f"Invalid {kind.argument}.") from error
    if now - token.issued_at > LIFETIME:
        noun = kind.argument.removeprefix("Shard")
        raise kind.expired(
            f"{noun} expired. The {noun.lower()} was created at time {_utc(token.issued_at)} "
            f"while right now it is {_utc(now)} which is further in the future "
            f"than the tolerated delay of {LIFETIME} milliseconds."
        )
    return token


def _utc(moment: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(moment / 1000))
