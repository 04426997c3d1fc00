"""Deaggregation of any bytes."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinesis_assets.kinesis.records import aggregation
from kinesis_assets.kinesis.records.aggregation import (
    INVALID_HASH_KEY,
    MAGIC,
    OUTSIDE_HASH_RANGE,
    any_aggregate,
    is_aggregate,
    is_damaged,
)
from kinesis_assets.kinesis.records.records import Record, Records
from kinesis_assets.testing.kit import UserRecord, aggregate
from support.aggregates import deaggregate, record_of, sealed, with_error
from support.one_shard import ALL_KEYS

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


@pytest.mark.slow
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
@pytest.mark.slow
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
    if rows[0].error not in {None, OUTSIDE_HASH_RANGE, INVALID_HASH_KEY}:
        assert rows == [with_error(record, rows[0].error)]
        return
    message = aggregation.AggregatedRecord.FromString(bytes(body))
    assert [(row.sub_sequence_number, row.data) for row in rows] == [
        (place, sub.data) for place, sub in enumerate(message.records)
    ]
    assert {(row.sequence_number, row.approximate_arrival_timestamp) for row in rows} == {
        (record.sequence_number, record.approximate_arrival_timestamp)
    }
    assert {row.error for row in rows} <= {None, OUTSIDE_HASH_RANGE, INVALID_HASH_KEY}


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
