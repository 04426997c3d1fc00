"""SplitShard, MergeShards and UpdateShardCount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kinesis_assets.emulator.errors import (
    InvalidArgumentException,
    LimitExceededException,
    ValidationException,
)
from kinesis_assets.emulator.requests import StreamRequest
from kinesis_assets.emulator.shapes import HashKey, Member, PositiveInteger, ShardId

if TYPE_CHECKING:
    from kinesis_assets.emulator.account import Account
    from kinesis_assets.emulator.streams import Stream


class SplitShard(StreamRequest, kw_only=True):
    """Split a shard into two at a hash key."""

    shard_to_split: ShardId
    new_starting_hash_key: HashKey

    def execute(self, account: Account) -> None:
        """Close the shard and open its children."""
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
        """Close both shards and open their child."""
        stream = _provisioned(self.stream(account))
        stream.merge(stream.shard(self.shard_to_merge), stream.shard(self.adjacent_shard_to_merge))


class UpdateShardCountOutput(Member):
    """The number of open shards before the call and the requested number."""

    stream_name: str
    current_shard_count: int
    target_shard_count: int
    stream_arn: str


class UpdateShardCount(StreamRequest, kw_only=True):
    """Scale a stream to a number of open shards that divide the hash keys evenly."""

    target_shard_count: PositiveInteger
    scaling_type: Literal["UNIFORM_SCALING"]

    def execute(self, account: Account) -> UpdateShardCountOutput:
        """Split and merge shards. One call can at most double and at most halve the number of shards."""
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
