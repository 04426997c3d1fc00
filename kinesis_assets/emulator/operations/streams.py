"""The operations on streams: create, delete, describe, list and configure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.errors import (
    InvalidArgumentException,
    ValidationException,
)
from kinesis_assets.emulator.operations.shards import ShardMember
from kinesis_assets.emulator.requests import Request, StreamRequest
from kinesis_assets.emulator.shapes import (
    MaxRecordSizeInKiB,
    Member,
    NextToken,
    PageLimit,
    PositiveInteger,
    RecordDistributionStrategy,
    ShardId,
    StreamARN,
    StreamMode,
    StreamName,
    Tags,
)

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.streams import Stream

PAGE_STREAMS = 100
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


class DescribedStream(StreamSummary, kw_only=True):
    """The members that both Describe operations return. There is no enhanced monitoring or encryption."""

    retention_period_hours: int
    enhanced_monitoring: list[dict[str, list[str]]]
    encryption_type: str


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


class ListStreamsOutput(Member):
    """A page of streams."""

    stream_names: list[str]
    stream_summaries: list[StreamSummary]
    has_more_streams: bool
    next_token: str | None = None


class CreateStream(Request, kw_only=True):
    """Create a provisioned or on-demand stream. An on-demand stream has four shards and does not scale."""

    stream_name: StreamName
    shard_count: PositiveInteger | None = None
    stream_mode_details: StreamModeDetails | None = None
    max_record_size_in_kib: MaxRecordSizeInKiB = 1024
    record_distribution_strategy: RecordDistributionStrategy | None = None
    tags: Tags | None = None

    def execute(self, account: Account) -> None:
        """Create the stream, which is active immediately."""
        mode = "PROVISIONED" if self.stream_mode_details is None else self.stream_mode_details.stream_mode
        if self.shard_count is None and mode == "PROVISIONED":
            raise ValidationException("ShardCount is required when StreamMode is PROVISIONED.")
        if self.shard_count is not None and mode == "ON_DEMAND":
            raise ValidationException("ShardCount is not supported when StreamMode is ON_DEMAND.")
        if self.record_distribution_strategy is not None:
            _check_distribution(mode, self.record_distribution_strategy)
        stream = account.create_stream(self.stream_name, self.shard_count or ON_DEMAND_SHARDS)
        stream.max_record_size_kib = self.max_record_size_in_kib
        stream.mode = mode
        stream.distribution = self.record_distribution_strategy or stream.distribution
        stream.tags |= self.tags or {}


class DeleteStream(StreamRequest):
    """Delete a stream and all of its records."""

    def execute(self, account: Account) -> None:
        """Delete the stream immediately."""
        account.delete_stream(self.stream(account))


class DescribeStream(StreamRequest):
    """Describe a stream and a page of its shards."""

    limit: PageLimit | None = None
    exclusive_start_shard_id: ShardId | None = None

    def execute(self, account: Account) -> DescribeStreamOutput:
        """Return the description with a page of shards by shard id."""
        stream = self.stream(account)
        limit = min(self.limit or PAGE_DESCRIBED_SHARDS, PAGE_DESCRIBED_SHARDS)
        shards = [shard for shard in stream.shards if shard.shard_id > (self.exclusive_start_shard_id or "")]
        return DescribeStreamOutput(
            StreamDescription(
                **_summary(stream),
                **_settings(stream),
                shards=[ShardMember.of(shard) for shard in shards[:limit]],
                has_more_shards=len(shards) > limit,
            )
        )


class DescribeStreamSummary(StreamRequest):
    """Describe a stream without its shards."""

    def execute(self, account: Account) -> DescribeStreamSummaryOutput:
        """Return the description with the number of open shards."""
        stream = self.stream(account)
        return DescribeStreamSummaryOutput(
            StreamDescriptionSummary(
                **_summary(stream),
                **_settings(stream),
                open_shard_count=len(stream.open_shards),
                consumer_count=0,
                max_record_size_in_kib=stream.max_record_size_kib,
                record_distribution_strategy=stream.distribution if stream.mode == "ON_DEMAND" else None,
            )
        )


class UpdateStreamMode(Request, kw_only=True):
    """Switch a stream between provisioned and on-demand capacity. Its shards do not change."""

    stream_arn: StreamARN
    stream_mode_details: StreamModeDetails

    def execute(self, account: Account) -> None:
        """Switch the mode immediately. A provisioned stream loses its record distribution strategy."""
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        stream.mode = self.stream_mode_details.stream_mode
        if stream.mode == "PROVISIONED":
            stream.distribution = "USER_PARTITION_KEY"


class UpdateStreamRecordDistributionStrategy(Request, kw_only=True):
    """Set how new records are distributed across the shards of an on-demand stream."""

    stream_arn: StreamARN
    record_distribution_strategy: RecordDistributionStrategy

    def execute(self, account: Account) -> None:
        """Set the strategy immediately. Existing records remain in their shards."""
        stream = account.stream(None, self.stream_arn, type(self).__name__)
        _check_distribution(stream.mode, self.record_distribution_strategy)
        stream.distribution = self.record_distribution_strategy


class ListStreams(Request):
    """List the streams of the account by name, one page at a time."""

    limit: PageLimit | None = None
    exclusive_start_stream_name: StreamName | None = None
    next_token: NextToken | None = None

    def execute(self, account: Account) -> ListStreamsOutput:
        """Return the page that follows the stream name or the token."""
        after = self.exclusive_start_stream_name or ""
        if self.next_token is not None:
            token = iterators.decode(self.next_token, iterators.StreamListing, account.clock.now())
            after = max(after, token.after)
        limit = min(self.limit or PAGE_STREAMS, PAGE_STREAMS)
        names = [name for name in account.stream_names if name > after]
        page = names[:limit]
        more = len(names) > limit
        return ListStreamsOutput(
            stream_names=page,
            stream_summaries=[StreamSummary(**_summary(account.stream(name))) for name in page],
            has_more_streams=more,
            next_token=iterators.encode(iterators.StreamListing(account.clock.now(), page[-1]))
            if more
            else None,
        )


class IncreaseStreamRetentionPeriod(StreamRequest, kw_only=True):
    """Increase the retention period. Records that have already expired are not restored."""

    retention_period_hours: int

    def execute(self, account: Account) -> None:
        """Set the period immediately."""
        stream = self.stream(account)
        _check_retention(self.retention_period_hours)
        if self.retention_period_hours < stream.retention_hours:
            raise InvalidArgumentException(
                f"Requested retention period ({self.retention_period_hours} hours) for stream {stream.name} "
                f"can not be shorter than existing retention period ({stream.retention_hours} hours). "
                "Use DecreaseRetentionPeriod API."
            )
        stream.retention_hours = self.retention_period_hours


class DecreaseStreamRetentionPeriod(StreamRequest, kw_only=True):
    """Decrease the retention period. Records older than the new period expire immediately."""

    retention_period_hours: int

    def execute(self, account: Account) -> None:
        """Set the period. The next operation on the stream first deletes the expired records."""
        stream = self.stream(account)
        _check_retention(self.retention_period_hours)
        if self.retention_period_hours > stream.retention_hours:
            raise InvalidArgumentException(
                f"Requested retention period ({self.retention_period_hours} hours) for stream {stream.name} "
                f"can not be longer than existing retention period ({stream.retention_hours} hours). "
                "Use IncreaseRetentionPeriod API."
            )
        stream.retention_hours = self.retention_period_hours


class UpdateMaxRecordSize(Request, kw_only=True):
    """Set the maximum record size of a stream."""

    stream_arn: StreamARN | None = None
    max_record_size_in_kib: MaxRecordSizeInKiB

    def execute(self, account: Account) -> None:
        """Set the maximum for all later puts."""
        account.stream(
            None, self.stream_arn, type(self).__name__
        ).max_record_size_kib = self.max_record_size_in_kib


def _check_distribution(mode: StreamMode, strategy: RecordDistributionStrategy) -> None:
    """Raise `InvalidArgumentException` if the capacity mode does not support distribution strategies."""
    if mode == "PROVISIONED":
        raise InvalidArgumentException(
            f"RecordDistributionStrategy {strategy} is only supported for streams in on-demand capacity mode."
        )


def _summary(stream: Stream) -> dict[str, Any]:
    return {
        "stream_name": stream.name,
        "stream_arn": stream.arn,
        "stream_status": "ACTIVE",
        "stream_mode_details": StreamModeDetails(stream.mode),
        "stream_creation_timestamp": stream.created_at / 1000,
    }


def _settings(stream: Stream) -> dict[str, Any]:
    return {
        "retention_period_hours": stream.retention_hours,
        "enhanced_monitoring": [{"ShardLevelMetrics": []}],
        "encryption_type": "NONE",
    }


def _check_retention(hours: int) -> None:
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
