"""Records that a producer aggregated, and an independent writer of the wire format."""

from __future__ import annotations

import hashlib
import sys
from itertools import chain

import msgspec

from kinesis_assets.kinesis.records.aggregation import MAGIC, deaggregate_slices
from kinesis_assets.kinesis.records.records import Record
from kinesis_assets.testing import UserRecord, aggregate
from support.one_shard import ALL_KEYS


def aggregate_of(*items: int) -> bytes:
    """Aggregate numbers, whose data is their digits."""
    return aggregate(UserRecord("k", str(item).encode(), "0") for item in items)


# An independent writer of the wire format (protobuf.dev/programming-guides/encoding).
def varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(high) if high else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def chunk(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def sub_record(key: int, data: bytes, explicit: int | None = None) -> bytes:
    explicit_index = b"" if explicit is None else number(2, explicit)
    return chunk(3, number(1, key) + explicit_index + chunk(3, data))


def sealed(body: bytes) -> bytes:
    return MAGIC + body + hashlib.md5(body).digest()  # noqa: S324  # the format's own


def record_of(data: bytes) -> Record:
    return Record("49590338271490256608559692538361571095921575989136588898", 1795195705.123, data, "a")


def with_error(record: Record, error: str) -> Record:
    return msgspec.structs.replace(record, error=error)


def deaggregate(record: Record, hash_range: tuple[str, str] | None) -> list[Record]:
    """Return all that `deaggregate_slices` yields for a record."""
    return list(chain.from_iterable(deaggregate_slices(record, hash_range, sys.maxsize)))


def deaggregated(data: bytes, hash_range: tuple[str, str] = ALL_KEYS) -> list[tuple[str, bytes, str | None]]:
    rows = deaggregate(record_of(data), hash_range)
    return [(row.partition_key, row.data, row.error) for row in rows]
