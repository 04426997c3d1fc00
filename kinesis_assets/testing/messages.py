"""Calls that reach the endpoint, and the responses to them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.errors import InvalidArgumentException
from kinesis_assets.testing.routing import shards_of

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account


@dataclass(frozen=True)
class Call:
    """A call that reached the endpoint.

    Attributes:
        operation: The operation, such as `GetRecords`.
        arguments: The members of the request as they are on the wire: data is base64 text.
        stream: The name of the stream, which may be derived from an iterator or a token; None if the call is
            not for a stream.
        shard_id: The shard, which may be derived from an iterator or a record's hash key; None if the call is
            not for a single shard.
        at: The time of arrival, in seconds of `time.monotonic()`.
    """

    operation: str
    arguments: dict[str, Any]
    stream: str | None
    shard_id: str | None
    at: float

    @classmethod
    def now(cls, operation: str, arguments: dict[str, Any], account: Account) -> Call:
        """Create a call that arrives now."""
        stream = arguments.get("StreamName") or str(arguments.get("StreamARN", "")).rpartition("/")[2]
        shard_id = arguments.get("ShardId")
        if "ShardIterator" in arguments:
            position = _decoded(arguments["ShardIterator"], iterators.ShardPosition)
            if position is not None:
                stream, shard_id = position.stream_name, position.shard_id
        elif operation == "ListShards" and "NextToken" in arguments:
            listing = _decoded(arguments["NextToken"], iterators.ShardListing)
            stream = stream if listing is None else listing.stream_name
        elif operation == "PutRecord":
            shard_id = next(iter(shards_of(operation, arguments, account)), None)
        return cls(operation, arguments, stream or None, shard_id, time.monotonic())


@dataclass(frozen=True)
class Answer:
    """A response, and how it is sent.

    Attributes:
        status: The HTTP status.
        body: The body, which is JSON unless a test sets another one.
        delay: Seconds until the response is sent; `inf` delays it until `Faults.clear`.
        kept: The part of the body that is sent, from 0 to 1.
        on_wire: If only a part of the body is sent: True closes the connection after it, although
            Content-Length is that of the whole body. False sends the part as a complete HTTP response.
        reset: Reset the connection instead of sending the response.
        skew: Seconds to add to the `Date` header.
    """

    status: int
    body: bytes
    delay: float = 0.0
    kept: float = 1.0
    on_wire: bool = False
    reset: bool = False
    skew: float = 0.0

    @classmethod
    def error(cls, code: str, status: int = 400) -> Answer:
        """Create an error response. Its message says that it does not come from the service."""
        members = {"__type": code, "message": "not the service: a fault of kinesis_assets.testing"}
        return cls(status, json.dumps(members).encode())

    @property
    def members(self) -> dict[str, Any]:
        """The members of the JSON body."""
        members: dict[str, Any] = json.loads(self.body)
        return members

    def with_body(self, body: bytes) -> Answer:
        """Return this response with another body."""
        return replace(self, body=body)

    def but(self, **members: Any) -> Answer:
        """Return this response with some members of its JSON body replaced."""
        return self.with_body(json.dumps(self.members | members).encode())


def _decoded(text: Any, kind: type[iterators.T]) -> iterators.T | None:
    """Decode a token, even if it has expired. Returns None if it is not a token of that kind."""
    try:
        return iterators.decode(str(text), kind, now=0)
    except InvalidArgumentException:
        return None
