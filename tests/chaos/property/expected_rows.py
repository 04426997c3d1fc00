"""The records that the stream acknowledged, and the rows that the table must contain."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import md5
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from chaos.property.histories import Aggregate, Plain
from kinesis_assets.kinesis.records.aggregation import MAGIC
from kinesis_assets.testing import UserRecord, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chaos.property.histories import Sub
    from kinesis_assets.table.positions.positions import ShardPosition

HASH_KEYS = 1 << 128

DAMAGED = "damaged"

Place = tuple[float, float]
"""Sequence number and sub-sequence number; the latter is infinite where the whole record is meant."""

BEGINNING: Place = (-1, inf)


class Row(NamedTuple):
    """A row of the table. Its error is None or `DAMAGED`."""

    shard_id: str
    sequence_number: int
    sub_sequence_number: int
    partition_key: str | None
    data: bytes
    error: str | None

    @property
    def place(self) -> Place:
        return self.sequence_number, self.sub_sequence_number


class HashRange(NamedTuple):
    """The first and the last hash key of a shard."""

    first: int
    last: int

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and self.first <= key <= self.last

    def edge(self, at: str) -> int:
        edges = {
            "first": self.first,
            "last": self.last,
            "before": self.first - 1,
            "after": self.last + 1,
        }
        return edges[at] % HASH_KEYS


class Acknowledged(NamedTuple):
    """A record that was put, and its rows. The key is None if the record was not placed by one."""

    placed_by: str | None
    arrival: float
    rows: Sequence[Row]


@dataclass
class ExpectedRows:
    """Every acknowledged record in order.

    Attributes:
        records: The records.
        may_be_marked: The places of the sub-records of another shard. They are marked if the stream was seen
            to be provisioned before they arrived.
    """

    records: list[Acknowledged] = field(default_factory=list)
    may_be_marked: set[tuple[str, Place]] = field(default_factory=set)

    def add(
        self,
        record: Plain | Aggregate,
        shard_id: str,
        number: int,
        arrival: float,
        keys: HashRange | None,
        placed_by: str | None,
    ) -> None:
        """Add a record that a shard acknowledged. The hash keys are None if they do not matter."""
        if isinstance(record, Plain):
            data = record.data * record.times
            rows = [Row(shard_id, number, 0, record.key, data, DAMAGED if data.startswith(MAGIC) else None)]
        else:
            rows = [
                Row(shard_id, number, place, sub.key, sub.data, None) for place, sub in enumerate(record.subs)
            ]
            self.may_be_marked |= {
                (shard_id, row.place)
                for row, sub in zip(rows, record.subs, strict=True)
                if keys is not None and _hash(sub, keys) not in keys
            }
        self.records.append(Acknowledged(placed_by, arrival, rows))

    def by_shard(self, since: Mapping[str, float]) -> dict[str, list[Row]]:
        """Return the rows by shard, for some shards only those that arrived at a given time or later."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        for row, _ in self._wanted(since):
            found[row.shard_id].append(row)
        return found

    def by_key(self, since: Mapping[str, float]) -> dict[str | None, list[Row]]:
        """Return the rows by the partition key that placed the record, or None."""
        found: defaultdict[str | None, list[Row]] = defaultdict(list)
        for row, placed_by in self._wanted(since):
            found[placed_by].append(row)
        return found

    def _wanted(self, since: Mapping[str, float]) -> Iterator[tuple[Row, str | None]]:
        for record in self.records:
            for row in record.rows:
                if record.arrival >= since.get(row.shard_id, 0):
                    yield row, record.placed_by


def payload(record: Plain | Aggregate, keys: HashRange) -> bytes:
    """Return the data to put into a shard with these hash keys."""
    if isinstance(record, Plain):
        return record.data * record.times
    return aggregate(
        UserRecord(sub.key, sub.data, None if sub.at is None else str(_hash(sub, keys)))
        for sub in record.subs
    )


def hash_of(key: str) -> int:
    """Return the hash key of a partition key (AWS API reference, PutRecord)."""
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest())


def _hash(sub: Sub, keys: HashRange) -> int:
    return hash_of(sub.key) if sub.at is None else keys.edge(sub.at)


def place_of(position: ShardPosition | None) -> Place:
    """Return how far a shard has been read."""
    if position is None or position.position.sequence_number is None:
        return BEGINNING
    sub = position.position.sub_sequence_number
    return int(position.position.sequence_number), inf if sub is None else sub
