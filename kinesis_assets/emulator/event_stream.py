"""The frames of a response with media type application/vnd.amazon.eventstream.

A frame has its own length and that of its headers, a checksum of these two numbers, the headers, the payload,
and a checksum of everything before it.

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Self
from zlib import crc32

CONTENT_TYPE = b"application/vnd.amazon.eventstream"

_PAYLOAD_TYPE = "application/x-amz-json-1.1"
_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_VALUE = struct.Struct(">BH")
_TEXT = 7
"""The type of a header value that is UTF-8 text. The service sends no other type."""


@dataclass(frozen=True)
class Frame:
    """A frame: an event or an exception."""

    headers: dict[str, str]
    payload: bytes

    @classmethod
    def event(cls, kind: str, payload: bytes) -> Self:
        """Create an event."""
        headers = {":event-type": kind, ":content-type": _PAYLOAD_TYPE, ":message-type": "event"}
        return cls(headers, payload)

    @classmethod
    def exception(cls, kind: str, payload: bytes) -> Self:
        """Create an exception, after which the service ends the response."""
        headers = {":exception-type": kind, ":content-type": _PAYLOAD_TYPE, ":message-type": "exception"}
        return cls(headers, payload)

    @property
    def kind(self) -> str:
        """The type of the event or exception."""
        return self.headers.get(":event-type") or self.headers[":exception-type"]

    def with_payload(self, payload: bytes) -> Self:
        """Return this frame with another payload."""
        return replace(self, payload=payload)

    def encode(self) -> bytes:
        """Return the bytes of the frame."""
        headers = b"".join(_encoded(name.encode(), text.encode()) for name, text in self.headers.items())
        length = _PRELUDE.size + len(headers) + len(self.payload) + _CHECKSUM.size
        prelude = struct.pack(">II", length, len(headers))
        frame = b"".join((prelude, _CHECKSUM.pack(crc32(prelude)), headers, self.payload))
        return frame + _CHECKSUM.pack(crc32(frame))


Frames = AsyncGenerator[Frame, None]
"""The frames of a response, each as soon as it is due."""


def _encoded(name: bytes, text: bytes) -> bytes:
    return bytes([len(name)]) + name + _VALUE.pack(_TEXT, len(text)) + text
