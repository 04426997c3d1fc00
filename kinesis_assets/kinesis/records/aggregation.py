"""Deaggregation of records that the Kinesis Producer Library (KPL) aggregated.

The data of an aggregate consist of `MAGIC`, a protobuf message and the 16-byte MD5 of that message. A record
that starts with the magic but is not a valid aggregate stays one record: its bytes are unchanged, and its
error gives the reason. The Kinesis Client Library (KCL) does the same, but deaggregates a record with a
partition key that is longer than the service permits.

The hash key of a sub-record is its explicit hash key or, without one, the MD5 of its partition key. It is
outside the shard's range if the aggregate reached a shard other than the one that it was built for, for
example after a split. Such a sub-record is kept in its place with the error `OUTSIDE_HASH_RANGE`, and the
others have no error. Whether the stream contains it a second time depends on its producer:

- The KPL puts it again. The new copy reaches the correct shard and has no error. Before 0.15.11, and later
  while it does not know the shard that responded, the KPL puts the whole aggregate again. The sub-records
  inside the range then occur twice, under different sequence numbers.
- Other aggregators do not: the row with the error is the only one. The KCL loses it, because it drops the
  *whole* aggregate if one sub-record is outside.

A hash key determines the shard only if the service placed the aggregate by its hash keys. Under the record
distribution strategy AUTO it does not: sub-records would appear to be outside, and a consumer that reads only
rows whose `error is null` would lose records that exist nowhere else. No response shows the strategy under
which a record was put, with or without a partition key, and it can be switched at any time; so can the
capacity mode, of which only ON_DEMAND has the strategy. Hash keys are not checked where AUTO is possible:

- for a record without a partition key, in any stream;
- for a record that did not arrive while the stream was seen to be PROVISIONED, both before and afterwards
  (`StreamPositions.provisioned_since`).

As a consequence, the sub-records that the KPL puts again after a split occur twice without an error in an
on-demand stream, and in what arrived before the first run or was read by a continuous run at once.

Sources:
    https://github.com/awslabs/amazon-kinesis-producer/blob/master/aggregation-format.md
    https://github.com/awslabs/amazon-kinesis-producer/blob/master/aws/kinesis/core/retrier.cc ("Wrong Shard")
    https://github.com/awslabs/amazon-kinesis-producer/pull/576 (0.15.11)
    https://github.com/awslabs/kinesis-aggregation/blob/master/potential_data_loss.md
    https://docs.aws.amazon.com/kinesis/latest/APIReference/API_UpdateStreamRecordDistributionStrategy.html
    https://docs.aws.amazon.com/kinesis/latest/APIReference/API_Record.html (PartitionKey)
    https://github.com/awslabs/amazon-kinesis-client (AggregatorUtil.java, as of 3.5.1)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from kinesis_assets.kinesis.records.records import Record, Records, bytes_and_offsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAGIC = b"\xf3\x89\x9a\xc2"
"""The first bytes of every aggregate."""

OUTSIDE_HASH_RANGE = "outside the shard's hash range: the KPL puts it again, other aggregators do not"
"""The error of a valid sub-record whose hash key belongs to another shard."""

INVALID_HASH_KEY = "aggregate: the explicit hash key is not a decimal number from 0 to 2^128-1"
"""The error of a sub-record whose explicit hash key does not say to which shard it belongs."""

_KEY_CHARACTERS = 256
"""Maximum length of a partition key (API reference, PutRecord). All sub-records may share one key: with a key
of megabytes, a single aggregate would expand to terabytes."""

_UNCHECKED = "not checked yet"
_WHOLE_BYTES = 2 << 20
"""Data up to this size are parsed at once, as of all aggregates of a stream with records of up to 1 MiB."""
_PART_BYTES = 1 << 19
"""Others are parsed in parts of about this size, because a parsed message needs far more memory."""
_LAST_BYTE, _LENGTH_BYTES = 0x7F, 5
"""The greatest value of the last byte of a length, whose other bytes are greater; and its maximum size."""
_MD5_BYTES = 16
_HASH_KEY_BYTES = 16
_HASH_KEY_DIGITS = 39
_ALL_HASH_KEYS = (bytes(_HASH_KEY_BYTES), b"\xff" * _HASH_KEY_BYTES)

# The format's strings are declared as bytes, which have the same encoding: this module validates UTF-8.
_FORMAT = {
    "Tag": ("required bytes key = 1", "optional bytes value = 2"),
    "Record": (
        "required uint64 partition_key_index = 1",
        "optional uint64 explicit_hash_key_index = 2",
        "required bytes data = 3",
        "repeated Tag tags = 4",
    ),
    "AggregatedRecord": (
        "repeated bytes partition_key_table = 1",
        "repeated bytes explicit_hash_key_table = 2",
        "repeated Record records = 3",
    ),
}


def _message_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="aggregation.proto", package="kinesis_assets")
    for message, fields in _FORMAT.items():
        added = file.message_type.add(name=message)
        for label, kind, name, _, number in map(str.split, fields):
            type_ = {"type_name": kind} if kind in _FORMAT else {"type": f"TYPE_{kind.upper()}"}
            added.field.add(name=name, number=int(number), label=f"LABEL_{label.upper()}", **type_)
    pool = descriptor_pool.DescriptorPool()  # not the default one, which the whole process shares
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("kinesis_assets.AggregatedRecord"))


_TAGS = {number << 3 | 2 for number in (1, 2, 3)}
"""The bytes before the length of each of its fields."""

AggregatedRecord = _message_class()
"""The protobuf message of the format, with bytes for strings."""


class _InvalidAggregate(Exception):
    """Data that start with `MAGIC` are not a valid aggregate."""


def is_aggregate(record: Record) -> bool:
    """Return whether a record's data start with `MAGIC`."""
    return record.data[: len(MAGIC)] == MAGIC


