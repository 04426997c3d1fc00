"""Rows of comma-separated and tab-separated values, decoded by the position of the fields."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kinesis_assets.decoders import Csv, Split, Tsv
from kinesis_assets.errors import InvalidInput
from support.raw_rows import decoded
from support.spark_types import spark_type

ORDER = spark_type("id long, name string, amount double")


def rows(data, kind=ORDER, decoder=Csv):
    return [(row["value"], row["error"]) for row in decoded(data, decoder(kind))]


GOOD = {
    "plain": (b"1,widget,9.5", (1, "widget", 9.5)),
    "a newline at the end": (b"1,widget,9.5\n", (1, "widget", 9.5)),
    "a carriage return at the end": (b"1,widget,9.5\r\n", (1, "widget", 9.5)),
    "a byte order mark": (b"\xef\xbb\xbf1,widget,9.5", (1, "widget", 9.5)),
    "a byte order mark before a quote": (b'\xef\xbb\xbf"1",widget,9.5', (1, "widget", 9.5)),
    "quotes": (b'"1","a, b","1.25"\r\n', (1, "a, b", 1.25)),
    "quotes in quotes": (b'1,"say ""hi""",2', (1, 'say "hi"', 2.0)),
    "only quotes in quotes": (b'1,"""",2', (1, '"', 2.0)),
    "a quote within a value": (b'1,5" disk,2', (1, '5" disk', 2.0)),
    "newlines in quotes": (b'1,"two\r\nlines\n",2', (1, "two\r\nlines\n", 2.0)),
    "empty values": (b",,", (None, None, None)),
    "an empty text": (b'1,"",2', (1, "", 2.0)),
    "spaces of a text": (b"1, a ,2", (1, " a ", 2.0)),
    "a backslash": (b'1,"a\\b\\",2', (1, "a\\b\\", 2.0)),
    "text that looks like JSON": (b'1,"{""x"":""}"",1",2', (1, '{"x":"}",1', 2.0)),
    "UTF-8": ("1,café,-2e3".encode(), (1, "café", -2000.0)),
    "the largest integer": (b"9223372036854775807,a,0", (9223372036854775807, "a", 0.0)),
}


@pytest.mark.parametrize(("record", "values"), GOOD.values(), ids=GOOD)
def test_a_row_is_decoded_by_the_position_of_its_fields(record, values):
    assert rows([record]) == [(dict(zip(("id", "name", "amount"), values, strict=True)), None)]


BAD = {
    "too few fields": (b"1,widget", "it has 2 fields, and the schema has 3"),
    "too many fields": (b"1,widget,2,", "it has 4 fields, and the schema has 3"),
    "nothing": (b"", "it has 1 fields, and the schema has 3"),
    "no number": (b"three,x,1", "Expected `int | null`, got `str` - at `$.id`"),
    "an empty text as a number": (b'"",x,1', "Expected `int | null`, got `str` - at `$.id`"),
    "a fraction as an integer": (b"1.0,x,1", "Expected `int | null`, got `float` - at `$.id`"),
    "spaces around a number": (b" 1,x,1", "Expected `int | null`, got `str` - at `$.id`"),
    "zeros before a number": (b"01,x,1", "Expected `int | null`, got `str` - at `$.id`"),
    "a sign before a number": (b"+1,x,1", "Expected `int | null`, got `str` - at `$.id`"),
    "no finite number": (b"1,x,NaN", "Expected `float | null`, got `str` - at `$.amount`"),
    "JSON in place of a number": (b'"1,""name"":""y""",x,1', "Expected `int | null`, got `str` - at `$.id`"),
    "an integer out of range": (b"9223372036854775808,x,1", "Expected `int` <= 9223372036854775807"),
    "no UTF-8": (b"4,caf\xe9,7", "'utf-8' codec can't decode byte 0xe9 in position 5"),
    "a quote that is not closed": (b'1,"x,2', "field 2 has a quote that is not closed, or text behind it"),
    "text behind a quote": (b'1,"x" y,2', "field 2 has a quote that is not closed, or text behind it"),
    "two rows": (b"1,x,2\n3,y,4\n", "field 3 ends with a newline; a record is one row"),
    "two rows with quotes": (b'1,"x",2\n3,y,4\n', "field 3 ends with a newline; a record is one row"),
    "two newlines": (b"1,x,2\n\n", "field 3 "),
}


