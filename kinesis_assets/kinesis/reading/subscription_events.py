"""The events of one response of SubscribeToShard, as they came.

Of their JSON, only what says where they start and end is decoded: what reads the shard decodes the records.

Each is a message of the media type application/vnd.amazon.eventstream, which the AWS SDK parses. Its parser
copies everything that it has whenever bytes are added, so it is given one whole message at a time.

Source: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec
from botocore.eventstream import EventStreamBuffer, ParserError
from botocore.exceptions import BotoCoreError

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.position import NUMBER
from kinesis_assets.kinesis.reading.received_pages import ReceivedEvent
from kinesis_assets.kinesis.records.wire import checked_lag

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.transport.http2 import Http2Response

SUBSCRIBE = "SubscribeToShard"

_LONGEST_EVENT = 10.0
"""Seconds in which the first event must arrive besides the wait for it, if bytes keep arriving: other shards
wait."""

_EVENT = "SubscribeToShardEvent"

_INTERNAL = "Internal"
"""How the names of the exceptions begin that the service reports as its own fault, as by a status of 500."""

_LONGEST_CODE, _LONGEST_TEXT = 100, 1000
"""The number of characters of an exception's name and text that are kept: they go into the log."""

_PRELUDE = struct.Struct(">III")
_SMALLEST = _PRELUDE.size + 4
_INVALID = (ParserError, ValueError, KeyError, StopIteration, struct.error)
"""The errors of the SDK's parser. The KeyError is that of an unknown type of a header."""


class Message(NamedTuple):
    """A message: an event, an exception or an error, with headers such as `:event-type`."""

    headers: Mapping[str, Any]
    payload: bytes


class MessageParser:
    """Parses a body that arrives in pieces. A message has at most `largest` bytes."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._data = bytearray()

    @property
    def buffered(self) -> int:
        """The number of bytes that are not part of a message that was returned."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Add a piece of the body."""
        self._data += data

    def next_message(self) -> Message | None:
        """Return the next message; None if it has not arrived completely.

        Raises:
            ValueError: It is invalid, or too large, which its first bytes show.
        """
        if len(self._data) < _PRELUDE.size:
            return None
        size, _, checksum = _PRELUDE.unpack_from(self._data)
        if crc32(self._data[: _PRELUDE.size - 4]) != checksum:
            raise ValueError("the checksum of the lengths of a message does not match")
        if not _SMALLEST <= size <= self._largest:
            raise ValueError(f"a message has {size} bytes, more than {self._largest} or too few")
        if len(self._data) < size:
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


@dataclass(frozen=True, slots=True)
class Event(ReceivedEvent):
    """An event, with what is decoded of it here.

    Attributes:
        records: How many records it has.
        numbers: The sequence numbers of the first and of the last one; None if it has none.
        millis_behind_latest: Milliseconds from its end to the tip.
        ends_shard: Whether the shard has no further event.
    """

    records: int
    numbers: tuple[str, str] | None
    millis_behind_latest: int
    ends_shard: bool


class _WireEvent(msgspec.Struct, frozen=True, rename="pascal"):
    """The parts of an event's JSON that are decoded here. At the end of the shard it has no continuation."""

    records: list[msgspec.Raw]
    millis_behind_latest: int
    continuation_sequence_number: str | None = None


class _WireNumber(msgspec.Struct, frozen=True, rename="pascal"):
    sequence_number: str


_events = msgspec.json.Decoder(_WireEvent)
_numbers = msgspec.json.Decoder(_WireNumber)


