"""SubscribeToShard, whose response is a stream of events.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SubscribeToShard.html
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.emulator.event_stream import Frame, Frames
from kinesis_assets.emulator.operations.consumers import check_active, consumer_by_arn
from kinesis_assets.emulator.operations.listing import ChildShard
from kinesis_assets.emulator.operations.reading import IteratorType, position_in
from kinesis_assets.emulator.requests import Request
from kinesis_assets.emulator.shapes import (
    ConsumerARN,
    DryRunOperationException,
    Member,
    ResourceInUseException,
    ResourceNotFoundException,
    SequenceNumberText,
    ServiceError,
    ShardId,
    Timestamp,
)
from kinesis_assets.emulator.shards import Record, SequenceNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.emulator.account import Account, Consumer, Stream
    from kinesis_assets.emulator.shards import Shard

LIFETIME = 300_000
"""How long a subscription lasts, in milliseconds."""

TAKEOVER = 5_000
"""How long after a subscription to a shard the same consumer cannot subscribe again, in milliseconds."""

HEARTBEAT = 5_000
"""The longest time between two events, in milliseconds. AWS does not document it."""

EVENT_RECORDS = 1_000
EVENT_BYTES = 1024 * 1024
"""The maximum size of an event unless a single record is larger. AWS does not document it."""

_TICK = 0.1
"""How often a subscription checks the service's clock, in seconds of the machine's clock."""


class StartingPosition(Member, kw_only=True):
    """Where a subscription starts."""

    type: IteratorType
    sequence_number: SequenceNumberText | None = None
    timestamp: Timestamp | None = None


class SubscribeToShardEvent(Member, kw_only=True):
    """An event with records. At the end of a shard it has child shards instead of a continuation."""

    records: list[Record]
    millis_behind_latest: int
    continuation_sequence_number: str | None = None
    child_shards: list[ChildShard] | None = None


class SubscribeToShard(Request, kw_only=True):
    """Subscribe a consumer to a shard, and end its older subscription to this shard."""

    consumer_arn: ConsumerARN
    shard_id: ShardId
    starting_position: StartingPosition
    dry_run: bool | None = None

    def execute(self, account: Account) -> Frames:
        stream, consumer = consumer_by_arn(account, self.consumer_arn, type(self).__name__)
        start, now = self.starting_position, account.clock.now()
        shard = stream.shard(self.shard_id)
        position = position_in(stream, shard, start.type, start.sequence_number, start.timestamp)
        check_active(consumer, now)
        if now - consumer.subscribed_at.get(shard.shard_id, -TAKEOVER) < TAKEOVER:
            raise ResourceInUseException(
                "Another active subscription exists for this consumer: "
                f"{account.account_id}:{stream.name}:{shard.shard_id}:{consumer.name}"
            )
        if self.dry_run:
            raise DryRunOperationException
        consumer.subscribed_at[shard.shard_id] = now
        return _Subscription(account, stream, consumer, shard, position, now).frames()


@dataclass
class _Subscription:
    """A subscription of a consumer to a shard. `position` is that of the next record."""

    account: Account
    stream: Stream
    consumer: Consumer
    shard: Shard
    position: int
    started_at: int
    sent_at: int | None = None
    ended: bool = False

    async def frames(self) -> Frames:
        """Yield the response: events as records arrive, and now and then one without records."""
        yield Frame.event("initial-response", b"{}")
        with self._changes() as changed:
            while not self.ended:
                changed.clear()
                with self.account.lock:
                    frame = self._next()
                if frame is not None:
                    yield frame
                elif not self.ended:
                    await _wait(changed)

    def _next(self) -> Frame | None:
        try:
            self._check()
        except ServiceError as error:
            self.ended = True
            return Frame.exception(type(error).__name__, msgspec.json.encode({"message": str(error)}))
        now = self.stream.clock.now()
        if now - self.started_at >= LIFETIME:
            self.ended = True
            return None
        records, self.position = self.shard.read(self.position, EVENT_RECORDS, EVENT_BYTES)
        self.ended = self.shard.at_end(self.position)
        if not (records or self.ended or self.sent_at is None or now - self.sent_at >= HEARTBEAT):
            return None
        self.sent_at = now
        event = SubscribeToShardEvent(
            records=records, millis_behind_latest=self.shard.millis_behind(self.position, now)
        )
        if self.ended:
            event.child_shards = ChildShard.all_of(self.stream, self.shard)
        else:
            event.continuation_sequence_number = self._continuation(records, now)
        return Frame.event("SubscribeToShardEvent", msgspec.json.encode(event))

    def _check(self) -> None:
        """Raise the error that ends the subscription, if any."""
        consumer, stream = self.consumer, self.stream
        if self.account.stream_by_arn(stream.arn) is not stream:
            raise ResourceNotFoundException(f"{stream} not found.")
        if stream.consumers.get(consumer.name) is not consumer or consumer.gone_at is not None:
            raise ResourceNotFoundException(f"Consumer {consumer.arn} not found.")
        if consumer.subscribed_at[self.shard.shard_id] != self.started_at:
            raise ResourceInUseException(
                f"Another subscription of consumer {consumer.arn} to {self.shard.shard_id} took over."
            )

    def _continuation(self, records: list[Record], now: int) -> str:
        """Return the number after which the next subscription starts. It grows even without records."""
        if records:
            return records[-1].sequence_number
        shard = self.shard
        return str(SequenceNumber(shard.era, shard.number, max(self.position - 1, 0), now // 1000))

    @contextmanager
    def _changes(self) -> Iterator[asyncio.Event]:
        """Return an event that is set when records arrive or the shard is closed, by any thread."""
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def change() -> None:
            if not changed.is_set():
                loop.call_soon_threadsafe(changed.set)

        with self.account.lock:
            self.shard.watchers.append(change)
        try:
            yield changed
        finally:
            with self.account.lock:
                self.shard.watchers.remove(change)


async def _wait(changed: asyncio.Event) -> None:
    """Wait until the event is set or the clock has to be checked again."""
    # `asyncio.wait_for` of Python 3.11 ignores a cancellation at the moment at which the event is set.
    with suppress(TimeoutError):
        async with asyncio.timeout(_TICK):
            await changed.wait()
