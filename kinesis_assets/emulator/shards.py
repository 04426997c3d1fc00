"""A shard: a range of hash keys and the records that were put into it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING

from kinesis_assets.emulator.sequence_numbers import LAST_ORDINAL, SequenceNumber
from kinesis_assets.emulator.shapes import Member

if TYPE_CHECKING:
    from kinesis_assets.emulator.hash_keys import HashKeyRange

PAGE_RECORDS = 10_000
"""The most records that one page holds."""

PAGE_BYTES = 10 * 1024 * 1024
"""The most that one page holds, in bytes of decoded data; no single record is larger.

AWS names the "size of data that GetRecords can return" and does not mention partition keys. They are not
counted here, so a page with long keys has the longest body that the service may send.
Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html
"""

_arrival = attrgetter("approximate_arrival_timestamp")


class Record(Member, gc=False):
    """A record as GetRecords tells it. `data` stays the base64 text it came as; arrival is in seconds."""

    sequence_number: str
    approximate_arrival_timestamp: float
    data: str
    partition_key: str | None = None

    @property
    def data_size(self) -> int:
        """Bytes of its decoded data."""
        return record_size(self.data, None)


def record_size(data: str, partition_key: str | None) -> int:
    """Bytes of the decoded data and of the partition key, if there is one, in UTF-8."""
    return len(data) // 4 * 3 - data[-2:].count("=") + len((partition_key or "").encode())


@dataclass(slots=True)
class Shard:
    """One shard, open until `closed_at`; times are in milliseconds.

    A position in a shard is the ordinal of the next record to read. Ordinals count from 1 over the life of
    the shard, and are part of the sequence numbers; 0 is that of the shard's StartingSequenceNumber.
    """

    number: int
    hash_key_range: HashKeyRange
    era: int
    opened_at: int
    parents: tuple[str, ...] = ()
    closed_at: int | None = None
    _first: int = 1
    _records: list[Record] = field(default_factory=list)

    @property
    def shard_id(self) -> str:
        """The shard's name, which orders as its number does."""
        return f"shardId-{self.number:012}"

    @property
    def next(self) -> int:
        """The position after the last record."""
        return self._first + len(self._records)

    @property
    def starting_sequence_number(self) -> SequenceNumber:
        """Below that of every record in this shard, and above every one in its parents."""
        return SequenceNumber(self.era, self.number, 0, self.opened_at // 1000)

    @property
    def ending_sequence_number(self) -> SequenceNumber | None:
        """Above that of every record in a closed shard; an open one has none."""
        if self.closed_at is None:
            return None
        return SequenceNumber(self.era, self.number, LAST_ORDINAL, self.closed_at // 1000)

    def put(self, data: str, partition_key: str | None, now: int) -> Record:
        """Append a record; it arrives now."""
        sequence_number = SequenceNumber(self.era, self.number, self.next, now // 1000)
        record = Record(str(sequence_number), now / 1000, data, partition_key)
        self._records.append(record)
        return record

    def read(self, position: int, limit: int) -> tuple[list[Record], int]:
        """At most `limit` records and a page of bytes from the position on, and the position after them.

        Records trimmed since the position was taken are passed over, as the service does.
        """
        start = max(position - self._first, 0)
        records = self._records[start : start + limit]
        fitting = bisect_right(list(accumulate(record.data_size for record in records)), PAGE_BYTES)
        del records[fitting:]
        return records, self._first + start + len(records)

    def at_end(self, position: int) -> bool:
        """Whether the shard is closed and has nothing to read from the position on."""
        return self.closed_at is not None and position >= self.next

    def millis_behind(self, position: int, now: int) -> int:
        """The age of the next record to read, at least 1; 0 when there is none."""
        if position >= self.next:
            return 0
        following = self._records[max(position - self._first, 0)]
        return max(now - round(following.approximate_arrival_timestamp * 1000), 1)

    def position_at(self, arrival: int) -> int:
        """The position of the first record that arrived then or later."""
        return self._first + bisect_left(self._records, arrival / 1000, key=_arrival)

    def trim(self, horizon: int) -> None:
        """Forget the records that arrived before the horizon."""
        self.trim_to(self.position_at(horizon))

    def trim_to(self, position: int) -> None:
        """Forget the records before a position."""
        expired = min(max(position - self._first, 0), len(self._records))
        del self._records[:expired]
        self._first += expired
