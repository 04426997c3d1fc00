"""GetShardIterator and GetRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.operations.listing import ChildShard
from kinesis_assets.emulator.requests import Request, StreamRequest
from kinesis_assets.emulator.shapes import (
    DryRunOperationException,
    InvalidArgumentException,
    Member,
    PageLimit,
    SequenceNumberText,
    ShardId,
    ShardIterator,
    StreamARN,
    Timestamp,
    milliseconds,
)
from kinesis_assets.emulator.shards import LAST_ORDINAL, PAGE_RECORDS, Record, SequenceNumber, Shard

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account, Stream

IteratorType = Literal[
    "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER", "TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"
]


class GetShardIteratorOutput(Member):
    """The iterator, valid for five minutes."""

    shard_iterator: str


class GetRecordsOutput(Member):
    """A page of records. At the end of a closed shard it has child shards instead of a next iterator."""

    records: list[Record]
    millis_behind_latest: int
    next_shard_iterator: str | None = None
    child_shards: list[ChildShard] | None = None


class GetShardIterator(StreamRequest, kw_only=True):
    """Get an iterator for a position in a shard."""

    shard_id: ShardId
    shard_iterator_type: IteratorType
    starting_sequence_number: SequenceNumberText | None = None
    timestamp: Timestamp | None = None
    dry_run: bool | None = None

    def execute(self, account: Account) -> GetShardIteratorOutput:
        stream = self.stream(account)
        shard = stream.shard(self.shard_id)
        position = position_in(
            stream, shard, self.shard_iterator_type, self.starting_sequence_number, self.timestamp
        )
        if self.dry_run:
            raise DryRunOperationException
        return GetShardIteratorOutput(_iterator(stream, shard, position))


class GetRecords(Request, kw_only=True):
    """Read a page of records that starts at an iterator's position."""

    shard_iterator: ShardIterator
    limit: PageLimit | None = None
    stream_arn: StreamARN | None = None
    dry_run: bool | None = None

    def execute(self, account: Account) -> GetRecordsOutput:
        now = account.clock.now()
        token = iterators.decode(self.shard_iterator, iterators.ShardPosition, now)
        if self.stream_arn is not None and self.stream_arn.rpartition("/")[2] != token.stream_name:
            raise InvalidArgumentException(f"StreamARN {self.stream_arn} does not match the ShardIterator.")
        stream = account.same_stream(
            token.stream_name, token.stream_created_at, self.stream_arn, type(self).__name__
        )
        shard = stream.shard(token.shard_id)
        if self.dry_run:
            raise DryRunOperationException
        records, position = shard.read(token.position, self.limit or PAGE_RECORDS)
        behind = shard.millis_behind(position, now)
        if shard.at_end(position):
            return GetRecordsOutput(records, behind, child_shards=ChildShard.all_of(stream, shard))
        return GetRecordsOutput(records, behind, next_shard_iterator=_iterator(stream, shard, position))


def _iterator(stream: Stream, shard: Shard, position: int) -> str:
    return iterators.encode(
        iterators.ShardPosition(stream.clock.now(), stream.name, stream.created_at, shard.shard_id, position)
    )


def position_in(
    stream: Stream, shard: Shard, kind: IteratorType, number: str | None, timestamp: float | None
) -> int:
    """Return the position that a type describes, together with a sequence number or a timestamp."""
    if (number is not None) != kind.endswith("_SEQUENCE_NUMBER"):
        given = "also a StartingSequenceNumber" if number is not None else "no StartingSequenceNumber"
        raise InvalidArgumentException(
            "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER "
            "and StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. "
            f"Request specified {kind} and {given}."
        )
    match kind:
        case "TRIM_HORIZON":
            return 0
        case "LATEST":
            return shard.next
        case "AT_TIMESTAMP":
            return shard.position_at(_arrival(stream, timestamp))
        case "AT_SEQUENCE_NUMBER":
            return _ordinal(stream, shard, str(number))
        case "AFTER_SEQUENCE_NUMBER":
            return _ordinal(stream, shard, str(number)) + 1


def _arrival(stream: Stream, timestamp: float | None) -> int:
    if timestamp is None:
        raise InvalidArgumentException(
            "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "
            "Current request has no timestamp parameter."
        )
    arrival, now = milliseconds(timestamp), stream.clock.now()
    if arrival > now:
        raise InvalidArgumentException(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "
            f"timestampInMillis: {arrival}, currentTimestampInMillis: {now}"
        )
    return arrival


def _ordinal(stream: Stream, shard: Shard, text: str) -> int:
    """Return the ordinal in a sequence number.

    Raises:
        InvalidArgumentException: The shard has not issued this sequence number.
    """
    where = f"shard {shard.shard_id} in {stream}"
    refusal = f"StartingSequenceNumber {text} used in GetShardIterator on {where} is invalid"
    number = SequenceNumber.parse(text)
    if number is None:
        raise InvalidArgumentException(f"{refusal}.")
    if number.shard_number != shard.number:
        raise InvalidArgumentException(
            f"Invalid StartingSequenceNumber. It encodes shardId-{number.shard_number:012}, "
            f"while it was used in a call to a shard with {shard.shard_id}"
        )
    if number.era != shard.era:
        raise InvalidArgumentException(f"{refusal} because it did not come from this stream.")
    if number.ordinal >= shard.next and not (number.ordinal == LAST_ORDINAL and shard.closed_at is not None):
        raise InvalidArgumentException(f"{refusal}.")
    return min(number.ordinal, shard.next)
