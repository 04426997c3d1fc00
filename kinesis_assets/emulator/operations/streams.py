"""The operations on a stream: create, delete, describe, configure and reshard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from kinesis_assets.emulator.operations.listing import ShardMember
from kinesis_assets.emulator.requests import Request, StreamRequest
from kinesis_assets.emulator.shapes import (
    HashKey,
    InvalidArgumentException,
    LimitExceededException,
    MaxRecordSizeInKiB,
    Member,
    PageLimit,
    PositiveInteger,
    RecordDistributionStrategy,
    ResourceInUseException,
    ShardId,
    StreamARN,
    StreamMode,
    StreamName,
    Tags,
    ValidationException,
    check_tags,
)

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account, Stream


PAGE_DESCRIBED_SHARDS = 100
RETENTION_HOURS = range(24, 8760 + 1)


class StreamModeDetails(Member):
    """The capacity mode."""

    stream_mode: StreamMode


ON_DEMAND_SHARDS = 4
"""The number of shards of a new on-demand stream.

Source: https://docs.aws.amazon.com/streams/latest/dev/how-do-i-size-a-stream.html
"""


class StreamSummary(Member, kw_only=True):
    """The members that every description of a stream has. The creation time is in seconds."""

    stream_name: str
    stream_arn: str
    stream_status: str
    stream_mode_details: StreamModeDetails
    stream_creation_timestamp: float

    @classmethod
    def of(cls, stream: Stream, **others: Any) -> Self:
        """Create the structure for a stream, with the members that only some descriptions have."""
        return cls(
            stream_name=stream.name,
            stream_arn=stream.arn,
            stream_status="ACTIVE",
            stream_mode_details=StreamModeDetails(stream.mode),
            stream_creation_timestamp=stream.created_at / 1000,
            **others,
        )


class DescribedStream(StreamSummary, kw_only=True):
    """The members that both Describe operations return. There is no enhanced monitoring or encryption."""

    retention_period_hours: int
    enhanced_monitoring: list[dict[str, list[str]]]
    encryption_type: str

    @classmethod
    def of(cls, stream: Stream, **others: Any) -> Self:
        """Create the structure for a stream, with the members that only one of them returns."""
        return super().of(
            stream,
            retention_period_hours=stream.retention_hours,
            enhanced_monitoring=[{"ShardLevelMetrics": []}],
            encryption_type="NONE",
            **others,
        )


class StreamDescription(DescribedStream, kw_only=True):
    """A stream with a page of its shards."""

    shards: list[ShardMember]
    has_more_shards: bool


class StreamDescriptionSummary(DescribedStream, kw_only=True):
    """A stream without its shards."""

    open_shard_count: int
    consumer_count: int
    max_record_size_in_kib: int
    record_distribution_strategy: RecordDistributionStrategy | None = None


class DescribeStreamOutput(Member):
    """The response of DescribeStream."""

    stream_description: StreamDescription


class DescribeStreamSummaryOutput(Member):
    """The response of DescribeStreamSummary."""

    stream_description_summary: StreamDescriptionSummary


class CreateStream(Request, kw_only=True):
    """Create a provisioned or on-demand stream. An on-demand stream has four shards and does not scale."""

    stream_name: StreamName
    shard_count: PositiveInteger | None = None
    stream_mode_details: StreamModeDetails | None = None
    max_record_size_in_kib: MaxRecordSizeInKiB = 1024
    record_distribution_strategy: RecordDistributionStrategy | None = None
    tags: Tags | None = None

    def execute(self, account: Account) -> None:
        mode = "PROVISIONED" if self.stream_mode_details is None else self.stream_mode_details.stream_mode
        if self.shard_count is None and mode == "PROVISIONED":
            raise ValidationException("ShardCount is required when StreamMode is PROVISIONED.")
        if self.shard_count is not None and mode == "ON_DEMAND":
            raise ValidationException("ShardCount is not supported when StreamMode is ON_DEMAND.")
        if self.record_distribution_strategy is not None:
            _check_distribution(mode, self.record_distribution_strategy)
        check_tags(self.tags or {})
        stream = account.create_stream(self.stream_name, self.shard_count or ON_DEMAND_SHARDS)
        stream.max_record_size_kib = self.max_record_size_in_kib
        stream.mode = mode
        stream.distribution = self.record_distribution_strategy or stream.distribution
        stream.tags |= self.tags or {}


class DeleteStream(StreamRequest, kw_only=True):
    """Delete a stream and all of its records."""

    enforce_consumer_deletion: bool | None = None

    def execute(self, account: Account) -> None:
        stream = self.stream(account)
        if len(stream.consumers) and not self.enforce_consumer_deletion:
            raise ResourceInUseException(
                f"{stream} has registered consumers. Deregister them, or set EnforceConsumerDeletion."
            )
        account.delete_stream(stream)


class DescribeStream(StreamRequest):
    """Describe a stream and a page of its shards."""

    limit: PageLimit | None = None
    exclusive_start_shard_id: ShardId | None = None

    def execute(self, account: Account) -> DescribeStreamOutput:
        stream = self.stream(account)
        limit = min(self.limit or PAGE_DESCRIBED_SHARDS, PAGE_DESCRIBED_SHARDS)
        shards = [shard for shard in stream.shards if shard.shard_id > (self.exclusive_start_shard_id or "")]
        return DescribeStreamOutput(
            StreamDescription.of(
                stream,
                shards=[ShardMember.of(shard) for shard in shards[:limit]],
                has_more_shards=len(shards) > limit,
            )
        )


class DescribeStreamSummary(StreamRequest):
    """Describe a stream without its shards."""

    def execute(self, account: Account) -> DescribeStreamSummaryOutput:
        stream = self.stream(account)
        return DescribeStreamSummaryOutput(
            StreamDescriptionSummary.of(
                stream,
                open_shard_count=len(stream.open_shards),
                consumer_count=len(stream.consumers),
                max_record_size_in_kib=stream.max_record_size_kib,
                record_distribution_strategy=stream.distribution if stream.mode == "ON_DEMAND" else None,
            )
        )


class UpdateStreamMode(Request, kw_only=True):
    """Switch a stream between provisioned and on-demand capacity. Its shards do not change.

    A provisioned stream loses its record distribution strategy.
    """

    stream_arn: StreamARN
    stream_mode_details: StreamModeDetails

    def execute(self, account: Account) -> None:
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        stream.mode = self.stream_mode_details.stream_mode
        if stream.mode == "PROVISIONED":
            stream.distribution = "USER_PARTITION_KEY"


class UpdateStreamRecordDistributionStrategy(Request, kw_only=True):
    """Set how new records are distributed across the shards of an on-demand stream."""

    stream_arn: StreamARN
    record_distribution_strategy: RecordDistributionStrategy

    def execute(self, account: Account) -> None:
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        _check_distribution(stream.mode, self.record_distribution_strategy)
        stream.distribution = self.record_distribution_strategy


class IncreaseStreamRetentionPeriod(StreamRequest, kw_only=True):
    """Increase the retention period. Records that have already expired are not restored."""

    retention_period_hours: int

    def execute(self, account: Account) -> None:
        _set_retention(self.stream(account), self.retention_period_hours, refused="shorter")


class DecreaseStreamRetentionPeriod(StreamRequest, kw_only=True):
    """Decrease the retention period. The next operation on the stream first deletes expired records."""

    retention_period_hours: int

    def execute(self, account: Account) -> None:
        _set_retention(self.stream(account), self.retention_period_hours, refused="longer")


class UpdateMaxRecordSize(Request, kw_only=True):
    """Set the maximum record size of a stream."""

    stream_arn: StreamARN | None = None
    max_record_size_in_kib: MaxRecordSizeInKiB

    def execute(self, account: Account) -> None:
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        stream.max_record_size_kib = self.max_record_size_in_kib


def _check_distribution(mode: StreamMode, strategy: RecordDistributionStrategy) -> None:
    """Raise `InvalidArgumentException` if the capacity mode does not support distribution strategies."""
    if mode == "PROVISIONED":
        raise InvalidArgumentException(
            f"RecordDistributionStrategy {strategy} is only supported for streams in on-demand capacity mode."
        )


def _set_retention(stream: Stream, hours: int, *, refused: Literal["shorter", "longer"]) -> None:
    """Set a retention period, which must not be shorter, or not longer, than the existing one."""
    if hours < RETENTION_HOURS[0]:
        raise InvalidArgumentException(
            f"Minimum allowed retention period is {RETENTION_HOURS[0]} hours. "
            f"Requested retention period ({hours} hours) is too short."
        )
    if hours > RETENTION_HOURS[-1]:
        raise InvalidArgumentException(
            f"Maximum allowed retention period is {RETENTION_HOURS[-1]} hours. "
            f"Requested retention period ({hours} hours) is too long."
        )
    if hours < stream.retention_hours if refused == "shorter" else hours > stream.retention_hours:
        raise InvalidArgumentException(
            f"Requested retention period ({hours} hours) for stream {stream.name} can not be {refused} than "
            f"existing retention period ({stream.retention_hours} hours). "
            f"Use {'Decrease' if refused == 'shorter' else 'Increase'}RetentionPeriod API."
        )
    stream.retention_hours = hours


class SplitShard(StreamRequest, kw_only=True):
    """Split a shard into two at a hash key."""

    shard_to_split: ShardId
    new_starting_hash_key: HashKey

    def execute(self, account: Account) -> None:
        stream = _provisioned(self.stream(account))
        shard = stream.shard(self.shard_to_split)
        account.check_shard_limit(1)
        at, keys = int(self.new_starting_hash_key), shard.hash_key_range
        if not keys.start + 1 < at < keys.end:
            raise InvalidArgumentException(
                f"NewStartingHashKey {at} used in SplitShard() on shard {shard.shard_id} in {stream} "
                f"is not both greater than one plus the shard's StartingHashKey {keys.start} "
                f"and less than the shard's EndingHashKey {keys.end}."
            )
        stream.split(shard, at)


class MergeShards(StreamRequest, kw_only=True):
    """Merge two shards with adjacent hash keys."""

    shard_to_merge: ShardId
    adjacent_shard_to_merge: ShardId

    def execute(self, account: Account) -> None:
        stream = _provisioned(self.stream(account))
        stream.merge(stream.shard(self.shard_to_merge), stream.shard(self.adjacent_shard_to_merge))


class UpdateShardCountOutput(Member):
    """The number of open shards before the call and the requested number."""

    stream_name: str
    current_shard_count: int
    target_shard_count: int
    stream_arn: str


class UpdateShardCount(StreamRequest, kw_only=True):
    """Scale a stream to at most twice and at least half as many open shards, which divide its keys evenly."""

    target_shard_count: PositiveInteger
    scaling_type: Literal["UNIFORM_SCALING"]

    def execute(self, account: Account) -> UpdateShardCountOutput:
        stream = _provisioned(self.stream(account))
        current, target = len(stream.open_shards), self.target_shard_count
        if target > 2 * current or 2 * target < current:
            raise LimitExceededException(
                f"TargetShardCount {target} for {stream} is more than double or less than half of "
                f"the current open shard count, which is {current}."
            )
        account.check_shard_limit(target - current)
        stream.scale(target)
        return UpdateShardCountOutput(stream.name, current, target, stream.arn)


def _provisioned(stream: Stream) -> Stream:
    """Return the stream if it is in provisioned capacity mode; only then can it be resharded."""
    if stream.mode != "PROVISIONED":
        raise ValidationException(
            f"This operation is only supported for {stream} in provisioned capacity mode."
        )
    return stream