@pytest.mark.parametrize(("record", "reason"), BAD.values(), ids=BAD)
def test_a_row_that_is_not_of_the_schema_is_bad(record, reason):
    ((value, error),) = rows([record])
    assert value is None
    assert error.startswith(f"csv: {reason}")


def test_values_have_the_types_of_the_schema():
    kind = spark_type(
        "d date, t timestamp, n timestamp_ntz, x decimal(10,2), b boolean, y binary, l array<int>, v string"
    )
    record = (
        b"2026-01-31,2026-01-31T10:00:00.1234567+02:00,2026-01-31T10:00:00,1.50,true,"
        b'AAE=,"[1,2]",2026-01-31\n'
    )
    ((value, error),) = rows([record], kind)
    assert error is None
    assert value == {
        "d": date(2026, 1, 31),
        "t": datetime(2026, 1, 31, 8, 0, 0, 123456, tzinfo=UTC),
        "n": datetime.fromisoformat("2026-01-31T10:00:00"),
        "x": Decimal("1.50"),
        "b": True,
        "y": b"\0\1",
        "l": [1, 2],
        "v": "2026-01-31",
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "31.01.2026"),
        ("timestamp", "2026-01-31 10:00"),
        ("timestamp", "2026-01-31T10:00:00"),
        ("boolean", "TRUE"),
        ("boolean", "1"),
        ("decimal(3,1)", "1.25"),
        ("decimal(3,1)", "100"),
        ("binary", "%%"),
        ("int", "2147483648"),
        ("array<int>", '"[1,"'),
        ("array<int>", "1"),
        ("variant", "shoes"),
        ("variant", '"[1,"'),
    ],
)
def test_a_value_of_another_form_is_bad(kind, value):
    ((found, error),) = rows([f"{value},x".encode()], spark_type(f"a {kind}, b string"))
    assert found is None
    assert error.startswith("csv: ")
    assert "$.a" in error


@pytest.mark.parametrize("value", ["1.50", "true", '"text"', '{"a":[1]}', "null"])
def test_a_variant_has_the_json_that_it_is(value):
    quoted = value.replace('"', '""')
    ((found, error),) = rows([f'"{quoted}",x'.encode()], spark_type("a variant, b string"))
    assert error is None
    assert found["a"] == (None if value == "null" else value)


def test_a_missing_value_that_is_required_is_bad():
    ((_, error),) = rows([b",x"], spark_type("a int not null, b string"))
    assert error == "csv: Expected `int`, got `null` - at `$.a`"


@pytest.mark.parametrize(
    "header", [b"id,name,amount", b'"id","name","amount"\r\n', b"\xef\xbb\xbfid,name,amount\n"]
)
def test_a_header_is_left_out(header):
    assert rows([header]) == []


def test_a_row_that_is_almost_a_header_is_bad():
    assert [error is None for _, error in rows([b"ID,name,amount", b"id,name", b"name,id,amount"])] == [
        False
    ] * 3


def test_lines_of_a_record_are_rows_with_their_own_bytes():
    record = b'id,name,amount\n1,widget,9.50\n2,"a, b",1.25\r\n\nthree,x,1\n4,caf\xe9,7'
    found = decoded([record], Split("lines"), Csv(ORDER))
    assert [(row["document_number"], row["data"], row["value"] and row["value"]["id"]) for row in found] == [
        (1, b"1,widget,9.50", 1),
        (2, b'2,"a, b",1.25', 2),
        (3, b"three,x,1", None),
        (4, b"4,caf\xe9,7", None),
    ]


def test_a_quote_among_tab_separated_values_is_a_character_like_others():
    data = [b"1\ta, b\t2\n", b'2\t"Home" page\t\r\n', b'3\t"a ""b"""\t', b"id\tname\tamount"]
    assert rows(data, decoder=Tsv) == [
        ({"id": 1, "name": "a, b", "amount": 2.0}, None),
        ({"id": 2, "name": '"Home" page', "amount": None}, None),
        ({"id": 3, "name": '"a ""b"""', "amount": None}, None),
    ]


def test_tab_separated_values_are_one_row_with_all_fields():
    assert rows([b"3\tx", b"3\tx\t1\n4\ty\t2"], decoder=Tsv) == [
        (None, "tsv: it has 2 fields, and the schema has 3"),
        (None, "tsv: it has a newline within; a record is one row"),
    ]


def test_a_type_without_fields_is_refused():
    with pytest.raises(InvalidInput, match="the type int has no fields; use a struct"):
        Csv(spark_type("int")).resolved()
