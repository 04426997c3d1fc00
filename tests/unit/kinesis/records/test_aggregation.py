"""KPL aggregates: a valid one is split into its sub-records, a damaged one stays one marked record."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from google.protobuf import descriptor_pool
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.records import aggregation
from kinesis_assets.kinesis.records.aggregation import (
    MAGIC,
    OUTSIDE_HASH_RANGE,
    any_aggregate,
    deaggregate,
    is_aggregate,
    is_damaged,
)
from kinesis_assets.kinesis.records.record import Record, Records
from kinesis_assets.testing.aggregate import UserRecord, aggregate

ALL_KEYS = ("0", str(2**128 - 1))
NOT_UTF_8 = b"\x00\xff\xfe"
BY_EXAMPLE = settings(derandomize=True)

user_records = st.lists(
    st.builds(
        UserRecord,
        st.text(max_size=5),
        st.binary(max_size=20),
        st.none() | st.integers(0, 2**128 - 1).map(str),
    ),
    min_size=1,
    max_size=20,
)


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


def deaggregated(data: bytes, hash_range: tuple[str, str] = ALL_KEYS) -> list[tuple[str, bytes, str | None]]:
    rows = deaggregate(record_of(data), hash_range)
    return [(row.partition_key, row.data, row.error) for row in rows]


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
EXPLICIT = "an explicit hash key is not a decimal number from 0 to 2^128-1"
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
    "explicit key empty": (sealed(VALID + chunk(2, b"")), EXPLICIT),
    "explicit key negative": (sealed(VALID + chunk(2, b"-1")), EXPLICIT),
    "explicit key with sign": (sealed(VALID + chunk(2, b"+1")), EXPLICIT),
    "explicit key with space": (sealed(VALID + chunk(2, b" 1")), EXPLICIT),
    "explicit key grouped": (sealed(VALID + chunk(2, b"1_0")), EXPLICIT),
    "explicit key in other digits": (sealed(VALID + chunk(2, "٣".encode())), EXPLICIT),
    "explicit key hexadecimal": (sealed(VALID + chunk(2, b"ff")), EXPLICIT),
    "explicit key 2^128": (sealed(VALID + chunk(2, str(2**128).encode())), EXPLICIT),
    "explicit key of very many digits": (sealed(VALID + chunk(2, b"1" * 5000)), EXPLICIT),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED.keys())
@pytest.mark.parametrize("hash_range", [ALL_KEYS, ("0", "9")], ids=["all keys", "few keys"])
def test_a_damaged_aggregate_stays_one_record_with_its_bytes_and_the_reason(data, reason, hash_range):
    record = record_of(data)
    (back,) = deaggregate(record, hash_range)
    assert back == with_error(record, f"aggregate: {reason}")
    assert is_damaged(back.error)


def test_a_sub_record_outside_the_hash_range_is_marked_and_the_others_are_not():
    records = [UserRecord("k", b"%d" % value, str(value)) for value in (9, 10, 0, 20, 21)]
    rows = deaggregate(record_of(aggregate(records)), ("10", "20"))
    assert [(row.sub_sequence_number, row.data, row.error) for row in rows] == [
        (0, b"9", OUTSIDE_HASH_RANGE),
        (1, b"10", None),
        (2, b"0", OUTSIDE_HASH_RANGE),
        (3, b"20", None),
        (4, b"21", OUTSIDE_HASH_RANGE),
    ]
    assert not any(is_damaged(row.error) for row in rows)


def test_hash_keys_compare_as_numbers():
    records = [UserRecord("k", b"", value) for value in ("9", "100", "007", "0" * 38 + "8", str(2**128 - 1))]
    errors = [error for _, _, error in deaggregated(aggregate(records), ("8", "99"))]
    assert errors == [None, OUTSIDE_HASH_RANGE, OUTSIDE_HASH_RANGE, None, OUTSIDE_HASH_RANGE]


@pytest.mark.parametrize(
    ("key", "md5"),  # according to md5sum
    [
        ("a", 0x0CC175B9C0F1B6A831C399E269772661),
        ("message digest", 0xF96B697D7CB7938D525A2F31AAF161D0),
        ("é", 0x66DDCD97CFDEABB2F6FB8A999B4BC76F),
    ],
)
def test_without_explicit_hash_key_the_md5_of_the_partition_key_counts(key, md5):
    data = aggregate([UserRecord(key, b"x")])
    assert deaggregated(data, (str(md5), str(md5))) == [(key, b"x", None)]
    assert deaggregated(data, (str(md5 + 1), ALL_KEYS[1])) == [(key, b"x", OUTSIDE_HASH_RANGE)]
    assert deaggregated(data, ("0", str(md5 - 1))) == [(key, b"x", OUTSIDE_HASH_RANGE)]


def test_an_explicit_hash_key_overrides_the_hash_of_the_partition_key():
    records = [UserRecord("a", b"explicit", "5"), UserRecord("a", b"own")]
    errors = [error for _, _, error in deaggregated(aggregate(records), ("0", "9"))]
    assert errors == [None, OUTSIDE_HASH_RANGE]


@pytest.mark.parametrize(
    ("hash_range", "hashed"),
    [(ALL_KEYS, []), (("0", str(2**128 - 2)), [b"a", b"b"]), (("1", "9"), [b"a", b"b"])],
)
def test_each_partition_key_is_hashed_once_and_never_for_a_range_of_all_keys(monkeypatch, hash_range, hashed):
    data = aggregate(UserRecord("ab"[place % 2], b"x") for place in range(10))
    seen = []
    md5 = aggregation._md5
    monkeypatch.setattr(aggregation, "_md5", lambda payload: seen.append(payload) or md5(payload))
    deaggregate(record_of(data), hash_range)
    assert seen == [data[4:-16], *hashed]


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
    with pytest.raises(InvalidInput, match="at least one record"):
        aggregate([])


@BY_EXAMPLE
@given(user_records, st.tuples(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1)).map(sorted))
def test_deaggregation_returns_the_records_that_were_aggregated(records, bounds):
    def expected_error(record: UserRecord) -> str | None:
        digest = hashlib.md5(record.partition_key.encode()).hexdigest()  # noqa: S324  # the format's own
        hash_key = int(digest, 16) if record.explicit_hash_key is None else int(record.explicit_hash_key)
        return None if bounds[0] <= hash_key <= bounds[1] else OUTSIDE_HASH_RANGE

    carrier = record_of(aggregate(records))
    assert deaggregate(carrier, (str(bounds[0]), str(bounds[1]))) == [
        Record(
            carrier.sequence_number,
            carrier.approximate_arrival_timestamp,
            record.data,
            record.partition_key,
            place,
            expected_error(record),
        )
        for place, record in enumerate(records)
    ]


@BY_EXAMPLE
@given(user_records, st.data())
def test_an_aggregate_with_one_changed_byte_stays_one_record(records, draw):
    data = bytearray(aggregate(records))
    place = draw.draw(st.integers(0, len(data) - 1))
    data[place] ^= draw.draw(st.integers(1, 255))
    record = record_of(bytes(data))
    (back,) = deaggregate(record, ALL_KEYS)
    if place < len(MAGIC):
        assert back is record
    else:
        assert back == with_error(record, "aggregate: its MD5 does not match")


@BY_EXAMPLE
@given(st.binary(max_size=60), st.booleans())
def test_bytes_that_are_not_an_aggregate_are_returned_unchanged(tail, magic):
    record = record_of(MAGIC + tail if magic else tail)
    (back,) = deaggregate(record, ALL_KEYS)
    assert back.data == record.data
    assert is_damaged(back.error) is is_aggregate(record)


@BY_EXAMPLE
@given(user_records, st.data())
def test_any_protobuf_with_a_correct_md5_is_deaggregated_completely_or_not_at_all(records, draw):
    body = bytearray(aggregate(records)[4:-16])
    for place in draw.draw(st.lists(st.integers(0, len(body) - 1), max_size=3)):
        body[place] = draw.draw(st.integers(0, 255))
    record = record_of(sealed(bytes(body)))
    rows = deaggregate(record, ("0", str(2**127)))
    if is_damaged(rows[0].error):
        assert rows == [with_error(record, rows[0].error)]
        return
    message = aggregation.AggregatedRecord.FromString(bytes(body))
    assert [(row.sub_sequence_number, row.data) for row in rows] == [
        (place, sub.data) for place, sub in enumerate(message.records)
    ]
    assert {(row.sequence_number, row.approximate_arrival_timestamp) for row in rows} == {
        (record.sequence_number, record.approximate_arrival_timestamp)
    }
    assert {row.error for row in rows} <= {None, OUTSIDE_HASH_RANGE}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ([], False),
        ([b""], False),
        ([b"x", b""], False),
        ([b"", MAGIC], True),
        ([MAGIC, b""], True),
        ([b"a" + MAGIC], False),
        ([MAGIC[:1], b""], False),
    ],
)
def test_an_aggregate_is_found_among_empty_records(data, found):
    assert any_aggregate(Records.of([Record("1", 1.0, each, "k") for each in data])) is found
