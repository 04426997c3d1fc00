"""Sub-records whose hash keys are in another shard's range."""

from __future__ import annotations

import pytest

from kinesis_assets.kinesis.records import aggregation
from kinesis_assets.kinesis.records.aggregation import (
    INVALID_HASH_KEY,
    OUTSIDE_HASH_RANGE,
    is_damaged,
)
from kinesis_assets.testing.kit import UserRecord, aggregate
from support.aggregates import deaggregate, deaggregated, record_of
from support.one_shard import ALL_KEYS


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


INVALID = {
    "empty": "",
    "negative": "-1",
    "with a sign": "+1",
    "with a space": " 1",
    "grouped": "1_0",
    "in other digits": "\N{ARABIC-INDIC DIGIT THREE}",
    "hexadecimal": "ff",
    "2^128": str(2**128),
    "of very many digits": "1" * 5000,
}


@pytest.mark.parametrize("key", INVALID.values(), ids=INVALID.keys())
def test_an_invalid_explicit_hash_key_damages_only_its_sub_record(key):
    data = aggregate([UserRecord("k", b"before", "7"), UserRecord("k", b"x", key), UserRecord("k", b"", "8")])
    before, damaged, after = deaggregate(record_of(data), ("7", "8"))
    assert (before.error, after.error, damaged.data) == (None, None, b"x")
    assert damaged.error == INVALID_HASH_KEY
    assert is_damaged(damaged.error)


@pytest.mark.parametrize("hash_range", [None, ALL_KEYS])
def test_an_invalid_explicit_hash_key_is_not_an_error_where_hash_keys_do_not_matter(hash_range):
    (row,) = deaggregate(record_of(aggregate([UserRecord("k", b"x", "ff")])), hash_range)
    assert (row.data, row.error) == (b"x", None)


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
