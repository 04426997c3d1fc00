"""The operations on consumers with enhanced fan-out, and SubscribeToShard, whose response is events.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_SubscribeToShard.html
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import msgspec

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.event_stream import Frame, Frames
from kinesis_assets.emulator.operations.listing import ChildShard
from kinesis_assets.emulator.operations.reading import IteratorType, position_in
from kinesis_assets.emulator.requests import Request
from kinesis_assets.emulator.shapes import (
    ConsumerARN,
    ConsumerName,
    DryRunOperationException,
    InvalidArgumentException,
    LimitExceededException,
    Member,
    NextToken,
    PageLimit,
    ResourceInUseException,
    ResourceNotFoundException,
    SequenceNumberText,
    ServiceError,
    ShardId,
    StreamARN,
    Tags,
    Timestamp,
    check_tags,
)
from kinesis_assets.emulator.shards import Record, SequenceNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.emulator.account import Account, Consumer, Stream
    from kinesis_assets.emulator.shards import Shard

MAX_CONSUMERS = 20
MAX_CREATING = 5
PAGE_CONSUMERS = 100


class ConsumerMember(Member, kw_only=True):
    """A consumer. The creation time is in seconds."""

    consumer_name: str
    consumer_arn: str
    consumer_status: str
    consumer_creation_timestamp: float

    @classmethod
    def of(cls, consumer: Consumer, now: int, **others: Any) -> Self:
        """Create the structure for a consumer at a time, with the members that only a description has."""
        return cls(
            consumer_name=consumer.name,
            consumer_arn=consumer.arn,
            consumer_status=consumer.status(now),
            consumer_creation_timestamp=consumer.created_at / 1000,
            **others,
        )


class ConsumerDescription(ConsumerMember, kw_only=True):
    """A consumer with the ARN of its stream."""

    stream_arn: str


class RegisterStreamConsumerOutput(Member):
    """The new consumer."""

    consumer: ConsumerMember


class DescribeStreamConsumerOutput(Member):
    """The response of DescribeStreamConsumer."""

    consumer_description: ConsumerDescription


class ListStreamConsumersOutput(Member):
    """A page of consumers. The last page has no next token."""

    consumers: list[ConsumerMember]
    next_token: str | None = None


class RegisterStreamConsumer(Request, kw_only=True):
    """Register a consumer. The response has the status CREATING even if it is active from now on."""

    stream_arn: StreamARN
    consumer_name: ConsumerName
    tags: Tags | None = None

    def execute(self, account: Account) -> RegisterStreamConsumerOutput:
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        consumers, now = stream.consumers, account.clock.now()
        if consumers.get(self.consumer_name) is not None:
            raise ResourceInUseException(
                f"Consumer {self.consumer_name} of {stream} already exists. Deregister it first."
            )
        if len(consumers) >= MAX_CONSUMERS:
            raise LimitExceededException(f"{stream} already has {MAX_CONSUMERS} consumers.")
        if sum(consumer.status(now) == "CREATING" for consumer in consumers.all) >= MAX_CREATING:
            raise LimitExceededException(f"{stream} has {MAX_CREATING} consumers that are CREATING.")
        check_tags(self.tags or {})
        member = ConsumerMember.of(consumers.register(self.consumer_name, dict(self.tags or {})), now)
        member.consumer_status = "CREATING"
        return RegisterStreamConsumerOutput(member)


class ConsumerRequest(Request):
    """A request for one consumer, which is identified by its ARN, by its name and stream, or by all three."""

    stream_arn: StreamARN | None = None
    consumer_name: ConsumerName | None = None
    consumer_arn: ConsumerARN | None = None

    def consumer(self, account: Account) -> tuple[Stream, Consumer]:
        """Return the consumer of the request and its stream."""
        operation = type(self).__name__
        if self.consumer_arn is not None:
            stream, found = consumer_by_arn(account, self.consumer_arn, operation)
            given = (self.stream_arn or stream.arn, self.consumer_name or found.name)
            if given != (stream.arn, found.name):
                raise InvalidArgumentException(
                    f"ConsumerARN {self.consumer_arn} does not match StreamARN and ConsumerName."
                )
            return stream, found
        if self.stream_arn is None or self.consumer_name is None:
            raise InvalidArgumentException(
                "Either ConsumerARN, or StreamARN and ConsumerName, must be provided."
            )
        stream = account.stream(None, self.stream_arn, operation)
        consumer = stream.consumers.get(self.consumer_name)
        if consumer is None:
            raise ResourceNotFoundException(f"Consumer {self.consumer_name} of {stream} not found.")
        return stream, consumer


class DescribeStreamConsumer(ConsumerRequest):
    """Describe a consumer."""

    def execute(self, account: Account) -> DescribeStreamConsumerOutput:
        stream, consumer = self.consumer(account)
        now = account.clock.now()
        return DescribeStreamConsumerOutput(ConsumerDescription.of(consumer, now, stream_arn=stream.arn))


class DeregisterStreamConsumer(ConsumerRequest):
    """Deregister a consumer, which ends its subscriptions."""

    def execute(self, account: Account) -> None:
        stream, consumer = self.consumer(account)
        check_active(consumer, account.clock.now())
        stream.consumers.deregister(consumer)


class ListStreamConsumers(Request, kw_only=True):
    """List the consumers of a stream by name, one page at a time."""

    stream_arn: StreamARN
    next_token: NextToken | None = None
    max_results: PageLimit | None = None
    stream_creation_timestamp: Timestamp | None = None

    def execute(self, account: Account) -> ListStreamConsumersOutput:
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        stream.check_created(self.stream_creation_timestamp)
        now, after = account.clock.now(), ""
        if self.next_token is not None:
            if self.stream_creation_timestamp is not None:
                raise InvalidArgumentException(
                    "NextToken and StreamCreationTimestamp cannot be provided together."
                )
            token = iterators.decode(self.next_token, iterators.ConsumerListing, now)
            account.same_stream(stream.name, token.stream_created_at, stream.arn, type(self).__name__)
            after = token.after
        limit = min(self.max_results or PAGE_CONSUMERS, PAGE_CONSUMERS)
        consumers = [consumer for consumer in stream.consumers.all if consumer.name > after]
        page = consumers[:limit]
        return ListStreamConsumersOutput(
            [ConsumerMember.of(consumer, now) for consumer in page],
            iterators.encode(iterators.ConsumerListing(now, stream.created_at, page[-1].name))
            if len(consumers) > limit
            else None,
        )


def consumer_by_arn(account: Account, arn: str, operation: str) -> tuple[Stream, Consumer]:
    """Return a consumer and its stream, which may be another account's whose policy allows the operation."""
    stream_arn, _, named = arn.partition("/consumer/")
    stream = account.stream(None, stream_arn, operation)
    consumer = stream.consumers.get(named.rpartition(":")[0])
    if consumer is None or consumer.arn != arn:
        raise ResourceNotFoundException(f"Consumer {arn} not found.")
    return stream, consumer


def check_active(consumer: Consumer, now: int) -> None:
    """Raise `ResourceInUseException` unless the consumer is active."""
    if (status := consumer.status(now)) != "ACTIVE":
        raise ResourceInUseException(f"Consumer {consumer.arn} is not ACTIVE but {status}.")


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
