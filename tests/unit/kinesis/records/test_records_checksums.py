"""The checksum of records is the sum of their checksums, computed by columns or one by one."""

from __future__ import annotations

import random
import sys
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinesis_assets.kinesis.position import LONGEST_NUMBER
from kinesis_assets.kinesis.records import records as checksums_module
from kinesis_assets.kinesis.records.records import Record, Records, checksum, checksums

AWS_DIGITS = 56


@pytest.fixture(autouse=True, scope="module", params=[0, sys.maxsize], ids=["by columns", "one by one"])
def _method(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums_module, "_SMALL_COUNT", request.param)
        yield


def plain(numbers):
    count = len(numbers)
    return Records(numbers, [0.0] * count, [b""] * count, ["k"] * count)


def one_by_one(records):
    return sum(checksum(record) for record in records)


def numbers_of(digits):
    return st.integers(10 ** (digits - 1), 10**digits - 1).map(str)


def test_the_checksum_of_a_record_is_the_crc_of_its_number_and_sub_sequence_number():
    assert checksum(Record("495", 0.0, b"", "k", 7)) == crc32(b"495:7")


def test_the_checksum_of_no_records_is_0():
    assert checksums(plain([])) == 0


@given(
    st.integers(1, LONGEST_NUMBER).flatmap(lambda digits: st.lists(numbers_of(digits), min_size=1)),
)
def test_the_checksum_of_numbers_of_one_length_is_the_sum_of_their_checksums(numbers):
    assert checksums(plain(numbers)) == one_by_one(plain(numbers))


@given(st.lists(st.integers(0, 10**LONGEST_NUMBER - 1).map(str), min_size=1))
def test_the_checksum_of_numbers_of_any_length_is_the_sum_of_their_checksums(numbers):
    assert checksums(plain(numbers)) == one_by_one(plain(numbers))


def test_every_digit_at_every_position_counts():
    base = "1" * LONGEST_NUMBER
    for place in range(LONGEST_NUMBER):
        numbers = [base, *(f"{base[:place]}{digit}{base[place + 1 :]}" for digit in "23456789")]
        assert checksums(plain(numbers)) == one_by_one(plain(numbers))


def test_the_checksum_of_a_full_page_exceeds_32_bits():
    digits = random.Random(5)
    records = plain([str(digits.randrange(10 ** (AWS_DIGITS - 1), 10**AWS_DIGITS)) for _ in range(10_000)])
    assert checksums(records) == one_by_one(records) > 1 << 32


def test_the_checksum_of_sub_records_includes_their_sub_sequence_numbers():
    records = Records.of([Record("495", 0.0, b"", "k", sub) for sub in range(12)])
    assert checksums(records) == sum(crc32(f"495:{sub}".encode()) for sub in range(12))


def test_a_slice_of_a_page_has_its_own_checksum():
    page = plain(["495", "496", "497"])
    checksums(page)
    assert checksums(page[1:]) == crc32(b"496:0") + crc32(b"497:0")
