"""Records that are split into documents: where each begins and ends, and that a bad one spoils no other."""

from __future__ import annotations

import gzip

import pytest

from kinesis_assets.decoders import Gzip, Json, Split
from kinesis_assets.decoders.decoder import Decoding
from kinesis_assets.errors import InvalidInput
from support.raw_rows import decoded
from support.spark_types import spark_type

MARK = b"\xef\xbb\xbf"

LINES = {
    "newlines": (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
    "carriage returns": (b'{"a":1}\r\n{"a":2}\r\n', [b'{"a":1}', b'{"a":2}']),
    "no last newline": (b'{"a":1}\n{"a":2}', [b'{"a":1}', b'{"a":2}']),
    "blank lines": (b'\n\r\n \t\n{"a":1}\n\n', [b'{"a":1}']),
    "a byte order mark": (MARK + b'{"a":1}\n{"a":2}', [b'{"a":1}', b'{"a":2}']),
    "only a byte order mark": (MARK, []),
    "nothing": (b"", []),
    "a bad line": (b'{"a":1}\nnot json\n{"a":3}', [b'{"a":1}', b"not json", b'{"a":3}']),
    "a carriage return within a line": (b"a\rb\n", [b"a\rb"]),
    "spaces around": (b" 1 \n", [b" 1 "]),
    "escaped newlines": (b'"a\\nb"\n2', [b'"a\\nb"', b"2"]),
    "no UTF-8": (b"caf\xe9\n1", [b"caf\xe9", b"1"]),
}

DOCUMENTS = {
    "without whitespace": (b'{"a":1}{"a":2}', [b'{"a":1}', b'{"a":2}']),
    "with all whitespace": (b' \t\r\n{"a":1} \t\r\n {"a":2}\n', [b'{"a":1}', b'{"a":2}']),
    "one": (b'{"a":1}', [b'{"a":1}']),
    "nothing": (b"", []),
    "only whitespace": (b" \n", []),
    "a byte order mark": (MARK + b'{"a":1}{"a":2}', [b'{"a":1}', b'{"a":2}']),
    "over several lines": (b'{\n "a": 1\n}\n{\n "a": 2\n}', [b'{\n "a": 1\n}', b'{\n "a": 2\n}']),
    "nested": (b'{"a":{"b":[1,{}]}}[[]]{}', [b'{"a":{"b":[1,{}]}}', b"[[]]", b"{}"]),
    "brackets in texts": (b'{"a":"}{"}{"a":"]"}', [b'{"a":"}{"}', b'{"a":"]"}']),
    "quotes in texts": (b'{"a":"\\"}"}{"a":"\\\\"}{}', [b'{"a":"\\"}"}', b'{"a":"\\\\"}', b"{}"]),
    "documents in texts": (
        b'{"a":"{\\n\\"b\\":1}\\n"}{"a":"{\\"b\\":2}"}',
        [b'{"a":"{\\n\\"b\\":1}\\n"}', b'{"a":"{\\"b\\":2}"}'],
    ),
    "plain values": (b'1 "a b"true[2]null', [b"1", b'"a b"', b"true", b"[2]", b"null"]),
    "an invalid word": (b'{"a":1}\nnot json {"a":2}\n{"a":3}', [b'{"a":1}', b'not json {"a":2}', b'{"a":3}']),
    "an invalid object": (b'{a:1}{"a":2}\n{"a":3}', [b'{a:1}{"a":2}', b'{"a":3}']),
    "an invalid object behind a good one": (b'{"a":1}{a:2}\r\n{"a":3}', [b'{"a":1}', b"{a:2}", b'{"a":3}']),
    "an invalid object over several lines": (b'{"a":1,\n"b":x}\n{"a":3}', [b'{"a":1,\n"b":x}', b'{"a":3}']),
    "an object that does not end": (b'{"a":{"b":1}\n{"a":2}', [b'{"a":{"b":1}', b'{"a":2}']),
    "a text that does not end": (b'{"a":"x\n{"a":"y"}', [b'{"a":"x', b'{"a":"y"}']),
    "a bracket too many": (b'{"a":1}}\n{"a":2}', [b'{"a":1}', b"}", b'{"a":2}']),
    "brackets that do not match": (b'{"a":[1}\n{"a":2}', [b'{"a":[1}', b'{"a":2}']),
    "a record that was cut off": (b'{"a":1}{"a":2', [b'{"a":1}', b'{"a":2']),
}

ARRAYS = {
    "objects": (b'[{"a":1},{"a":2}]', [b'{"a":1}', b'{"a":2}']),
    "with whitespace": (MARK + b' \r\n[ {"a": 1} ,\t{"a":2}\n] \n', [b'{"a": 1}', b'{"a":2}']),
    "empty": (b"[]", []),
    "plain values": (b'[1,"a,]",null,[2,3]]', [b"1", b'"a,]"', b"null", b"[2,3]"]),
    "an invalid element": (
        b'[{"a":1},{a:2,[3,4]}, {"a":"5,]"}]',
        [b'{"a":1}', b"{a:2,[3,4]}", b'{"a":"5,]"}'],
    ),
    "a comma too many": (b"[1,{},]", [b"1", b"{}", b""]),
    "no value": (b"[1,,2]", [b"1", b"", b"2"]),
    "no comma": (b'[{"a":1} {"a":2},3]', [b'{"a":1} {"a":2}', b"3"]),
}

CASES = {
    f"{mode}: {name}": (mode, record, documents)
    for mode, cases in {"lines": LINES, "documents": DOCUMENTS, "array": ARRAYS}.items()
    for name, (record, documents) in cases.items()
}


@pytest.mark.parametrize(("mode", "record", "documents"), CASES.values(), ids=CASES)
def test_a_record_is_split_into_documents(mode, record, documents):
    rows = decoded([record], Split(mode))
    assert [row["value"] for row in rows] == documents
    assert [row["data"] for row in rows] == documents
    assert [row["document_number"] for row in rows] == [*range(len(documents))]
    assert {row["error"] for row in rows} <= {None}


@pytest.mark.parametrize(
    "record", [b"", b"{}", b"7", b'[{"a":1}', b'[{"a":1}] 2', b"[1}", b'["a', b"x[1]", b"]"]
)
def test_a_record_that_is_no_whole_array_is_bad_as_a_whole(record):
    (row,) = decoded([record], Split("array"))
    assert row["error"] == "split: it is no JSON array from its beginning to its end"
    assert (row["data"], row["document_number"], row["value"]) == (record, None, None)


def test_an_array_that_is_too_large_for_memory_is_split_into_the_same_documents(monkeypatch):
    monkeypatch.setattr("kinesis_assets.decoders.split.IN_MEMORY", 4)
    for record, documents in ARRAYS.values():
        assert [row["value"] for row in decoded([record], Split("array"))] == documents


def test_bad_lines_are_rows_with_their_own_bytes_between_good_ones():
    record = b'\xef\xbb\xbf{"id":4}\nnot json\n{"id":"five"}\r\n\n{"id":6}'
    rows = decoded([gzip.compress(record)], Gzip(), Split("lines"), Json(spark_type("id int")))
    assert [(row["document_number"], row["value"], row["data"], row["error"]) for row in rows] == [
        (0, {"id": 4}, b'{"id":4}', None),
        (1, None, b"not json", "json: JSON is malformed: invalid character (byte 4)"),
        (2, None, b'{"id":"five"}', "json: Expected `int | null`, got `str` - at `$.id`"),
        (3, {"id": 6}, b'{"id":6}', None),
    ]


@pytest.mark.parametrize("text", [b"{\n", b"[\n", b"{", b'{"a":"x\n', b'{"a":1}]', b'"', b'{"a":1,}', b"1 "])
@pytest.mark.slow
def test_a_record_of_many_invalid_documents_is_read_about_once(text):
    """It would take minutes if what is behind each of them were read for each."""
    record = Decoding(text * 50_000)
    documents = Split("documents").make_step()(record)
    assert b"".join(each.value for each in documents) == text.strip() * 50_000


def test_another_mode_is_refused():
    with pytest.raises(InvalidInput, match="Split takes lines, documents, array, not 'line'"):
        Split("line")
