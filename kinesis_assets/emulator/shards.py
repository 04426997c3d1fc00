"""A shard: a range of hash keys and the records that were put to it.

Sequence numbers: 56 decimal digits that increase with each record of a shard. The layout was observed in
the service's own numbers. From the highest bit down it has a leading 2, the era (36 bits), the lowest 4
bits of the shard number, the record's ordinal in the shard (64), 8 bits of zero, the second of arrival
(36), the shard number (32) and the version of the layout (4), which is 2.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from hashlib import md5
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.emulator.shapes import Member

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE_RECORDS = 10_000

PAGE_BYTES = 10 * 1024 * 1024
"""The maximum size of a page in bytes of decoded data. No single record is larger.

AWS documents the "size of data that GetRecords can return" and does not mention partition keys. They are not
counted here, so a page with long keys has the longest response body that the service may send.
Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
"""

_arrival = attrgetter("approximate_arrival_timestamp")


class Record(Member, gc=False):
    """A record as GetRecords returns it. `data` is the base64 text of the request; arrival is in seconds."""

    sequence_number: str
    approximate_arrival_timestamp: float
    data: str
    partition_key: str | None = None


def record_size(data: str, partition_key: str | None) -> int:
    """Return the size in bytes of the decoded data and the UTF-8 partition key, if any."""
    return len(data) // 4 * 3 - data[-2:].count("=") + len((partition_key or "").encode())


@dataclass(slots=True)
class Shard:
    """A shard, which is open until `closed_at`. Times are in milliseconds.

    A position in a shard is the ordinal of the next record to read. Ordinals count from 1 over the life of
    the shard and are part of the sequence numbers. Ordinal 0 is that of the shard's StartingSequenceNumber.

    Attributes:
        watchers: Called after a record is put, and when the shard is closed.
    """

    number: int
    hash_key_range: HashKeyRange
    era: int
    opened_at: int
    parents: tuple[str, ...] = ()
    closed_at: int | None = None
    watchers: list[Callable[[], None]] = field(default_factory=list)
    _first: int = 1
    _records: list[Record] = field(default_factory=list)

    @property
    def shard_id(self) -> str:
        """The shard id. Shard ids sort like shard numbers."""
        return f"shardId-{self.number:012}"

    @property
    def next(self) -> int:
        """The position after the last record."""
        return self._first + len(self._records)

    @property
    def starting_sequence_number(self) -> SequenceNumber:
        """A number below that of every record in this shard and above that of every record in its parents."""
        return SequenceNumber(self.era, self.number, 0, self.opened_at // 1000)

    @property
    def ending_sequence_number(self) -> SequenceNumber | None:
        """A number above that of every record in the shard; None if the shard is open."""
        if self.closed_at is None:
            return None
        return SequenceNumber(self.era, self.number, LAST_ORDINAL, self.closed_at // 1000)

    def put(self, data: str, partition_key: str | None, now: int) -> Record:
        """Append a record that arrives at `now`."""
        sequence_number = SequenceNumber(self.era, self.number, self.next, now // 1000)
        record = Record(str(sequence_number), now / 1000, data, partition_key)
        self._records.append(record)
        self._changed()
        return record

    def close(self, now: int) -> None:
        """Close the shard at `now`."""
        self.closed_at = now
        self._changed()

    def read(self, position: int, limit: int, most_bytes: int = PAGE_BYTES) -> tuple[list[Record], int]:
        """Read a page from a position. Returns its records and the position after them.

        Like the service, this skips records that have expired since the position was issued.

        Args:
            most_bytes: The maximum size of their data, unless a single record is larger.
        """
        start = max(position - self._first, 0)
        records = self._records[start : start + limit]
        sizes = accumulate(record_size(record.data, None) for record in records)
        fitting = bisect_right(list(sizes), most_bytes)
        del records[max(fitting, 1) :]
        return records, self._first + start + len(records)

    def at_end(self, position: int) -> bool:
        """Return whether the shard is closed and has no record at or after the position."""
        return self.closed_at is not None and position >= self.next

    def millis_behind(self, position: int, now: int) -> int:
        """Return the age of the next record to read in milliseconds, at least 1; 0 if there is none."""
        if position >= self.next:
            return 0
        following = self._records[max(position - self._first, 0)]
        return max(now - round(following.approximate_arrival_timestamp * 1000), 1)

    def position_at(self, arrival: int) -> int:
        """Return the position of the first record that arrived at `arrival` (in milliseconds) or later."""
        return self._first + bisect_left(self._records, arrival / 1000, key=_arrival)

    def trim_to(self, position: int) -> None:
        """Delete the records before a position."""
        expired = min(max(position - self._first, 0), len(self._records))
        del self._records[:expired]
        self._first += expired

    def _changed(self) -> None:
        for watcher in self.watchers:
            watcher()


HASH_KEYS = 2**128


def hash_key(partition_key: str) -> int:
    """Return the hash key of a partition key: its MD5 digest as an unsigned integer."""
    return int.from_bytes(md5(partition_key.encode(), usedforsecurity=False).digest())


@dataclass(frozen=True, slots=True)
class HashKeyRange:
    """A contiguous range of hash keys, both ends inclusive."""

    start: int
    end: int


def uniform_ranges(count: int) -> list[HashKeyRange]:
    """Divide all hash keys into `count` ranges of equal width. The last range includes the remainder."""
    width = HASH_KEYS // count
    starts = [width * i for i in range(count)]
    return [HashKeyRange(start, end - 1) for start, end in zip(starts, [*starts[1:], HASH_KEYS], strict=True)]


LAST_ORDINAL = 2**63 - 1
"""The ordinal in the EndingSequenceNumber of a closed shard. It is larger than that of any record."""

_LEADING = 2
_VERSION = 2
_SHARD_SHIFT = 4
_SECOND_SHIFT = _SHARD_SHIFT + 32
_ORDINAL_SHIFT = _SECOND_SHIFT + 36 + 8
_NIBBLE_SHIFT = _ORDINAL_SHIFT + 64
_ERA_SHIFT = _NIBBLE_SHIFT + 4
_LEADING_SHIFT = _ERA_SHIFT + 36


class SequenceNumber(NamedTuple):
    """The parts of a sequence number; `str()` returns its decimal text."""

    era: int
    shard_number: int
    ordinal: int
    second: int

    def __str__(self) -> str:
        return str(
            _LEADING << _LEADING_SHIFT
            | self.era << _ERA_SHIFT
            | (self.shard_number & 0xF) << _NIBBLE_SHIFT
            | self.ordinal << _ORDINAL_SHIFT
            | self.second << _SECOND_SHIFT
            | self.shard_number << _SHARD_SHIFT
            | _VERSION
        )

    @classmethod
    def parse(cls, text: str) -> SequenceNumber | None:
        """Parse a decimal number. Returns None if it does not have this layout."""
        number = int(text)
        parts = cls(
            era=number >> _ERA_SHIFT & 2**36 - 1,
            shard_number=number >> _SHARD_SHIFT & 2**32 - 1,
            ordinal=number >> _ORDINAL_SHIFT & 2**64 - 1,
            second=number >> _SECOND_SHIFT & 2**36 - 1,
        )
        return parts if str(parts) == text else None
