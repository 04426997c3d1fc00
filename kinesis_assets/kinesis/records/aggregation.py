"""Aggregates of the Kinesis Producer Library (KPL), taken apart into their sub-records.

An aggregate is one record's data: `MAGIC`, a protobuf message, the 16 bytes of the message's MD5. What begins
with the magic and is no sound aggregate stays one record with its bytes as they came, and its error says why.

A sub-record's hash key is its explicit hash key, else the MD5 of its partition key. It is outside the shard's
range when the aggregate came to another shard than it was made for, as after a split. Each sub-record is
judged by itself: one outside is kept in its place with the error `OUTSIDE_HASH_RANGE`, the others of its
aggregate are well. Whether the stream has it a second time depends on who put it:

- The KPL takes a wrong shard for a failure and puts the sub-record again, to the shard it belongs to: there
  it is well. Before 0.15.11, and later while it does not know the shard that answered, the KPL puts the whole
  aggregate again, so that those inside the range come twice, each time under a sequence number of its own.
- Other aggregators put nothing again: the row with the error is the only one.

The Kinesis Client Library (KCL) leaves out the *whole* aggregate when one sub-record is outside, and loses
what nobody puts again. So the rows whose error is null are all that the KCL gives of sound aggregates and, of
those that it leaves out, what is inside the range. Where MD5 or protobuf are wrong, the KCL gives the record
as a plain one. Where a partition key is longer than a record's may be, the KCL takes the aggregate apart, and
here it is not sound.

A hash key says where a sub-record belongs only if the service placed its aggregate by hash keys. Under the
record distribution strategy AUTO it does not: sub-records would seem to be outside, and whoever reads those
whose `error is null` would lose records that exist nowhere else. GetRecords does not return the strategy
under which a record was put. A record without a partition key was put under AUTO, but one with a key may have
been, too: the key is stored and ignored. The strategy that the stream has now says nothing about older
records, since it can be switched at any time. So nothing is judged where AUTO is possible:

- a record without a partition key, in any stream;
- any record of a stream whose capacity mode is ON_DEMAND, the only one that has the strategy.

What that costs: in an on-demand stream the sub-records that the KPL puts again after a split come twice
without an error. A stream that is provisioned now is judged, also what was put while it was on-demand.

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
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)
from google.protobuf.message import DecodeError

from kinesis_assets.kinesis.records.columns import letters
from kinesis_assets.kinesis.records.record import Record, Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAGIC = b"\xf3\x89\x9a\xc2"
"""What every aggregate begins with."""

OUTSIDE_HASH_RANGE = "outside the shard's hash range: the KPL puts it again, other aggregators do not"
"""The error of a sub-record that came out well but belongs to another shard."""

SLICE = 10_000
"""Sub-records of an aggregate that are taken out of it at once: there can be a million in one."""

_KEY_CHARACTERS = 256
"""Of a partition key at the most (API reference, PutRecord). All sub-records may share one: with a key of
megabytes a single aggregate would come to terabytes."""

_NOT_JUDGED = "not judged yet"
_MD5_BYTES = 16
_HASH_KEY_BYTES = 16
_HASH_KEY_DIGITS = 39
_ALL_HASH_KEYS = (bytes(_HASH_KEY_BYTES), b"\xff" * _HASH_KEY_BYTES)

# The format's strings are bytes here: the same on the wire, and it is this module that judges their UTF-8.
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


def _aggregated_record() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="aggregation.proto", package="kinesis_assets")
    for message, fields in _FORMAT.items():
        added = file.message_type.add(name=message)
        for label, kind, name, _, number in map(str.split, fields):
            what = {"type_name": kind} if kind in _FORMAT else {"type": f"TYPE_{kind.upper()}"}
            added.field.add(name=name, number=int(number), label=f"LABEL_{label.upper()}", **what)
    pool = descriptor_pool.DescriptorPool()  # of its own: the default one is the whole process's
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("kinesis_assets.AggregatedRecord"))


AggregatedRecord = _aggregated_record()
"""The format's protobuf message, with bytes for strings."""


class _Unsound(Exception):
    """Why something that begins like an aggregate is none."""


def is_aggregate(record: Record) -> bool:
    """Whether the record's data begin as an aggregate's."""
    return record.data[: len(MAGIC)] == MAGIC


def any_aggregate(records: Records) -> bool:
    """Whether one of them is an aggregate."""
    data, begins = letters(records.data_column)
    # Most pages have none, and to look at each record costs more than this.
    if not (data[begins[:-1][np.diff(begins) > 0]] == MAGIC[0]).any():
        return False
    return any(map(bytes.startswith, records.payloads, repeat(MAGIC)))


