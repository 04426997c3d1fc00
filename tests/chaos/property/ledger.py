"""What the stream acknowledged, and the rows that must come of it."""

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
    from kinesis_assets.table.positions import ShardPosition

HASH_KEYS = 1 << 128

DAMAGED = "damaged"
OUTSIDE = "outside"

Place = tuple[float, float]
"""Sequence number and sub-sequence number; the latter is infinite where the whole record is meant."""

BEGINNING: Place = (-1, inf)


class Row(NamedTuple):
    """A row of the table; its error is None, `DAMAGED` or `OUTSIDE`."""

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
    """The hash keys of a shard, both inclusive."""

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
    """A record that was put, and the rows that it comes to; no key where it was not placed by one."""

    placed_by: str | None
    arrival: float
    rows: Sequence[Row]


@dataclass
class Ledger:
    """Every acknowledged record, in their order."""

    records: list[Acknowledged] = field(default_factory=list)

    def add(
        self,
        record: Plain | Aggregate,
        shard_id: str,
        number: int,
        arrival: float,
        keys: HashRange | None,
        placed_by: str | None,
    ) -> None:
        """Note a record that was acknowledged by a shard of these hash keys; None where they say nothing."""
        if isinstance(record, Plain):
            data = record.data * record.times
            rows = [Row(shard_id, number, 0, record.key, data, DAMAGED if data.startswith(MAGIC) else None)]
        else:
            rows = [
                Row(shard_id, number, place, sub.key, sub.data, _judged(sub, keys))
                for place, sub in enumerate(record.subs)
            ]
        self.records.append(Acknowledged(placed_by, arrival, rows))

    def by_shard(self, since: Mapping[str, float]) -> dict[str, list[Row]]:
        """The rows by their shard; of some shards only what arrived at a time or later."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        for row, _ in self._wanted(since):
            found[row.shard_id].append(row)
        return found

    def by_key(self, since: Mapping[str, float]) -> dict[str | None, list[Row]]:
        """The same by the partition key that placed the record; None where none did."""
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
    """The data to put into a shard of these hash keys."""
    if isinstance(record, Plain):
        return record.data * record.times
    return aggregate(
        UserRecord(sub.key, sub.data, None if sub.at is None else str(_hash(sub, keys)))
        for sub in record.subs
    )


def hash_of(key: str) -> int:
    """The place of a partition key among the hash keys (AWS API reference, PutRecord)."""
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest())


def _judged(sub: Sub, keys: HashRange | None) -> str | None:
    return None if keys is None or _hash(sub, keys) in keys else OUTSIDE


def _hash(sub: Sub, keys: HashRange) -> int:
    return hash_of(sub.key) if sub.at is None else keys.edge(sub.at)


def place_of(position: ShardPosition | None) -> Place:
    """How far a shard has been read."""
    if position is None or position.position.sequence_number is None:
        return BEGINNING
    sub = position.position.sub_sequence_number
    return int(position.position.sequence_number), inf if sub is None else sub