def any_aggregate(records: Records) -> bool:
    """Return whether the data of any record start with `MAGIC`."""
    data, offsets = bytes_and_offsets(records.data_column)
    # Most pages have no aggregate, and checking each record costs more than this.
    if not (data[offsets[:-1][np.diff(offsets) > 0]] == MAGIC[0]).any():
        return False
    return any(map(bytes.startswith, records.payloads, repeat(MAGIC)))


def is_damaged(error: str | None) -> bool:
    """Return whether the error of a record marks an invalid aggregate or sub-record."""
    return error is not None and error != OUTSIDE_HASH_RANGE


def deaggregate_slices(
    record: Record, hash_range: tuple[str, str] | None, size: int
) -> Iterator[Sequence[Record]]:
    """Yield the sub-records of an aggregate, in order, or the record itself, in lists of 1 to `size` records.

    For a record that is not an aggregate, that is the same object; for an invalid aggregate, the record with
    an error. The sub-records have its sequence number and arrival time. Those outside the shard's range have
    the error `OUTSIDE_HASH_RANGE`, and those whose explicit hash key is invalid `INVALID_HASH_KEY`, unless
    hash keys are not checked or the range has all of them.

    Args:
        hash_range: The shard's first and last hash key, both inclusive, as decimal text. None does not check
            hash keys.
    """
    if not is_aggregate(record):
        yield [record]
        return
    try:
        message = _parse(record.data)
        sub_records = _sub_records(record, message, hash_range)
        first = list(islice(sub_records, size))
        if len(first) < message.count:
            # One invalid sub-record makes the aggregate invalid, so check all before yielding any.
            for _ in sub_records:
                pass
            sub_records = _sub_records(record, message, hash_range)
    except _InvalidAggregate as invalid:
        yield [msgspec.structs.replace(record, error=f"aggregate: {invalid}")]
        return
    if len(first) == message.count:
        yield first
        return
    del first
    while part := list(islice(sub_records, size)):
        yield part


@dataclass(frozen=True, slots=True)
class _Message:
    """The protobuf message of an aggregate, with all required fields.

    Attributes:
        count: Number of its sub-records.
        parts: Its parts, see `_parts`. A single one is parsed already.
    """

    partition_keys: Sequence[bytes]
    hash_keys: Sequence[bytes]
    count: int
    parts: Sequence[Any]

    @property
    def sub_records(self) -> Iterator[Any]:
        """The sub-records in order, as protobuf messages."""
        parts = (_parsed(part) if isinstance(part, memoryview) else part for part in self.parts)
        return chain.from_iterable(message.records for message in parts)