def is_damaged(error: str | None) -> bool:
    """Whether the error of what `deaggregate` gave says that it begins as an aggregate and is none."""
    return error is not None and error != OUTSIDE_HASH_RANGE


def deaggregate(record: Record, hash_range: tuple[str, str] | None) -> list[Record]:
    """The sub-records of an aggregate, in order, or the record itself.

    Args:
        record: As the wire has it.
        hash_range: The shard's first and last hash key, both inclusive, as decimal text; None judges
            nothing.

    Returns:
        For a plain record that very object. For a sound aggregate all its sub-records, with its sequence
        number and arrival; `sub_sequence_number` counts them from 0, and those outside the shard's range have
        the error `OUTSIDE_HASH_RANGE`, unless the record has no partition key. For anything else that begins
        as an aggregate one record: it, with an error.
    """
    return list(chain.from_iterable(sliced(record, hash_range)))


def sliced(record: Record, hash_range: tuple[str, str] | None) -> Iterator[Sequence[Record]]:
    """What `deaggregate` gives, in lists of at most `SLICE`, of which none is empty."""
    if not is_aggregate(record):
        yield [record]
        return
    try:
        message = _message(record.data)
        taking = _sub_records(record, message, hash_range)
        first = list(islice(taking, SLICE))
        if len(first) < len(message.records):
            # What is unsound further on makes the whole of it unsound, so it is all looked at first.
            for _ in taking:
                pass
            taking = _sub_records(record, message, hash_range)
    except _Unsound as unsound:
        yield [msgspec.structs.replace(record, error=f"aggregate: {unsound}")]
        return
    if len(first) == len(message.records):
        yield first
        return
    del first
    while part := list(islice(taking, SLICE)):
        yield part


def _message(data: bytes) -> Any:
    """The message in an aggregate's data, whole and with all required fields."""
    if len(data) < len(MAGIC) + _MD5_BYTES:
        raise _Unsound(f"too short: {len(data)} bytes")
    body = data[len(MAGIC) : -_MD5_BYTES]
    if _md5(body) != data[-_MD5_BYTES:]:
        raise _Unsound("its MD5 does not match")
    try:
        message = AggregatedRecord.FromString(body)
    except DecodeError:
        raise _Unsound("its protobuf does not parse") from None
    if not message.IsInitialized():
        raise _Unsound("its protobuf lacks a required field")
    if not message.records:
        raise _Unsound("no sub-record in it")
    return message


def _sub_records(record: Record, message: Any, hash_range: tuple[str, str] | None) -> Iterator[Record]:
    if hash_range is None or record.partition_key is None:
        first, last = _ALL_HASH_KEYS
    else:
        first, last = (int(text).to_bytes(_HASH_KEY_BYTES, "big") for text in hash_range)

    def judged(hash_key: bytes) -> str | None:
        return None if first <= hash_key <= last else OUTSIDE_HASH_RANGE

    # Each key of the tables is decoded and judged once, however many sub-records have it; a partition key is
    # hashed only where no explicit hash key stands for it.
    table = message.partition_key_table
    keys = _texts(table)
    all_inside = (first, last) == _ALL_HASH_KEYS
    key_errors = [None if all_inside else _NOT_JUDGED] * len(keys)
    explicit_errors = [judged(_hash_key(key)) for key in message.explicit_hash_key_table]

    sequence_number = record.sequence_number
    arrival = record.approximate_arrival_timestamp
    number = 0
    try:
        for number, sub in enumerate(message.records):  # told below
            index = sub.partition_key_index
            if sub.HasField("explicit_hash_key_index"):
                error = explicit_errors[sub.explicit_hash_key_index]
            else:
                error = key_errors[index]
                if error is _NOT_JUDGED:
                    error = key_errors[index] = judged(_md5(table[index]))
            yield Record(sequence_number, arrival, sub.data, keys[index], number, error)
    except IndexError:
        raise _Unsound(f"sub-record {number} has an index beyond its table of keys") from None


def _texts(table: Iterable[bytes]) -> list[str]:
    try:
        keys = [key.decode() for key in table]
    except UnicodeDecodeError:
        raise _Unsound("a partition key is not UTF-8") from None
    if any(len(key) > _KEY_CHARACTERS for key in keys):
        raise _Unsound(f"a partition key has more than {_KEY_CHARACTERS} characters")
    return keys


def _hash_key(decimal: bytes) -> bytes:
    """An explicit hash key as big-endian bytes: they compare as the numbers do, and with MD5s."""
    number = int(decimal) if decimal.isdigit() and len(decimal) <= _HASH_KEY_DIGITS else -1
    try:
        return number.to_bytes(_HASH_KEY_BYTES, "big")
    except OverflowError:
        raise _Unsound("an explicit hash key is not a decimal number from 0 to 2^128-1") from None


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()
