"""The API's structures that describe shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.emulator.shapes import Member

if TYPE_CHECKING:
    from kinesis_assets.emulator.hash_keys import HashKeyRange
    from kinesis_assets.emulator.shards import Shard


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
    def of(cls, shard: Shard) -> ChildShard:
        """Create the structure for a shard."""
        return cls(shard.shard_id, shard.parents, HashKeyRangeMember.of(shard.hash_key_range))
