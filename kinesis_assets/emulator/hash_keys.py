"""The 128-bit hash keys and the ranges of them that shards own."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import md5

HASH_KEYS = 2**128


def hash_key(partition_key: str) -> int:
    """Return the hash key of a partition key: its MD5 digest as an unsigned integer."""
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest())


@dataclass(frozen=True, slots=True)
class HashKeyRange:
    """A contiguous range of hash keys, both ends inclusive."""

    start: int
    end: int

    def split(self, at: int) -> tuple[HashKeyRange, HashKeyRange]:
        """Return the range before `at` and the range that starts at `at`."""
        return HashKeyRange(self.start, at - 1), HashKeyRange(at, self.end)

    def merge(self, upper: HashKeyRange) -> HashKeyRange:
        """Return the union of this range and the range that follows it."""
        return HashKeyRange(self.start, upper.end)


def uniform_ranges(count: int) -> list[HashKeyRange]:
    """Divide all hash keys into `count` ranges of equal width. The last range includes the remainder."""
    width = HASH_KEYS // count
    starts = [width * i for i in range(count)]
    return [HashKeyRange(start, end - 1) for start, end in zip(starts, [*starts[1:], HASH_KEYS], strict=True)]
