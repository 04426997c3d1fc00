"""Deaggregation and aggregation, by example."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pool

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.records import aggregation
from kinesis_assets.kinesis.records.aggregation import (
    MAGIC,
    is_aggregate,
    is_damaged,
)
from kinesis_assets.kinesis.records.records import Record
from kinesis_assets.testing.kit import UserRecord, aggregate
from support.aggregates import (
    chunk,
    deaggregate,
    deaggregated,
    number,
    record_of,
    sealed,
    sub_record,
    with_error,
)
from support.one_shard import ALL_KEYS

NOT_UTF_8 = b"\x00\xff\xfe"


@pytest.mark.parametrize(
    "data", [b"", NOT_UTF_8, MAGIC[:3], b"\x00" + MAGIC, b'{"a": 1}'], ids=lambda data: data.hex()
)
def test_a_plain_record_is_returned_as_the_same_object(data):
    record = record_of(data)
    (back,) = deaggregate(record, ALL_KEYS)
    assert back is record
    assert not is_aggregate(record)
    assert not is_damaged(back.error)


def test_a_record_that_begins_with_the_magic_number_is_an_aggregate():
    assert is_aggregate(record_of(MAGIC))
    assert is_aggregate(record_of(aggregate([UserRecord("k", b"x")])))


def test_sub_records_keep_their_order_and_have_the_aggregates_sequence_number_and_arrival():
    body = chunk(1, b"k0") + chunk(1, "ключ".encode())
    body += sub_record(1, b"first") + sub_record(0, b"") + sub_record(1, b"third")
    record = record_of(sealed(body))
    sequence, arrival = record.sequence_number, record.approximate_arrival_timestamp
    assert deaggregate(record, ALL_KEYS) == [
        Record(sequence, arrival, b"first", "ключ", 0, None),
        Record(sequence, arrival, b"", "k0", 1, None),
        Record(sequence, arrival, b"third", "ключ", 2, None),
    ]


def test_an_aggregate_of_another_implementation_is_deaggregated():
    made = bytes.fromhex(  # by aws_kinesis_agg 1.2.3
        "f3899ac20a0a637573746f6d65722d310a0cd0bad0bbd0b8d0b5d0bdd182122733343032383233363639323039333834"
        "36333436333337343630373433313736383231313435351a0908001a0566697273741a09080110001a0300fffe1a0408"
        "001a00c9b889e10ab5fe3f580ea66856eb0252"
    )
    records = [
        UserRecord("customer-1", b"first"),
        UserRecord("клиент", NOT_UTF_8, str(2**128 - 1)),
        UserRecord("customer-1", b""),
    ]
    assert deaggregated(made) == [(record.partition_key, record.data, None) for record in records]
    assert aggregate(records) == made


def test_a_partition_key_of_the_maximum_length_is_valid():
    key = "é" * 256
    assert deaggregated(aggregate([UserRecord(key, b"x")])) == [(key, b"x", None)]


def test_fields_in_any_order_tags_and_unknown_fields_are_accepted():
    tag = chunk(4, chunk(1, b"name") + chunk(2, NOT_UTF_8))
    unknown = number(15, 2**64 - 1) + chunk(2000, b"later version")
    first = chunk(3, chunk(3, b"first") + tag + number(2, 0) + unknown + number(1, 1) + tag)
    body = first + unknown + chunk(1, b"k0") + chunk(2, b"7") + sub_record(0, b"second") + chunk(1, b"k1")
    assert deaggregated(sealed(body)) == [("k1", b"first", None), ("k0", b"second", None)]


@pytest.mark.parametrize("data", [NOT_UTF_8, MAGIC, aggregate([UserRecord("inner", b"x")])])
def test_the_payload_of_a_sub_record_is_unchanged(data):
    assert deaggregated(sealed(chunk(1, b"k") + sub_record(0, data))) == [("k", data, None)]


VALID = chunk(1, b"k") + sub_record(0, b"valid")
DAMAGED = {
    "only the magic number": (MAGIC, "too short: 4 bytes"),
    "one byte short of an MD5": (MAGIC + bytes(15), "too short: 19 bytes"),
    "wrong MD5": (sealed(VALID)[:-1] + b"\x00", "its MD5 does not match"),
    "truncated": (sealed(VALID)[:-1], "its MD5 does not match"),
    "trailing byte": (sealed(VALID) + b"\n", "its MD5 does not match"),
    "not protobuf": (sealed(VALID + b"\x1a"), "its protobuf does not parse"),
    "no data": (sealed(VALID + chunk(3, number(1, 0))), "its protobuf lacks a required field"),
    "data of another type": (
        sealed(VALID + chunk(3, number(1, 0) + number(3, 0))),
        "its protobuf lacks a required field",
    ),
    "no key index": (sealed(VALID + chunk(3, chunk(3, b"x"))), "its protobuf lacks a required field"),
    "tag without key": (
        sealed(VALID + chunk(3, number(1, 0) + chunk(3, b"x") + chunk(4, b""))),
        "its protobuf lacks a required field",
    ),
    "empty": (sealed(b""), "no sub-record in it"),
    "only keys": (sealed(chunk(1, b"k")), "no sub-record in it"),
    "key beyond its table": (
        sealed(VALID + sub_record(1, b"x")),
        "sub-record 1 has an index beyond its table of keys",
    ),
    "key far beyond its table": (
        sealed(VALID + sub_record(2**64 - 1, b"x")),
        "sub-record 1 has an index beyond its table of keys",
    ),
    "explicit key without a table": (
        sealed(VALID + sub_record(0, b"x", explicit=0)),
        "sub-record 1 has an index beyond its table of keys",
    ),
    "key beyond its table by 2^32": (
        sealed(VALID + sub_record(2**32, b"x")),
        "sub-record 1 has an index beyond its table of keys",
    ),
    "explicit key beyond its table by 2^32": (
        sealed(chunk(2, b"7") + VALID + sub_record(0, b"x", explicit=2**32)),
        "sub-record 1 has an index beyond its table of keys",
    ),
    "explicit key far beyond its table": (
        sealed(chunk(2, b"7") + VALID + sub_record(0, b"x", explicit=2**64 - 1)),
        "sub-record 1 has an index beyond its table of keys",
    ),
    "key not UTF-8": (sealed(VALID + chunk(1, NOT_UTF_8)), "a partition key is not UTF-8"),
    "key with a surrogate": (sealed(VALID + chunk(1, b"\xed\xa0\x80")), "a partition key is not UTF-8"),
    "key longer than a record's may be": (
        sealed(VALID + chunk(1, "é".encode() * 257)),
        "a partition key has more than 256 characters",
    ),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("hash_range", [ALL_KEYS, ("0", "9")], ids=["all keys", "few keys"])
def test_a_damaged_aggregate_stays_one_record_with_its_bytes_and_the_reason(data, reason, hash_range):
    record = record_of(data)
    (back,) = deaggregate(record, hash_range)
    assert back == with_error(record, f"aggregate: {reason}")
    assert is_damaged(back.error)


def test_the_message_type_is_not_in_the_default_protobuf_pool():
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName(aggregation.AggregatedRecord.DESCRIPTOR.full_name)


def test_an_aggregate_is_written_in_the_wire_format_with_each_key_once():
    records = [
        UserRecord("a", b"1"),
        UserRecord("é", NOT_UTF_8, "7"),
        UserRecord("a", b"", "8"),
        UserRecord("c", b"4", "7"),
        UserRecord("c", b"5", ""),  # invalid, but written nevertheless: tests need damaged aggregates
    ]
    keys = (
        chunk(1, b"a")
        + chunk(1, "é".encode())
        + chunk(1, b"c")
        + chunk(2, b"7")
        + chunk(2, b"8")
        + chunk(2, b"")
    )
    subs = sub_record(0, b"1") + sub_record(1, NOT_UTF_8, 0) + sub_record(0, b"", 1) + sub_record(2, b"4", 0)
    subs += sub_record(2, b"5", 2)
    assert aggregate(iter(records)) == sealed(keys + subs)


def test_an_aggregate_without_records_is_invalid_input():
    with pytest.raises(InvalidInput, match="one record"):
        aggregate([])