def _parse(data: bytes) -> _Message:
    """Parse the protobuf message of an aggregate."""
    if len(data) < len(MAGIC) + _MD5_BYTES:
        raise _InvalidAggregate(f"too short: {len(data)} bytes")
    if _md5(memoryview(data)[len(MAGIC) : -_MD5_BYTES]) != data[-_MD5_BYTES:]:
        raise _InvalidAggregate("its MD5 does not match")
    partition_keys: list[bytes] = []
    hash_keys: list[bytes] = []
    count, is_complete = 0, True
    parts = _parts(data)
    try:
        for part in parts:
            message = _parsed(part)
            partition_keys += message.partition_key_table
            hash_keys += message.explicit_hash_key_table
            count += len(message.records)
            is_complete = is_complete and message.IsInitialized()
    except DecodeError:
        raise _InvalidAggregate("its protobuf does not parse") from None
    if not is_complete:
        raise _InvalidAggregate("its protobuf lacks a required field")
    if not count:
        raise _InvalidAggregate("no sub-record in it")
    return _Message(partition_keys, hash_keys, count, parts if len(parts) > 1 else [message])


def _parsed(part: memoryview) -> Any:
    return AggregatedRecord.FromString(bytes(part))


def _parts(data: bytes) -> list[memoryview]:
    """Split the encoded message of an aggregate between its fields. Each part is a message by itself.

    What is damaged, or has fields that the format lacks, stays whole.
    """
    start = place = len(MAGIC)
    end = len(data) - _MD5_BYTES
    whole = memoryview(data)[start:end]
    if len(data) <= _WHOLE_BYTES:
        return [whole]
    parts = []
    while start < end:
        through = min(start + _PART_BYTES, end)
        while place < through:
            if data[place] not in _TAGS:
                return [whole]
            length = data[place + 1]
            place += 2
            if length > _LAST_BYTE:
                length, place = _length(data, place - 1)
            place += length
        if place > end:
            return [whole]
        parts.append(memoryview(data)[start:place])
        start = place
    return parts


def _length(data: bytes, place: int) -> tuple[int, int]:
    """Return the length of a field, which is encoded at a place, and the place behind it."""
    length = 0
    for number in range(_LENGTH_BYTES):
        byte = data[place + number]
        length |= (byte & _LAST_BYTE) << 7 * number
        if byte <= _LAST_BYTE:
            return length, place + number + 1
    return len(data), place


def _sub_records(record: Record, message: _Message, hash_range: tuple[str, str] | None) -> Iterator[Record]:
    if hash_range is None or record.partition_key is None:
        first, last = _ALL_HASH_KEYS
    else:
        first, last = (int(text).to_bytes(_HASH_KEY_BYTES, "big") for text in hash_range)

    def range_error(hash_key: bytes | None) -> str | None:
        if hash_key is None:
            return INVALID_HASH_KEY
        return None if first <= hash_key <= last else OUTSIDE_HASH_RANGE

    # Each key in the tables is decoded and checked once, however many sub-records use it. A partition key is
    # hashed only for a sub-record without an explicit hash key.
    table = message.partition_keys
    keys = _partition_keys(table)
    all_inside = (first, last) == _ALL_HASH_KEYS
    key_errors = [None if all_inside else _UNCHECKED] * len(keys)
    explicit_errors = [None if all_inside else range_error(_hash_key(key)) for key in message.hash_keys]

    sequence_number = record.sequence_number
    arrival = record.approximate_arrival_timestamp
    index = 0
    try:
        for index, sub in enumerate(message.sub_records):
            key_index = sub.partition_key_index
            if sub.HasField("explicit_hash_key_index"):
                error = explicit_errors[sub.explicit_hash_key_index]
            else:
                error = key_errors[key_index]
                if error is _UNCHECKED:
                    error = key_errors[key_index] = range_error(_md5(table[key_index]))
            yield Record(sequence_number, arrival, sub.data, keys[key_index], index, error)
    except IndexError:
        raise _InvalidAggregate(f"sub-record {index} has an index beyond its table of keys") from None


def _partition_keys(table: Iterable[bytes]) -> list[str]:
    try:
        keys = [key.decode() for key in table]
    except UnicodeDecodeError:
        raise _InvalidAggregate("a partition key is not UTF-8") from None
    if any(len(key) > _KEY_CHARACTERS for key in keys):
        raise _InvalidAggregate(f"a partition key has more than {_KEY_CHARACTERS} characters")
    return keys


def _hash_key(decimal: bytes) -> bytes | None:
    """Return an explicit hash key as big-endian bytes, which sort like the numbers and compare with MD5s.

    None if it is not a decimal number from 0 to 2^128-1.
    """
    number = int(decimal) if decimal.isdigit() and len(decimal) <= _HASH_KEY_DIGITS else -1
    try:
        return number.to_bytes(_HASH_KEY_BYTES, "big")
    except OverflowError:
        return None


def _md5(data: bytes | memoryview) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
