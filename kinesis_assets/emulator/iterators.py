"""Shard iterators and pagination tokens: opaque to the client, and all the state there is of a read.

They hold when they were issued and which life of the stream they belong to, so the service keeps nothing.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from typing import ClassVar, TypeVar

import msgspec
from msgspec import Struct

from kinesis_assets.emulator.errors import (
    ExpiredIteratorException,
    ExpiredNextTokenException,
    InvalidArgumentException,
    ServiceError,
)

LIFETIME = 300_000
"""How long a token may be used, in milliseconds."""

T = TypeVar("T", bound="Token")


class Token(Struct, array_like=True, tag=True):
    """What every token holds: when it was issued, in milliseconds."""

    argument: ClassVar[str] = "NextToken"
    expired: ClassVar[type[ServiceError]] = ExpiredNextTokenException

    issued_at: int


class ShardPosition(Token):
    """A shard iterator: the next record to read."""

    argument: ClassVar[str] = "ShardIterator"
    expired: ClassVar[type[ServiceError]] = ExpiredIteratorException

    stream_name: str
    stream_created_at: int
    shard_id: str
    position: int


class ShardListing(Token):
    """A page of ListShards: the shards after a shard id that were open at some time of a span.

    `since` and `until` are inclusive milliseconds; `until` None is without end. The span is fixed by the
    first page, so a reshard between two pages hides no shard. Without its ARN a stream of another account
    could not be listed to the end: a request with a token names no stream.
    """

    stream_name: str
    stream_created_at: int
    after: str
    since: int
    until: int | None
    stream_arn: str


class StreamListing(Token):
    """A page of ListStreams: the streams after a name."""

    after: str


def encode(token: Token) -> str:
    """The token as text."""
    return b64encode(msgspec.msgpack.encode(token)).decode()


def decode(text: str, kind: type[T], now: int) -> T:
    """The token that the text stands for, if it is one of that kind and not too old."""
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
