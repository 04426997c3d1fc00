"""The messages of a body with the media type application/vnd.amazon.eventstream, parsed by the AWS SDK.

The SDK's parser copies everything that it has whenever bytes are added. So it is given one whole message at
a time.

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from botocore.eventstream import EventStreamBuffer, ParserError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRELUDE = struct.Struct(">III")
_SMALLEST = _PRELUDE.size + 4
_INVALID = (ParserError, ValueError, KeyError, StopIteration, struct.error)
"""The errors of the SDK's parser. The KeyError is that of an unknown type of a header."""


class Message(NamedTuple):
    """A message: an event, an exception or an error.

    Attributes:
        headers: Its headers, such as `:event-type`.
    """

    headers: Mapping[str, Any]
    payload: bytes


class MessageParser:
    """Parses a body that arrives in pieces.

    Args:
        largest: The maximum size of a message, in bytes.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._data = bytearray()

    @property
    def buffered(self) -> int:
        """The number of bytes that were added and are not part of a message that was returned."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Add a piece of the body."""
        self._data += data

    def next_size(self) -> int:
        """Return the size of the next message in bytes; 0 if it is not known yet.

        Raises:
            ValueError: The body is invalid there, or the message is too large.
        """
        if len(self._data) < _PRELUDE.size:
            return 0
        size, _, checksum = _PRELUDE.unpack_from(self._data)
        if crc32(self._data[: _PRELUDE.size - 4]) != checksum:
            raise ValueError("the checksum of the lengths of a message does not match")
        if not _SMALLEST <= size <= self._largest:
            raise ValueError(f"a message has {size} bytes, more than {self._largest} or too few")
        return int(size)

    def next_message(self) -> Message | None:
        """Return the next message; None if it has not arrived completely.

        Raises:
            ValueError: It is invalid.
        """
        size = self.next_size()
        if not size or len(self._data) < size:
            return None
        parser = EventStreamBuffer()
        with memoryview(self._data) as data:
            parser.add_data(bytes(data[:size]))
        del self._data[:size]
        try:
            parsed = parser.next()
        except _INVALID as error:
            raise ValueError(f"a message is invalid: {error}") from None
        return Message(parsed.headers, parsed.payload)