class ShardEvents:
    """The events of one response. They must be closed.

    Args:
        date: The service's clock at the response.

    Attributes:
        ended: Whether the response, or the shard, has no further event.
        opened_at: When the response began, by the monotonic clock.
        heard_at: When an event was last received, or the response began, likewise.
    """

    def __init__(self, client: StreamClient, response: Http2Response, date: datetime) -> None:
        self.ended = False
        self._client = client
        self._response = response
        self._date = date
        self._clock = client.settings.timing.clock
        self._parser = MessageParser(client.settings.page_sizes.largest_body)
        self._error: CallFailed | None = None
        self.opened_at = self.heard_at = self._emptied_at = self._clock.monotonic()

    @property
    def buffered(self) -> int:
        """The size in bytes of an event that was received in part."""
        return self._parser.buffered

    def close(self) -> None:
        """Close the connection."""
        self._response.close()

    async def receive(self, wait: float, most: float) -> list[Event]:
        """Return the events that have arrived, after waiting for the first one.

        Args:
            wait: The maximum time to wait in seconds.
            most: The size in bytes from which on no further event is received.

        Returns:
            The events; none if none arrived in time, or there is no further one.

        Raises:
            CallFailed: The response contains an error, is invalid, or was canceled; or bytes keep arriving,
                but no event.
        """
        await asyncio.sleep(0)  # while bytes have arrived already, nothing else lets other shards go on
        if self._error is not None:
            raise self._error
        found: list[Event] = []
        size = 0
        time = asyncio.get_running_loop().time
        end = time() + wait + _LONGEST_EVENT
        try:
            while size < most and not self.ended:
                message = self._parser.next_message()
                if message is None:
                    if not await self._receive(0.0 if found else wait, end - time()):
                        break
                elif (event := self._decoded(message)) is not None:
                    found.append(event)
                    size += len(event.payload)
                    self.ended = event.ends_shard
        except (BotoCoreError, ValueError, CallFailed) as error:
            failure = self._failure(error)
            if not found:
                raise failure from None
            self._error = failure  # for the next call
        if found:
            self.heard_at = self._clock.monotonic()
        return found

    async def _receive(self, wait: float, left: float) -> bool:
        """Receive some bytes, and return whether there were any.

        Args:
            wait: The maximum time to wait in seconds.
            left: The time that is left until an event must have arrived.
        """
        if left <= 0.0:
            raise self._failed("ReadTimeoutError", "bytes arrive again and again, but no whole event")
        data = await self._response.receive(min(wait, left))
        if not data:
            self._emptied_at = self._clock.monotonic()
            self.ended = self._response.ended
            if self.ended and self._parser.buffered:
                raise ValueError(f"the response ends after {self._parser.buffered} bytes of an event")
            return False
        self._parser.add(data)
        return True

    def _decoded(self, message: Message) -> Event | None:
        """Return the event of a message, if it has one.

        Raises:
            CallFailed: It is an exception of the service.
            ValueError: It is invalid.
        """
        headers = message.headers
        if headers.get(":message-type") == "event":
            return self._event(message.payload) if headers.get(":event-type") == _EVENT else None
        code = str(headers.get(":exception-type") or headers.get(":error-code"))[:_LONGEST_CODE]
        try:
            text = msgspec.json.decode(message.payload, type=dict[str, object]).get("message", "")
        except (ValueError, RecursionError):
            text = headers.get(":error-message", "")
        status = HTTPStatus.INTERNAL_SERVER_ERROR if code.startswith(_INTERNAL) else None
        raise self._failed(code, str(text)[:_LONGEST_TEXT], status)

    def _event(self, payload: bytes) -> Event:
        try:
            wire = _events.decode(payload)
            ends = [_numbers.decode(wire.records[index]).sequence_number for index in (0, -1) if wire.records]
        except RecursionError as error:  # the JSON is nested too deeply
            raise ValueError(str(error)) from None
        if not all(map(NUMBER.fullmatch, ends)):
            raise ValueError(f"an event has the sequence numbers {str(ends)[:_LONGEST_TEXT]}")
        return Event(
            payload,
            emptied=self._time_at(self._emptied_at),
            received=self._time_at(self._clock.monotonic()),
            records=len(wire.records),
            numbers=(ends[0], ends[1]) if ends else None,
            millis_behind_latest=checked_lag(wire.millis_behind_latest),
            ends_shard=not wire.continuation_sequence_number,
        )

    def _time_at(self, monotonic: float) -> datetime:
        """Return the service's clock at a time of the monotonic clock."""
        return self._date + timedelta(seconds=monotonic - self.opened_at)

    def _failure(self, error: Exception) -> CallFailed:
        if isinstance(error, CallFailed):
            return error
        code = type(error).__name__ if isinstance(error, BotoCoreError) else "IncompleteBody"
        return self._failed(code, str(error))

    def _failed(self, code: str, reason: str, status: int | None = None) -> CallFailed:
        return CallFailed(self._client.stream, SUBSCRIBE, code, reason, status)
