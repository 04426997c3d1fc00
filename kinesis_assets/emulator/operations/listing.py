"""ListShards, and the API's structures that describe shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from kinesis_assets.emulator import iterators
from kinesis_assets.emulator.requests import StreamRequest
from kinesis_assets.emulator.shapes import (
    InvalidArgumentException,
    Member,
    NextToken,
    PageLimit,
    ShardId,
    Timestamp,
    milliseconds,
)

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account, Stream
    from kinesis_assets.emulator.shards import HashKeyRange, Shard


class HashKeyRangeMember(Member):
    """A range of hash keys in decimal, both ends inclusive."""

    starting_hash_key: str
    ending_hash_key: str

    @classmethod
    def of(cls, hash_key_range: HashKeyRange) -> HashKeyRangeMember:
        """Create the structure for a range."""
        return cls(str(hash_key_range.start), str(hash_key_range.end))


class SequenceNumberRange(Member):
    """The range of a shard's sequence numbers. Only a closed shard has an end."""

    starting_sequence_number: str
    ending_sequence_number: str | None = None


class ShardMember(Member):
    """A shard as ListShards and DescribeStream return it."""

    shard_id: str
    hash_key_range: HashKeyRangeMember
    sequence_number_range: SequenceNumberRange
    parent_shard_id: str | None = None
    adjacent_parent_shard_id: str | None = None

    @classmethod
    def of(cls, shard: Shard) -> ShardMember:
        """Create the structure for a shard."""
        ending = shard.ending_sequence_number
        return cls(
            shard.shard_id,
            HashKeyRangeMember.of(shard.hash_key_range),
            SequenceNumberRange(str(shard.starting_sequence_number), None if ending is None else str(ending)),
            *shard.parents,
        )


class ChildShard(Member):
    """A child shard as GetRecords returns it at the end of a closed shard."""

    shard_id: str
    parent_shards: tuple[str, ...]
    hash_key_range: HashKeyRangeMember

    @classmethod
    def all_of(cls, stream: Stream, shard: Shard) -> list[ChildShard]:
        """Create the structures for the child shards of a shard."""
        return [
            cls(child.shard_id, child.parents, HashKeyRangeMember.of(child.hash_key_range))
            for child in stream.shards
            if shard.shard_id in child.parents
        ]


PAGE_SHARDS = 1000


class ListShardsOutput(Member):
    """A page of shards. The last page has no next token."""

    shards: list[ShardMember]
    next_token: str | None = None


class ShardFilter(Member):
    """A filter for shards by the time at which they were open.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_ShardFilter.html
    """

    type: Literal[
        "AFTER_SHARD_ID",
        "AT_TRIM_HORIZON",
        "FROM_TRIM_HORIZON",
        "AT_LATEST",
        "AT_TIMESTAMP",
        "FROM_TIMESTAMP",
    ]
    shard_id: ShardId | None = None
    timestamp: Timestamp | None = None

    def check(self) -> None:
        """Raise `InvalidArgumentException` if a member is missing or not allowed for the filter's type."""
        for name, value, used in (
            ("ShardId", self.shard_id, self.type == "AFTER_SHARD_ID"),
            ("Timestamp", self.timestamp, self.type in ("AT_TIMESTAMP", "FROM_TIMESTAMP")),
        ):
            if used and value is None:
                raise InvalidArgumentException(
                    f"{name} must be provided when ShardFilter.Type is {self.type}."
                )
            if value is not None and not used:
                raise InvalidArgumentException(
                    f"{name} cannot be provided when ShardFilter.Type is {self.type}."
                )

    def time_range(self, stream: Stream) -> tuple[int, int | None]:
        """Return the time range, both ends inclusive, in which a shard must have been open.

        The times are in milliseconds. None means no end.
        """
        horizon = stream.trim_horizon
        moment = max(milliseconds(self.timestamp or 0), horizon)
        match self.type:
            case "AFTER_SHARD_ID" | "FROM_TRIM_HORIZON":
                return 0, None
            case "AT_TRIM_HORIZON":
                return horizon, horizon
            case "AT_LATEST":
                # Later than each shard that was closed before, and earlier than any that will be.
                latest = stream.clock.tick()
                return latest, latest
            case "AT_TIMESTAMP":
                return moment, moment
            case "FROM_TIMESTAMP":
                return moment, None


class ListShards(StreamRequest, kw_only=True):
    """List the shards of a stream by shard id, one page at a time."""

    next_token: NextToken | None = None
    exclusive_start_shard_id: ShardId | None = None
    max_results: PageLimit | None = None
    stream_creation_timestamp: Timestamp | None = None
    shard_filter: ShardFilter | None = None

    def execute(self, account: Account) -> ListShardsOutput:
        if self.next_token is None:
            stream = self._named_stream(account)
            listing = self._first(stream)
        else:
            listing = self._continued(account, self.next_token)
            stream = account.same_stream(
                listing.stream_name, listing.stream_created_at, listing.stream_arn, type(self).__name__
            )
        limit = min(self.max_results or PAGE_SHARDS, PAGE_SHARDS)
        listed = [shard for shard in stream.shards if _is_listed(shard, listing)]
        shards = [ShardMember.of(shard) for shard in listed[:limit]]
        if len(listed) == len(shards):
            return ListShardsOutput(shards)
        following = replace(listing, issued_at=account.clock.now(), after=shards[-1].shard_id)
        return ListShardsOutput(shards, iterators.encode(following))

    def _named_stream(self, account: Account) -> Stream:
        if self.stream_name is None and self.stream_arn is None:
            raise InvalidArgumentException("Either NextToken or StreamName should be provided.")
        stream = self.stream(account)
        stream.check_created(self.stream_creation_timestamp)
        return stream

    def _first(self, stream: Stream) -> iterators.ShardListing:
        shard_filter = self.shard_filter or ShardFilter("FROM_TRIM_HORIZON")
        shard_filter.check()
        after = max(self.exclusive_start_shard_id or "", shard_filter.shard_id or "")
        time_range = shard_filter.time_range(stream)
        return iterators.ShardListing(
            stream.clock.now(), stream.name, stream.created_at, after, *time_range, stream.arn
        )

    def _continued(self, account: Account, next_token: str) -> iterators.ShardListing:
        for name, value in (
            ("StreamName", self.stream_name),
            ("StreamARN", self.stream_arn),
            ("StreamCreationTimestamp", self.stream_creation_timestamp),
            ("ExclusiveStartShardId", self.exclusive_start_shard_id),
            ("ShardFilter", self.shard_filter),
        ):
            if value is not None:
                raise InvalidArgumentException(f"NextToken and {name} cannot be provided together.")
        return iterators.decode(next_token, iterators.ShardListing, account.clock.now())


def _is_listed(shard: Shard, listing: iterators.ShardListing) -> bool:
    return (
        shard.shard_id > listing.after
        and (shard.closed_at is None or shard.closed_at >= listing.since)
        and (listing.until is None or shard.opened_at <= listing.until)
    )
