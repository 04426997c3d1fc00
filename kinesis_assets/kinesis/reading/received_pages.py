"""The pages of one reading from what a subscription has received, and by GetRecords where that is not enough.

A subscription belongs to the process of a run, which passes the events on as they came. They never fail a
reading: if one is invalid, GetRecords reads on at the same position, with its own checks and retries. The end
of a shard is read by GetRecords too, so that it is confirmed as always, see `pages`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records.wire import Page, WireEvent, check_follows, page_of_events
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import ReadableBuffer

    from kinesis_assets.kinesis.reading.pages import PageSource
    from kinesis_assets.kinesis.transport.concurrency import Reservation

_PAGE_BYTES = 1 << 20
"""The size of the events from which on they are a page, in bytes."""


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event of a subscription.

    Attributes:
        payload: Its JSON.
        emptied: A time of the service's clock: all that had been sent by then was received before the event.
        received: The service's clock when it was received.
    """

    payload: bytes | memoryview
    emptied: datetime
    received: datetime


class Received(NamedTuple):
    """What a subscription to a shard has received.

    Attributes:
        start: The position from which on.
        events: The events that have records which may be unread, and those after them.
        millis_behind_latest: Milliseconds from their end to the tip.
        seen: The service's clock then; if that is the tip, a time before which no other record had arrived.
    """

    start: Position
    events: Sequence[ReceivedEvent]
    millis_behind_latest: int
    seen: datetime


class ReceivedPages:
    """The pages of one reading, in the place of a `PageSource`.

    Args:
        received: What was received of the shard, with events, from the start of the reading or before it.
        closed: Whether the shard accepts no more records, so that its tip is its end.

    Attributes:
        refused: Why GetRecords reads on instead of the events; None if it does not.
        uses_shared_rates: Whether the last page was read by GetRecords.
    """

    def __init__(self, received: Received, polls: PageSource, *, closed: bool) -> None:
        self.refused: str | None = None
        self.uses_shared_rates = False
        self._start = received.start
        self._events = list(reversed(received.events))  # the next one is the last
        self._delivered_until = received.events[0].emptied
        self._polls = polls
        self._reads_to_end = closed

    @property
    def exhausted(self) -> bool:
        """Whether the next page has not been received yet."""
        return not (self._events or self._reads_to_end or self.refused)

    @property
    def has_more(self) -> bool:
        """Whether more has arrived than the pages that were read."""
        return bool(self._events)

    def drop_iterator(self) -> None:
        """Read the next page by GetRecords, with a new iterator."""
        if self._events:
            self.refused = "its events leave out a record"
            self._events = []
        self._polls.drop_iterator()

    async def connect(self, position: Position) -> None:
        """Get what the next page is read with: nothing, or an iterator."""
        if not self._events:
            await self._polls.connect(position)

    async def page(self, limit: int, position: Position, reservation: Reservation) -> tuple[Page, datetime]:
        """Return the page at a position after `connect`, see `PageSource.page`."""
        self.uses_shared_rates = not self._events
        if self._events:
            try:
                return await self._received_page(position, reservation)
            except (ValueError, RecursionError) as error:
                self.refused = str(error)
            self._events, self.uses_shared_rates = [], True
            await self._polls.connect(position)
        return await self._polls.page(limit, position, reservation)

    async def _received_page(self, position: Position, reservation: Reservation) -> tuple[Page, datetime]:
        size, events = 0, []
        while self._events and size < _PAGE_BYTES:
            events.append(self._events.pop())
            size += len(events[-1].payload)
        await reservation.acquire(int(MEMORY_PER_BODY_BYTE * size))
        received, emptied = events[-1].received, events[-1].emptied
        page = page_of_events([_event_decoder.decode(event.payload) for event in events])
        del events  # the traceback of an error must not keep them alive
        if self._start != position:  # the first events were read in part
            self._start = position
            index = page.records.numbers.index(position.sequence_number or "")
            page = replace(page, records=page.records[index + (position.sub_sequence_number is None) :])
        first = page.records.numbers[0] if page.records else None
        check_follows(first, position)
        self._start = Position.after(page.records.numbers[-1]) if page.records else position
        self._reads_to_end = self._reads_to_end or page.next_shard_iterator is None
        if page.records:  # what had arrived before its last record has been delivered before it
            arrival = min(received, page.records[-1].arrival)
            self._delivered_until = max(self._delivered_until, arrival)
        # At the tip, what may not have arrived yet counts; before it, what may have expired meanwhile.
        at_tip = page.millis_behind_latest == 0
        return page, max(emptied, self._delivered_until) if at_tip else received


def encode(received: Mapping[str, Received]) -> list[bytes | memoryview]:
    """Encode what was received of some shards, by shard id, for `decode` in another process.

    Returns:
        The parts of the encoding, one after the other: the events as they are, after what describes them. To
        copy them would take longer than to write them to a file.
    """
    described = _encoder.encode(
        {
            shard_id: (
                each.start,
                [(len(event.payload), event.emptied, event.received) for event in each.events],
                each.millis_behind_latest,
                each.seen,
            )
            for shard_id, each in received.items()
        }
    )
    payloads = [event.payload for each in received.values() for event in each.events]
    return [_SIZE.pack(len(described)), described, *payloads]


def decode(data: ReadableBuffer) -> dict[str, Received]:
    """Decode the parts that `encode` returned. The events are views of them."""
    rest = memoryview(data)

    def take(size: int) -> memoryview:
        nonlocal rest
        taken, rest = rest[:size], rest[size:]
        return taken

    (size,) = _SIZE.unpack(take(_SIZE.size))
    return {
        shard_id: Received(start, [ReceivedEvent(take(size), *times) for size, *times in events], lag, seen)
        for shard_id, (start, events, lag, seen) in _decoder.decode(take(size)).items()
    }


_SIZE = struct.Struct(">Q")
_event_decoder = msgspec.json.Decoder(WireEvent)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(
    dict[str, tuple[Position, list[tuple[int, datetime, datetime]], int, datetime]]
)
