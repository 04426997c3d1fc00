"""Values of Debezium are those of the database, or have an error with the path of what does not fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kinesis_assets.decoders.debezium import Debezium
from support.database_changes import rows_of
from support.spark_types import spark_type

MOMENT = datetime(2026, 5, 6, 7, 8, 9, 123_456, tzinfo=UTC)
LOCAL = datetime(2026, 5, 6, 7, 8, 9, 123_456)  # noqa: DTZ001
DAY = date(2026, 5, 6)
MILLISECONDS = MOMENT.replace(microsecond=123_000)
OF_MILLISECONDS = {"type": "int64", "name": "io.debezium.time.Timestamp"}
OF_MICROSECONDS = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}
OF_NANOSECONDS = {"type": "int64", "name": "io.debezium.time.NanoTimestamp"}
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "3"}}
NOT_BASE64 = "not base64 of an integer, as decimal.handling.mode=precise writes it"
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "fields": []}


def value(ddl, content, schema=None):
    """Return the decoded value of a column, or the reason why it cannot be decoded."""
    document = {"op": "c", "after": {"a": content}, "source": {}}
    if schema is not None:
        row = {"field": "after", "type": "struct", "fields": [{"field": "a", **schema}]}
        document = {"schema": {"type": "struct", "fields": [row]}, "payload": document}
    [row] = rows_of(Debezium(spark_type(f"a {ddl}")), document)
    return row if isinstance(row, str) else row.get("a")


@pytest.mark.parametrize(
    ("ddl", "content", "expected"),
    [
        ("decimal(10,2)", "BNI=", Decimal("12.34")),
        ("decimal(10,2)", "+y4=", Decimal("-12.34")),
        ("decimal(10,2)", "AA==", Decimal("0.00")),
        ("decimal(10,0)", "1234", Decimal(-2658824)),
        ("decimal(38,2)", "CUmw9vACMxPESZBQ3jjzTg==", Decimal("123456789012345678901234567890123456.78")),
        ("decimal(10,2)", 12.34, Decimal("12.34")),
        ("decimal(10,2)", 12, Decimal("12.00")),
        ("decimal(10,2)", {"scale": 1, "value": "ew=="}, Decimal("12.30")),
        ("decimal(10,2)", {"scale": -2, "value": "AQ=="}, Decimal("100.00")),
        ("array<decimal(10,2)>", ["BNI=", None], [Decimal("12.34"), None]),
        ("double", 0.1, 0.1),
        ("date", 20579, DAY),
        ("date", -719162, date(1, 1, 1)),
        ("date", "2026-05-06", DAY),
        ("date", "2026-05-06Z", DAY),
        ("timestamp", 1778051289123456, MOMENT),
        ("timestamp", -1, datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("timestamp", "2026-05-06T07:08:09.123456Z", MOMENT),
        ("timestamp", "2026-05-06T09:08:09.123456999+02:00", MOMENT),
        ("timestamp_ntz", 1778051289123456, LOCAL),
        ("timestamp_ntz", "2026-05-06T07:08:09.123456", LOCAL),
        ("timestamp_ntz", "2026-05-06T07:08:09.123456Z", LOCAL),
        ("array<timestamp>", [1778051289123456], [MOMENT]),
        ("struct<d: date, t: timestamp>", {"d": 20579, "t": 1778051289123456}, {"d": DAY, "t": MOMENT}),
        ("long", 1778051289123456, 1778051289123456),
        ("binary", "aGk=", b"hi"),
        ("string", "2026-05-06", "2026-05-06"),
        ("boolean", True, True),
        ("variant", {"b": 1}, '{"b":1}'),
    ],
)  # fmt: skip
def test_values_without_a_schema(ddl, content, expected):
    assert value(ddl, content) == expected


@pytest.mark.parametrize(
    ("ddl", "content", "schema", "expected"),
    [
        ("timestamp", 1778051289123, OF_MILLISECONDS, MILLISECONDS),
        ("timestamp", 1778051289123456, OF_MICROSECONDS, MOMENT),
        ("timestamp", 1778051289123456999, OF_NANOSECONDS, MOMENT),
        ("timestamp_ntz", 1778051289123456999, OF_NANOSECONDS, LOCAL),
        (
            "timestamp",
            1778051289123,
            {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
            MILLISECONDS,
        ),
        (
            "array<timestamp>",
            [1778051289123],
            {"type": "array", "items": OF_MILLISECONDS},
            [MILLISECONDS],
        ),
        ("timestamp", 1778051289123456, {"type": "int64", "name": ["unknown"]}, MOMENT),
        ("date", 20579, {"type": "int32", "name": "io.debezium.time.Date"}, DAY),
        ("decimal(10,3)", "BNI=", DECIMAL, Decimal("1.234")),
        ("decimal(10,5)", "BNI=", DECIMAL, Decimal("1.23400")),
        ("array<decimal(10,3)>", ["BNI="], {"type": "array", "items": DECIMAL}, [Decimal("1.234")]),
        ("decimal(10,2)", "1234", {"type": "string"}, Decimal("1234.00")),
        ("decimal(10,2)", "-0.5", {"type": "string"}, Decimal("-0.50")),
        ("decimal(10,2)", 12.5, {"type": "double"}, Decimal("12.50")),
        ("decimal(10,2)", {"scale": 1, "value": "ew=="}, VARIABLE, Decimal("12.30")),
    ],
)  # fmt: skip
def test_values_with_a_schema(ddl, content, schema, expected):
    assert value(ddl, content, schema) == expected


@pytest.mark.parametrize(
    ("ddl", "content", "reason"),
    [
        ("decimal(4,2)", "AYag", "'1000.00' is not a decimal(4,2)"),
        ("decimal(10,2)", "12.34", f"'12.34' is {NOT_BASE64}"),
        ("decimal(10,2)", "", f"'' is {NOT_BASE64}"),
        ("decimal(10,2)", {"value": "ew=="}, "Expected an object with `scale` and `value`"),
        ("decimal(10,2)", {"scale": 1}, f"'None' is {NOT_BASE64}"),
        ("decimal(10,2)", {"scale": 3, "value": "BNI="}, "'1.234' is not a decimal(10,2)"),
        ("decimal(10,2)", {"scale": -999999999, "value": "AQ=="}, "'1E+999999999' is not a decimal(10,2)"),
        ("decimal(10,2)", {"scale": 10**30, "value": "AQ=="}, "Number out of range"),
        ("decimal(10,2)", True, "Expected `decimal`, got `bool`"),
        ("date", 2932897, "2932897 is out of range"),
        ("date", -719163, "-719163 is out of range"),
        ("date", 1 << 80, f"{1 << 80} is out of range"),
        ("date", "2026-02-30", "Invalid RFC3339 encoded date"),
        ("date", True, "Expected `date`, got `bool`"),
        ("timestamp", 9223372036825200000, "9223372036825200000 is out of range"),
        ("timestamp", -9223372036832400000, "-9223372036832400000 is out of range"),
        ("timestamp", "infinity", "Invalid RFC3339 encoded datetime"),
        ("timestamp", "2026-05-06T07:08:09", "Expected `datetime` with a timezone component"),
        ("timestamp", 1.5, "Expected `datetime`, got `decimal`"),
        ("timestamp", True, "Expected `datetime`, got `bool`"),
        ("timestamp_ntz", "2026-05-06T07:08:09+02:00", "Expected `datetime` with no timezone component"),
        ("int", "1", "Expected `int | null`, got `str`"),
        ("string", 1, "Expected `str | null`, got `int`"),
        ("array<date>", [0, "x"], "Invalid RFC3339 encoded date"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(ddl, content, reason):
    path = "$.after.a[1]" if ddl.startswith("array") else "$.after.a"
    assert value(ddl, content) == f"{reason} - at `{path}`"


@pytest.mark.parametrize("scale", ["--2", "9" * 5000, "", "1.5", "\u0663", True])
def test_a_schema_with_an_invalid_scale_makes_a_bad_record(scale):
    error = value("decimal(10,2)", "BNI=", DECIMAL | {"parameters": {"scale": scale}})
    assert error.endswith(f"{str(scale)[:100]!r} is not the scale of a decimal - at `$.payload`")
