"""What comes to the endpoint, and what goes back."""

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
    """One call that reached the endpoint.

    Attributes:
        operation: As `GetRecords`.
        arguments: Its members as they are on the wire: data is base64 text.
        stream: The stream's name, also where only an iterator or a token tells it; None where none is meant.
        shard_id: The shard, also where only an iterator or a record's hash key tells it; None where none is
            meant, or several are (PutRecords).
        at: When it came, in seconds of `time.monotonic()`.
    """

    operation: str
    arguments: dict[str, Any]
    stream: str | None
    shard_id: str | None
    at: float

    @classmethod
    def now(cls, operation: str, arguments: dict[str, Any], account: Account) -> Call:
        """A call that came now."""
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
    """What goes back to the caller, and how.

    Attributes:
        status: HTTP's status.
        body: JSON, unless a test says otherwise.
        delay: Seconds until it is sent; `inf` is never.
        kept: The part of the body that is sent, from 0 to 1.
        on_wire: Where the body is not sent whole: the Content-Length is that of the whole body, and the
            connection ends within it. Otherwise the part is a whole answer as far as HTTP can tell.
        reset: Nothing of it is sent: the connection is reset.
        skew: Seconds by which its `Date` header is off the service's clock.
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
        """An error of the service; what it says about itself tells that it is none."""
        members = {"__type": code, "message": "not the service: a fault of kinesis_assets.testing"}
        return cls(status, json.dumps(members).encode())

    @property
    def members(self) -> dict[str, Any]:
        """The body, as JSON tells it."""
        members: dict[str, Any] = json.loads(self.body)
        return members

    def with_body(self, body: bytes) -> Answer:
        """The same answer with another body, whole or not."""
        return replace(self, body=body)

    def but(self, **members: Any) -> Answer:
        """The same answer with some members of its body changed."""
        return self.with_body(json.dumps(self.members | members).encode())


def _decoded(text: Any, kind: type[iterators.T]) -> iterators.T | None:
    """What a token stands for, however old it is; None if it is none of that kind."""
    try:
        return iterators.decode(str(text), kind, now=0)
    except InvalidArgumentException:
        return None
