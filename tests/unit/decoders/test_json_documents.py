"""JSON is decoded to exactly the given type, or has an error with the path of what does not fit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DecimalType, DoubleType, LongType, StringType, StructType

from kinesis_assets.decoders import Json
from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.json_documents import json_reader
from support.raw_rows import decoded
from support.spark_types import spark_type


@pytest.mark.parametrize(
    ("ddl", "document", "value"),
    [
        ("a long, b string", '{"a": 1, "b": "x", "c": [{}]}', {"a": 1, "b": "x"}),
        ("a long, b string", "{}", {"a": None, "b": None}),
        ("a long", ' {"a": null}\n', {"a": None}),
        ("a long", '{"A": 1}', {"a": None}),
        ("a long", '{"a": 1, "a": 2}', {"a": 2}),
        ("`an id` long, `class` string", '{"an id": 1, "class": "x"}', {"an id": 1, "class": "x"}),
        ("`über` long, `a€` long", '{"über": 1, "a€": 2}', {"über": 1, "a€": 2}),
        ("`é` long", '{"": 1, "e": 2}', {"é": None}),
        ("boolean", "true", True),
        ("byte", "-128", -128),
        ("short", "32767", 32767),
        ("int", "-2147483648", -2147483648),
        ("long", "9223372036854775807", 9223372036854775807),
        ("double", "1", 1.0),
        ("double", "1e-400", 0.0),
        ("float", "0.5", 0.5),
        ("float", "-3.4028234663852886e38", -3.4028234663852886e38),
        ("string", r'"\u00e9\ud83d\ude00\u0000"', "é😀\0"),
        ("binary", '"aGk="', b"hi"),
        ("date", '"2026-01-31"', date(2026, 1, 31)),
        ("timestamp", '"2026-01-31T12:00:00.5+02:00"', datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("timestamp_ntz", '"2026-01-31T12:00:00"', datetime(2026, 1, 31, 12)),  # noqa: DTZ001
        ("decimal(20,3)", "12345678901234567.125", Decimal("12345678901234567.125")),
        ("decimal(10,2)", '"1.500"', Decimal("1.50")),
        ("decimal(10,2)", "12345678", Decimal("12345678.00")),
        ("decimal(10,2)", "1e7", Decimal("10000000.00")),
        ("decimal(10,2)", "0e999999999", Decimal("0.00")),
        ("decimal(2,2)", "-0.99", Decimal("-0.99")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("array<int>", "[1, null]", [1, None]),
        ("map<string, int>", '{"x": 1, "y": null}', {"x": 1, "y": None}),
        (
            "a struct<b: array<struct<c: int>>>",
            '{"a": {"b": [{"c": 1}, {}]}}',
            {"a": {"b": [{"c": 1}, {"c": None}]}},
        ),
        ("a long not null", '{"a": 1}', {"a": 1}),
        ("a variant", '{"a": {"b": [1.50, "x", null, true]}}', {"a": '{"b":[1.50,"x",null,true]}'}),
        (
            "a variant, b variant, c variant",
            '{"a": 1, "b": "1", "c": null}',
            {"a": "1", "b": '"1"', "c": None},
        ),
        ("a array<variant>", '{"a": [1, "x", null]}', {"a": ["1", '"x"', None]}),
        ("a map<string, variant>", '{"a": {"x": {}, "y": []}}', {"a": {"x": "{}", "y": "[]"}}),
        ("a variant", '{"a": [1e400, %s]}' % ("9" * 40), {"a": f"[1E+400,{'9' * 40}]"}),
        ("a variant", r'{"a": "é\n\u0000"}', {"a": r'"é\n\u0000"'}),
    ],
)
def test_a_document_that_fits_is_decoded(ddl, document, value):
    (row,) = decoded([document.encode()], Json(spark_type(ddl)))
    assert (row["value"], row["error"]) == (value, None)


@pytest.mark.parametrize(
    ("ddl", "document", "error"),
    [
        ("a long", b'{"a": "1"}', "Expected `int | null`, got `str` - at `$.a`"),
        ("a long", b'{"a": 1.0}', "Expected `int | null`, got `float` - at `$.a`"),
        ("a long", b'{"a": true}', "Expected `int | null`, got `bool` - at `$.a`"),
        ("a boolean", b'{"a": 1}', "Expected `bool | null`, got `int` - at `$.a`"),
        ("a string", b'{"a": 1}', "Expected `str | null`, got `int` - at `$.a`"),
        ("a string", b'{"a": {"b": 1}}', "Expected `str | null`, got `object` - at `$.a`"),
        ("a double", b'{"a": "1"}', "Expected `float | null`, got `str` - at `$.a`"),
        ("a double", b'{"a": 1e400}', "Number out of range - at `$.a`"),
        ("a double", b'{"a": NaN}', "JSON is malformed"),
        ("a float", b'{"a": 1e39}', "Number out of range - at `$.a`"),
        ("a float", b'{"a": %s}' % (b"9" * 400), "Number out of range - at `$.a`"),
        ("a float", b'{"a": true}', "Expected `float`, got `bool` - at `$.a`"),
        ("a float", b'{"a": "1"}', "Expected `float`, got `str` - at `$.a`"),
        ("a byte", b'{"a": 128}', "Expected `int` <= 127 - at `$.a`"),
        ("a short", b'{"a": -32769}', "Expected `int` >= -32768 - at `$.a`"),
        ("a int", b'{"a": 2147483648}', "Expected `int` <= 2147483647 - at `$.a`"),
        ("a long", b'{"a": 9223372036854775808}', "Expected `int` <= 9223372036854775807 - at `$.a`"),
        ("a long", b'{"a": %s}' % (b"9" * 5000), "Integer value out of range - at `$.a`"),
        ("a long not null", b"{}", "Object missing required field `a`"),
        ("a long not null", b'{"a": null}', "Expected `int`, got `null` - at `$.a`"),
        ("a struct<b: array<int>>", b'{"a": {"b": [1, "2"]}}', "got `str` - at `$.a.b[1]`"),
        ("a map<string, int>", b'{"a": {"x": "1"}}', "got `str` - at `$.a[...]`"),
        ("a binary", b'{"a": "not base64"}', "Invalid base64 encoded string - at `$.a`"),
        ("a date", b'{"a": "2026-02-30"}', "Invalid RFC3339 encoded date - at `$.a`"),
        ("a timestamp", b'{"a": "2026-01-31T12:00:00"}', "Expected `datetime` with a timezone component"),
        ("a timestamp", b'{"a": 1769860800}', "Expected `datetime | null`, got `int` - at `$.a`"),
        ("a timestamp_ntz", b'{"a": "2026-01-31T12:00:00Z"}', "with no timezone component - at `$.a`"),
        ("a decimal(10,2)", b'{"a": 1.125}', "'1.125' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": 123456789}', "'123456789' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": %s}' % (b"9" * 1000), "9' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": "NaN"}', "'NaN' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": "sNaN"}', "'sNaN' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": "Infinity"}', "'Infinity' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": "x"}', "'x' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": "1_000"}', "'1_000' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", '{"a": "\u0661"}'.encode(), "'\u0661' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": 1e999999999}', "'1E+999999999' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": 1e-999999999}', "'1E-999999999' is not a decimal(10,2) - at `$.a`"),
        ("a decimal(10,2)", b'{"a": 1e99999999999999999999}', "Number out of range - at `$.a`"),
        ("a decimal(10,2)", b'{"a": true}', "Expected `decimal`, got `bool` - at `$.a`"),
        ("a variant", b'{"a": 1e99999999999999999999}', "Number out of range"),
        ("a variant", b'{"a": %s}' % (b"[" * 1_000_000 + b"]" * 1_000_000), "recursion"),
        ("a variant not null", b'{"a": null}', "got `null` - at `$.a`"),
        ("a array<decimal(2,2)>", b'{"a": [0.5, 1]}', "'1' is not a decimal(2,2) - at `$.a[1]`"),
        ("a long", b"", "Input data was truncated"),
        ("a long", b'{"a": 1', "Input data was truncated"),
        ("a long", b'{"a": 1} x', "trailing characters"),
        ("a long", b'{"a": 1}{"a": 2}', "trailing characters"),
        ("a long", b"{'a': 1}", "JSON is malformed"),
        ("a long", b"not JSON", "JSON is malformed"),
        ("a long", b"null", "Expected `object`, got `null`"),
        ("a long", b'[{"a": 1}]', "Expected `object`, got `array`"),
        ("a string", b'{"a": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 7"),
        ("a string", b'{"left out": "\xff"}', "'utf-8' codec can't decode byte 0xff"),
        ("a string", b'{"\xff": 1}', "'utf-8' codec can't decode byte 0xff"),
        ("a string", b'{"a": "\xed\xa0\x80"}', "'utf-8' codec can't decode byte 0xed"),
        ("a string", b'{"a": "\\ud800"}', ""),
        ("a string", b'{"a": "\\udc00"}', "invalid utf-16 surrogate pair"),
        (
            "a string",
            b'{"b": %s}' % (b"[" * 1_000_000 + b"]" * 1_000_000),
            "maximum recursion depth exceeded",
        ),
    ],
    ids=lambda each: repr(each[:30]) if isinstance(each, bytes) else None,
)
def test_a_document_that_does_not_fit_is_an_error_with_its_path(ddl, document, error):
    (row,) = decoded([document], Json(spark_type(ddl)))
    assert (row["data"], row["value"]) == (document, None)
    assert row["error"].startswith("json: ")
    assert error in row["error"]


LAST = datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-31T23:59:59.999999999Z", LAST),
        ("2026-01-31T23:59:59.9999995Z", LAST),
        ("2026-02-01T00:59:59.999999999+01:00", LAST),
        ("1969-12-31T23:59:59.999999999Z", datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("1969-12-31T23:59:59.0000009Z", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("9999-12-31T23:59:59.999999999Z", datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)),
        ("2026-01-31t23:59:59.%sz" % ("9" * 40), LAST),
        (r"2026-01-31T23:59:59.999999\u0039Z", LAST),
        (r"2026-01-31T23:59:59\u002e9999999Z", LAST),
    ],
)
def test_digits_of_a_timestamp_beyond_microseconds_are_cut_off(text, value):
    document = b'{"a": [{"b": "%s"}]}' % text.encode()
    (row,) = decoded([document], Json(spark_type("a array<struct<b: timestamp>>")))
    assert (row["value"], row["error"]) == ({"a": [{"b": value}]}, None)


def test_digits_of_a_timestamp_without_an_offset_are_cut_off_too():
    (row,) = decoded([b'{"a": "2026-01-31T23:59:59.999999999"}'], Json(spark_type("a timestamp_ntz")))
    assert row["value"] == {"a": LAST.replace(tzinfo=None)}


def test_digits_are_cut_off_of_timestamps_only():
    text = "2026-01-31T23:59:59.999999999Z"
    document = b'{"a": "%s", "b": "%s", "c": 0.123456789, "d": 0.123456789}' % (text.encode(), text.encode())
    (row,) = decoded([document], Json(spark_type("a timestamp, b string, c double, d decimal(10,9)")))
    value = {"a": LAST, "b": text, "c": 0.123456789, "d": Decimal("0.123456789")}
    assert (row["value"], row["error"]) == (value, None)


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (b'{"a": "2026-01-31T23:59:59.999999999"}', "Expected `datetime` with a timezone component"),
        (b'{"a": 1.123456789}', "Expected `datetime`, got `decimal`"),
        (b'{"a": "2026-02-30T23:59:59.999999999Z"}', "Invalid RFC3339 encoded datetime"),
    ],
)
def test_a_timestamp_with_many_digits_that_is_invalid_is_an_error_with_its_path(document, error):
    (row,) = decoded([document], Json(spark_type("a timestamp")))
    assert row["error"] == f"json: {error} - at `$.a`"


@pytest.mark.slow
@settings(derandomize=True, max_examples=300)
@given(
    number=st.decimals(allow_nan=False, allow_infinity=False) | st.decimals("-1e9", "1e9", places=3),
    scale=st.integers(0, 10),
)
def test_any_number_is_an_exact_decimal_or_an_error(number, scale):
    arrow_type = pa.decimal128(10, scale)
    try:
        value = json_reader(DecimalType(10, scale))(str(number).encode())
    except Undecodable:
        shifted = number * 10**scale if number.adjusted() < 20 and number.as_tuple().exponent > -20 else None
        assert shifted is None or shifted != shifted.to_integral_value() or abs(shifted) >= 10**10
    else:
        assert pa.array([value], arrow_type).to_pylist() == [number]


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries({}, optional={"a": ANY_JSON, "b": ANY_JSON, "c": ANY_JSON, "d": ANY_JSON})


@pytest.mark.slow
@settings(derandomize=True, max_examples=300)
@given(document=OBJECTS)
def test_any_document_is_decoded_exactly_or_an_error(document):
    read = json_reader(StructType().add("a", LongType()).add("b", StringType()).add("c", DoubleType()))
    a, b, c = (document.get(name) for name in "abc")
    fits = a is None or (type(a) is int and -(1 << 63) <= a < 1 << 63)
    fits &= isinstance(b, str | None)
    fits &= c is None or type(c) in (int, float)
    text = json.dumps(document).encode()
    if fits:
        assert read(text) == {name: value for name, value in document.items() if name != "d"}
    else:
        with pytest.raises(Undecodable):
            read(text)


@pytest.mark.slow
@settings(derandomize=True, max_examples=300)
@given(
    document=st.binary(max_size=50) | st.text('{}[]":,abc0123456789.eE-+\\ud ', max_size=50).map(str.encode)
)
def test_random_bytes_are_a_value_or_an_error(document):
    try:
        value = json_reader(StructType().add("a", LongType()))(document)
    except Undecodable:
        return
    assert value.keys() <= {"a"}
    json.loads(document)  # what another parser accepts too
