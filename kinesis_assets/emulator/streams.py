"""A stream: its shards over time, and the way of a record to one of them."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

from kinesis_assets.emulator.errors import InvalidArgumentException, ResourceNotFoundException
from kinesis_assets.emulator.hash_keys import HashKeyRange, uniform_ranges
from kinesis_assets.emulator.shards import Shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.emulator.clock import Clock
    from kinesis_assets.emulator.shapes import RecordDistributionStrategy, StreamMode

HOUR = 3_600_000
_start = attrgetter("hash_key_range.start")


class Stream:
    """One life of a stream; a stream created again under the same name is another one.

    `shared` has the operations that other accounts may call, by account.

    Every change of shards is complete when the call returns, so a stream is always ACTIVE. The open shards
    cover the whole space of hash keys without overlap.
    """

    def __init__(self, name: str, arn: str, shard_count: int, clock: Clock) -> None:
        self.name = name
        self.arn = arn
        self.clock = clock
        self.created_at = clock.tick()
        self.retention_hours = 24
        self.max_record_size_kib = 1024
        self.mode: StreamMode = "PROVISIONED"
        self.distribution: RecordDistributionStrategy = "USER_PARTITION_KEY"
        self._distributed = 0
        self.shared: dict[str, frozenset[str]] = {}
        self.open_shards: list[Shard] = []
        self._shards: dict[str, Shard] = {}
        self._shards_ever = 0
        self._trimmed_to = self.created_at
        self._open(uniform_ranges(shard_count), (), self.created_at)

    def __str__(self) -> str:
        return f"stream {self.name} under account {self.arn.split(':')[4]}"

    @property
    def shards(self) -> Sequence[Shard]:
        """Every shard that is open or within retention, by shard id."""
        return list(self._shards.values())

    @property
    def trim_horizon(self) -> int:
        """The earliest moment that can be read, in milliseconds."""
        return max(self.clock.now() - self.retention_hours * HOUR, self.created_at)

    def shard(self, shard_id: str) -> Shard:
        """The shard of that name."""
        if shard_id not in self._shards:
            raise ResourceNotFoundException(f"Shard {shard_id} in {self} does not exist")
        return self._shards[shard_id]

    def shard_for(self, hash_key: int) -> Shard:
        """The open shard that takes new records of that hash key."""
        return self.open_shards[bisect_right(self.open_shards, hash_key, key=_start) - 1]

    def next_shards(self, count: int) -> list[Shard]:
        """The open shards that the next records are distributed to under the strategy AUTO, in turns."""
        return [
            self.open_shards[(self._distributed + number) % len(self.open_shards)] for number in range(count)
        ]

    def distribute(self) -> Shard:
        """The open shard that takes a new record under the strategy AUTO."""
        (shard,) = self.next_shards(1)
        self._distributed += 1
        return shard

    def children(self, shard: Shard) -> list[Shard]:
        """The shards that a closed shard went on in."""
        return [child for child in self._shards.values() if shard.shard_id in child.parents]

    def trim(self) -> None:
        """Let go what is past retention: records, then shards that closed before the horizon."""
        horizon = self.trim_horizon
        if horizon == self._trimmed_to:
            return
        self._trimmed_to = horizon
        for shard in self._shards.values():
            shard.trim(horizon)
        self._shards = {
            shard_id: shard
            for shard_id, shard in self._shards.items()
            if shard.closed_at is None or shard.closed_at >= horizon
        }

    def split(self, shard: Shard, at: int) -> None:
        """Close a shard; its children take the hash keys before `at` and from `at` on."""
        self._reshard((shard,), shard.hash_key_range.split(at))

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        """Close two shards, the lower by hash keys first; one child takes the keys of both."""
        if shard.hash_key_range.end + 1 != adjacent.hash_key_range.start:
            raise InvalidArgumentException(
                f"Shards {shard.shard_id} and {adjacent.shard_id} in {self} "
                "are not an adjacent pair of shards eligible for merging"
            )
        self._reshard((shard, adjacent), (shard.hash_key_range.merge(adjacent.hash_key_range),))

    def scale(self, shard_count: int) -> None:
        """Split and merge until `shard_count` open shards share the hash keys evenly.

        Where the old bounds do not fall on new ones, shards are split there and the pieces merged: these
        pieces stay in the list as short-lived closed shards.
        """
        targets = uniform_ranges(shard_count)
        for target in targets:
            holder = self.shard_for(target.start)
            if holder.hash_key_range.start != target.start:
                self.split(holder, target.start)
        for target in targets:
            while (lower := self.shard_for(target.start)).hash_key_range != target:
                self.merge(lower, self.shard_for(lower.hash_key_range.end + 1))

    def _reshard(self, parents: Sequence[Shard], ranges: Sequence[HashKeyRange]) -> None:
        for parent in parents:
            if parent.closed_at is not None:
                raise InvalidArgumentException(
                    f"Shard {parent.shard_id} in {self} has already been merged or split, "
                    "and thus is not eligible for merging or splitting."
                )
        now = self.clock.tick()
        for parent in parents:
            parent.closed_at = now
            self.open_shards.remove(parent)
        self._open(ranges, tuple(parent.shard_id for parent in parents), now)

    def _open(self, ranges: Sequence[HashKeyRange], parents: tuple[str, ...], now: int) -> None:
        era = self.clock.era()
        for hash_key_range in ranges:
            shard = Shard(self._shards_ever, hash_key_range, era, now, parents)
            self._shards_ever += 1
            self._shards[shard.shard_id] = shard
            self.open_shards.append(shard)
        self.open_shards.sort(key=_start)
