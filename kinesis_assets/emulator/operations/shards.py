"""Shards as the API describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.emulator.shapes import Member

if TYPE_CHECKING:
    from kinesis_assets.emulator.hash_keys import HashKeyRange
    from kinesis_assets.emulator.shards import Shard


class HashKeyRangeMember(Member):
    """A range of hash keys, both ends inclusive, in decimal."""

    starting_hash_key: str
    ending_hash_key: str

    @classmethod
    def of(cls, hash_key_range: HashKeyRange) -> HashKeyRangeMember:
        """The range as the API writes it."""
        return cls(str(hash_key_range.start), str(hash_key_range.end))


class SequenceNumberRange(Member):
    """The bounds of a shard's sequence numbers; only a closed shard has an end."""

    starting_sequence_number: str
    ending_sequence_number: str | None = None


class ShardMember(Member):
    """A shard as ListShards and DescribeStream tell it."""

    shard_id: str
    hash_key_range: HashKeyRangeMember
    sequence_number_range: SequenceNumberRange
    parent_shard_id: str | None = None
    adjacent_parent_shard_id: str | None = None

    @classmethod
    def of(cls, shard: Shard) -> ShardMember:
        """The shard as the API writes it."""
        ending = shard.ending_sequence_number
        return cls(
            shard.shard_id,
            HashKeyRangeMember.of(shard.hash_key_range),
            SequenceNumberRange(str(shard.starting_sequence_number), None if ending is None else str(ending)),
            *shard.parents,
        )


class ChildShard(Member):
    """A shard that a closed one went on in."""

    shard_id: str
    parent_shards: tuple[str, ...]
    hash_key_range: HashKeyRangeMember

    @classmethod
    def of(cls, shard: Shard) -> ChildShard:
        """The shard as the API writes it."""
        return cls(shard.shard_id, shard.parents, HashKeyRangeMember.of(shard.hash_key_range))
