"""A stream: its shards over time, and the routing of records to shards."""

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
    """A stream. A stream that is deleted and created again under the same name is another `Stream`.

    `shared` maps account ids to the operations that those accounts are allowed to call.

    A reshard is complete when the call returns, so a stream is always ACTIVE. The open shards cover all hash
    keys without overlap.
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
        self.tags: dict[str, str] = {}
        self.open_shards: list[Shard] = []
        self._shards: dict[str, Shard] = {}
        self._shards_created = 0
        self._trimmed_to = self.created_at
        self._open(uniform_ranges(shard_count), (), self.created_at)

    def __str__(self) -> str:
        return f"stream {self.name} under account {self.arn.split(':')[4]}"

    @property
    def shards(self) -> Sequence[Shard]:
        """All shards that are open or within retention, sorted by shard id."""
        return list(self._shards.values())

    @property
    def trim_horizon(self) -> int:
        """The earliest arrival time that can be read, in milliseconds."""
        return max(self.clock.now() - self.retention_hours * HOUR, self.created_at)

    def shard(self, shard_id: str) -> Shard:
        """Return a shard by its id."""
        if shard_id not in self._shards:
            raise ResourceNotFoundException(f"Shard {shard_id} in {self} does not exist")
        return self._shards[shard_id]

    def shard_for(self, hash_key: int) -> Shard:
        """Return the open shard that receives new records with this hash key."""
        return self.open_shards[bisect_right(self.open_shards, hash_key, key=_start) - 1]

    def next_shards(self, count: int) -> list[Shard]:
        """Return the open shards of the next `count` records under the strategy AUTO: round robin."""
        return [
            self.open_shards[(self._distributed + number) % len(self.open_shards)] for number in range(count)
        ]

    def distribute(self) -> Shard:
        """Return the open shard that receives a new record under the strategy AUTO."""
        (shard,) = self.next_shards(1)
        self._distributed += 1
        return shard

    def children(self, shard: Shard) -> list[Shard]:
        """Return the child shards of a closed shard."""
        return [child for child in self._shards.values() if shard.shard_id in child.parents]

    def trim(self) -> None:
        """Delete expired records, and then the shards that were closed before the trim horizon."""
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
        """Close a shard and open two children, which divide its hash keys at `at`."""
        self._reshard((shard,), shard.hash_key_range.split(at))

    def merge(self, shard: Shard, adjacent: Shard) -> None:
        """Close two shards and open a child with the hash keys of both. `shard` has the lower hash keys."""
        if shard.hash_key_range.end + 1 != adjacent.hash_key_range.start:
            raise InvalidArgumentException(
                f"Shards {shard.shard_id} and {adjacent.shard_id} in {self} "
                "are not an adjacent pair of shards eligible for merging"
            )
        self._reshard((shard, adjacent), (shard.hash_key_range.merge(adjacent.hash_key_range),))

    def scale(self, shard_count: int) -> None:
        """Split and merge shards until `shard_count` open shards divide the hash keys evenly.

        Shards that cross a new boundary are split there, and the parts are merged. The parts remain in the
        list as short-lived closed shards.
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
            shard = Shard(self._shards_created, hash_key_range, era, now, parents)
            self._shards_created += 1
            self._shards[shard.shard_id] = shard
            self.open_shards.append(shard)
        self.open_shards.sort(key=_start)
