"""Partition values, as tasks compute them, compared with those of pyiceberg and the specification."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from kinesis_assets.table.partition_field import PartitionField
from kinesis_assets.table.transforms import TIME_UNITS, partition_texts

_RANDOM = random.Random(44)
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # the years 1 to 9999
_DAYS = (-719_162, 2_932_896)


def several(value):
    """Return random values."""
    return [value() for _ in range(200)]


_TIMES = [0, -1, -86_400_000_000, *several(lambda: _RANDOM.randint(*_MICROSECONDS))]
_NUMBERS = [0, -1, *several(lambda: _RANDOM.randint(-(2**62), 2**62) >> _RANDOM.randint(0, 62))]
_TEXTS = ["", "a", *several(lambda: "".join(_RANDOM.choices("aß漢\U0001f600", k=_RANDOM.randint(0, 20))))]
_DECIMALS = [
    Decimal((_RANDOM.randint(0, 1), tuple(_RANDOM.choices(range(10), k=digits)), -2))
    for digits in range(1, 37)
    for _ in range(6)
]

VALUES = {
    "integer": (IntegerType(), pa.int32(), [number % 2**31 - 2**30 for number in _NUMBERS]),
    "long": (LongType(), pa.int64(), _NUMBERS),
    "date": (DateType(), pa.date32(), [0, -1, -366, *several(lambda: _RANDOM.randint(*_DAYS))]),
    "timestamptz": (TimestamptzType(), pa.timestamp("us", "UTC"), _TIMES),
    "timestamp": (TimestampType(), pa.timestamp("us"), _TIMES),
    "string": (StringType(), pa.string(), _TEXTS),
    "binary": (BinaryType(), pa.binary(), several(lambda: _RANDOM.randbytes(_RANDOM.randint(0, 20)))),
    "decimal": (DecimalType(38, 2), pa.decimal128(38, 2), _DECIMALS),
}
"""Of each type the values as pyiceberg takes them: times as numbers since 1970."""

_OF_TIMES = ["date", "timestamptz", "timestamp"]
_TRUNCATED = ["integer", "long", "string", "binary", "decimal"]


def read(field, kind, text):
    """Return a partition value as pyiceberg has it."""
    if text is None or (kind == "string" and field.transform == "truncate"):
        return text
    if field.transform in TIME_UNITS:
        return int(np.datetime64(text, TIME_UNITS[field.transform]).astype(np.int64))
    if field.transform == "bucket":
        return int(text)
    return {"binary": bytes.fromhex, "decimal": Decimal}.get(kind, int)(text)


@pytest.mark.parametrize(
    ("transform", "kinds"),
    [
        ("year", _OF_TIMES),
        ("month", _OF_TIMES),
        ("day", _OF_TIMES),
        ("hour", _OF_TIMES[1:]),
        ("bucket", VALUES),
        ("truncate", _TRUNCATED),
    ],
)
def test_values_are_those_of_pyiceberg(transform, kinds):
    for kind in kinds:
        for size in (1, 7, 100) if transform in ("bucket", "truncate") else (None,):
            field = PartitionField("x", transform, size)
            iceberg, arrow, values = VALUES[kind]
            expected = parse_transform(transform if size is None else f"{transform}[{size}]").transform(
                iceberg
            )
            texts = partition_texts(field, pa.array([*values, None], arrow)).to_pylist()
            assert texts.pop() is None
            assert [read(field, kind, text) for text in texts] == [expected(value) for value in values]


@pytest.mark.parametrize(
    ("value", "kind", "hashed"),
    [
        (34, pa.int32(), 2017239379),
        (34, pa.int64(), 2017239379),
        (Decimal("14.20"), pa.decimal128(9, 2), -500754589),
        (date(2017, 11, 16), pa.date32(), -653330422),
        (1510871468000000, pa.timestamp("us"), -2047944441),
        (datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC), pa.timestamp("us", "UTC"), -2047944441),
        ("iceberg", pa.string(), 1210000089),
        (bytes(range(4)), pa.binary(), -188683207),
    ],
    ids=str,
)
def test_buckets_are_by_the_hashes_in_the_specification(value, kind, hashed):
    count = 2**29 - 1
    (text,) = partition_texts(PartitionField("x", "bucket", count), pa.array([value], kind)).to_pylist()
    assert int(text) == (hashed & 0x7FFFFFFF) % count


def test_values_of_a_part_of_an_array_are_those_of_its_values():
    field, texts = PartitionField("x", "bucket", 16), pa.array([None, *_TEXTS])
    assert partition_texts(field, texts[5:50]).equals(partition_texts(field, texts)[5:50])


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_times_that_python_does_not_have_get_values_too(transform):
    field = PartitionField("x", transform)
    texts = partition_texts(field, pa.array([-(2**60), 2**60], pa.int64()).cast(pa.timestamp("us")))
    hours = [read(field, "timestamp", text.as_py()) for text in texts]
    unit = TIME_UNITS[transform]
    assert (
        hours
        == np.array([-(2**60), 2**60], "datetime64[us]").astype(f"datetime64[{unit}]").astype(int).tolist()
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [(-(2**31), pa.int32()), (-(2**63), pa.int64()), (Decimal("-999.99"), pa.decimal128(5, 2))],
    ids=str,
)
def test_a_number_that_truncation_makes_too_small_for_its_type_is_refused(value, kind):
    with pytest.raises(ValueError, match=rf"truncate\(7, x\) cannot be that of {value}"):
        partition_texts(PartitionField("x", "truncate", 7), pa.array([value], kind))
