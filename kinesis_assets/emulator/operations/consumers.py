"""The operations on consumers with enhanced fan-out: register, describe, list and deregister."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.requests import Request
from kinesis_assets.emulator.shapes import (
    ConsumerARN,
    ConsumerName,
    InvalidArgumentException,
    LimitExceededException,
    Member,
    NextToken,
    PageLimit,
    ResourceInUseException,
    ResourceNotFoundException,
    StreamARN,
    Tags,
    Timestamp,
)

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account, Consumer, Stream

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
