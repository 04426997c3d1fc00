"""Decoding and validation of request bodies.

The structures declare the service's constraints, which msgspec checks while it decodes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.emulator.shapes import (
    Member,
    SerializationException,
    StreamARN,
    StreamName,
    ValidationException,
)

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account, Stream
    from kinesis_assets.emulator.event_stream import Frames

_WRONG_TYPE = re.compile("Expected `[^`]+`, got ")
"""The beginning of msgspec's error for a value of the wrong type. Its others are for violated constraints."""


class Request(Member):
    """A request. Each operation is a subclass that has the operation's name."""

    def execute(self, account: Account) -> Member | Frames | None:
        """Carry out the operation and return the response: None is an empty body, frames are events."""
        raise NotImplementedError


class StreamRequest(Request):
    """A request for one stream, which is identified by its name, its ARN or both."""

    stream_name: StreamName | None = None
    stream_arn: StreamARN | None = None

    def stream(self, account: Account) -> Stream:
        """Return the stream of the request."""
        return account.stream(self.stream_name, self.stream_arn, type(self).__name__)


def decode(body: bytes, kind: type[Request]) -> Request:
    """Decode the body of a request.

    Raises:
        SerializationException: The body is not JSON, or a member has the wrong type.
        ValidationException: A member is missing or violates a constraint.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if isinstance(error, msgspec.ValidationError) and _WRONG_TYPE.match(str(error)) is None:
            raise invalid(str(error)) from error
        raise SerializationException(str(error)) from error


def invalid(violation: str) -> ValidationException:
    """Return the error for a violated constraint."""
    return ValidationException(f"1 validation error detected: {violation}")
