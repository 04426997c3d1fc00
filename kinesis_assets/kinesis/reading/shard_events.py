"""The events of one response of SubscribeToShard, as pages.

What has arrived is taken at once, so that many small events are one page. Memory for it is reserved once its
first bytes have arrived, as for a response of GetRecords.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from botocore.exceptions import BotoCoreError

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.records.wire import WireEvent, page_of_events
from kinesis_assets.kinesis.transport.event_stream import MessageParser
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.records.wire import Page
    from kinesis_assets.kinesis.transport.concurrency import Reservation
    from kinesis_assets.kinesis.transport.event_stream import Message
    from kinesis_assets.kinesis.transport.http2 import Http2Response

SUBSCRIBE = "SubscribeToShard"

_PAGE_BYTES = 1 << 20
"""The size of the events from which on they are a page, in bytes."""

_LONGEST_EVENT = 10.0
"""Seconds in which the first event must arrive besides the wait for it, if bytes keep arriving: other shards
wait."""

_EVENT = "SubscribeToShardEvent"

_INTERNAL = "Internal"
"""How the names of the exceptions begin that the service reports as its own fault, as by a status of 500."""

_LONGEST_CODE, _LONGEST_TEXT = 100, 1000
"""The number of characters of an exception's name and text that are kept: they go into the log."""

_decoder = msgspec.json.Decoder(WireEvent)


class ShardEvents:
    """The events of one response. They must be closed.

    Args:
        response: The response.
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
        self._date = self._delivered_until = date
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

    async def page(self, wait: float, reservation: Reservation | None) -> tuple[Page, datetime] | None:
        """Return what has arrived as a page, after waiting for the first event.

        At the end of the shard, the page has no next iterator.

        Args:
            wait: The maximum time to wait in seconds.
            reservation: The memory reservation for the page.

        Returns:
            The page, and the service's clock: now or, of a page up to the tip, a time before which no other
            record had arrived. None if no event arrived in time, or there is no further one.

        Raises:
            CallFailed: The response contains an error, is invalid, or was canceled; or bytes keep arriving,
                but no event.
        """
        await asyncio.sleep(0)  # while bytes have arrived already, nothing else lets other readings go on
        since = self._emptied_at
        events = await self._events(wait, reservation)
        if not events:
            return None
        self.heard_at = self._clock.monotonic()
        self.ended = not events[-1].continuation_sequence_number
        try:
            page = page_of_events(events)
        except ValueError as error:
            raise self._failure(error) from None
        finally:
            del events  # the traceback of an error must not keep them alive
        now = self._time_at(self.heard_at)
        if page.records:  # what had arrived before its last record has been delivered before it
            arrival = min(now, page.records[-1].arrival)
            self._delivered_until = max(self._delivered_until, arrival)
        # At the tip, what may not have arrived yet counts; before it, what may have expired meanwhile.
        at_tip = page.millis_behind_latest == 0
        return page, max(self._time_at(since), self._delivered_until) if at_tip else now

    def _time_at(self, monotonic: float) -> datetime:
        """Return the service's clock at a time of the monotonic clock."""
        return self._date + timedelta(seconds=monotonic - self.opened_at)

    async def _events(self, wait: float, reservation: Reservation | None) -> list[WireEvent]:
        if self._error is not None:
            raise self._error
        found: list[WireEvent] = []
        size = 0
        time = asyncio.get_running_loop().time
        left = wait + _LONGEST_EVENT  # without the time for which memory is waited for
        try:
            while size < _PAGE_BYTES and not (found and not found[-1].continuation_sequence_number):
                before = self._parser.buffered
                message = self._parser.next_message()
                if message is not None:
                    size += before - self._parser.buffered
                    found += self._decoded(message)
                    continue
                began = time()
                received = await self._receive(0.0 if found else wait, left)
                left -= time() - began
                if not received:
                    break
                if reservation is not None:
                    due = max(self._parser.next_size(), _PAGE_BYTES)
                    await reservation.acquire_at_least(int(MEMORY_PER_BODY_BYTE * due))
        except (BotoCoreError, ValueError, CallFailed) as error:
            failure = self._failure(error)
            if not found:
                raise failure from None
            self._error = failure  # for the next page
        return found

    async def _receive(self, wait: float, left: float) -> bool:
        """Receive some bytes, and return whether there were any.

        Args:
            wait: The maximum time to wait in seconds.
            left: The time that is left until an event must have arrived.
        """
        if left <= 0.0:
            reason = "bytes arrive again and again, but no whole event"
            raise CallFailed(self._client.stream, SUBSCRIBE, "ReadTimeoutError", reason)
        data = await self._response.receive(min(wait, left))
        if not data:
            self._emptied_at = self._clock.monotonic()
            self.ended = self._response.ended
            if self.ended and self._parser.buffered:
                raise ValueError(f"the response ends after {self._parser.buffered} bytes of an event")
            return False
        self._parser.add(data)
        return True

    def _decoded(self, message: Message) -> list[WireEvent]:
        """Return the event of a message, if it has one.

        Raises:
            CallFailed: It is an exception of the service.
            ValueError: It is invalid.
        """
        headers = message.headers
        if headers.get(":message-type") == "event":
            if headers.get(":event-type") != _EVENT:
                return []
            try:
                return [_decoder.decode(message.payload)]
            except RecursionError as error:  # the JSON is nested too deeply
                raise ValueError(str(error)) from None
        code = str(headers.get(":exception-type") or headers.get(":error-code"))[:_LONGEST_CODE]
        try:
            text = msgspec.json.decode(message.payload, type=dict[str, object]).get("message", "")
        except (ValueError, RecursionError):
            text = headers.get(":error-message", "")
        status = HTTPStatus.INTERNAL_SERVER_ERROR if code.startswith(_INTERNAL) else None
        raise CallFailed(self._client.stream, SUBSCRIBE, code, str(text)[:_LONGEST_TEXT], status)

    def _failure(self, error: Exception) -> CallFailed:
        if isinstance(error, CallFailed):
            return error
        if isinstance(error, BotoCoreError):
            return CallFailed(self._client.stream, SUBSCRIBE, type(error).__name__, str(error))
        return CallFailed(self._client.stream, SUBSCRIBE, "IncompleteBody", str(error))
