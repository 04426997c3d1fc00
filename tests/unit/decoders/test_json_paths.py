"""Settings that name a part of a JSON document: which documents are decoded, and arrays that are unnested."""

from __future__ import annotations

import json
import tracemalloc

import pyarrow as pa
import pytest

from kinesis_assets.decoders import Json, Only, Split, Unnest
from kinesis_assets.decoders.chain import _decoded_batches
from kinesis_assets.decoders.decoder import Decoding
from kinesis_assets.decoders.json_paths import parse_path
from kinesis_assets.errors import InvalidInput
from support.raw_rows import decoded, raw_table
from support.spark_types import spark_type


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("type", ("type",)),
        ("detail-type", ("detail-type",)),
        ("detail.order.id", ("detail", "order", "id")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b``c`", ("a", "b`c")),
        ("détail", ("détail",)),
    ],
)
def test_a_path_has_names_with_dots_between_them(path, names):
    assert parse_path(path) == names


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "``", "`a`b"])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(InvalidInput, match="is no path; give the names of fields"):
        parse_path(path)


@pytest.mark.parametrize("path", ['"detail.type"', 'detail."type"', '`a"b`', "a\\b", "a\nb"])
def test_a_path_with_quotes_is_refused_and_backticks_are_advised(path):
    with pytest.raises(InvalidInput, match=r"is no path, because of the .* within backticks"):
        parse_path(path)


def test_other_names_are_those_of_fields():
    names = ["it's", "a b", "a\x7f", "$x", "\u2028"]
    document = json.dumps(dict.fromkeys(names, 1)).encode()
    assert kept(dict.fromkeys(names, 1), document) == [0]


# Unnest


LOGS = b'{"owner":"1","logEvents":[{"id":"e1","at":7},{"id":"e2"}],"group":"/f"}'

UNNESTED = {
    "objects": (
        "logEvents",
        LOGS,
        [
            b'{"owner":"1","logEvents":{"id":"e1","at":7},"group":"/f"}',
            b'{"owner":"1","logEvents":{"id":"e2"},"group":"/f"}',
        ],
    ),
    "the only field": (
        "a",
        b'{"a":[1,"x",null,[2]]}',
        [b'{"a":1}', b'{"a":"x"}', b'{"a":null}', b'{"a":[2]}'],
    ),
    "the first field": ("a", b'{ "a" : [ 1 , 2 ] , "b" : 3 }', [b'{"a":1,"b":3}', b'{"a":2,"b":3}']),
    "the last field": ("a", b'{"b":3,"a":[1,2]}', [b'{"b":3,"a":1}', b'{"b":3,"a":2}']),
    "within": (
        "a.`b.c`",
        b'{"x":1,"a":{"y":2,"b.c":[7,8],"z":3},"w":4}',
        [b'{"x":1,"a":{"y":2,"b.c":7,"z":3},"w":4}', b'{"x":1,"a":{"y":2,"b.c":8,"z":3},"w":4}'],
    ),
    "an escaped name": ("é", b'{"\\u00e9":[1]}', ['{"é":1}'.encode()]),
    "nested": (
        "a",
        b'{"a":[ {"b":"],[\\"}"} , [1,[2,3]]\n,"," ]}',
        [b'{"a":{"b":"],[\\"}"}}', b'{"a":[1,[2,3]]}', b'{"a":","}'],
    ),
    "empty": ("a", b'{"a":[],"b":1}', []),
    "only whitespace": ("a", b'{"a":[ \n ],"b":1}', []),
    "null": ("a", b'{"a":null}', []),
    "missing": ("a.b", b'{"a":{}}', []),
    "missing around": ("a.b", b'{"b":[1]}', []),
    "exact numbers": (
        "a",
        b'{"n":12345678901234567890.10,"a":[1e400]}',
        [b'{"n":12345678901234567890.10,"a":1e400}'],
    ),
}


@pytest.mark.parametrize(("path", "document", "documents"), UNNESTED.values(), ids=UNNESTED)
def test_each_element_of_an_array_is_a_document_in_which_it_has_the_place_of_the_array(
    path, document, documents
):
    rows = decoded([document], Unnest(path))
    assert [(row["value"], row["data"], row["document_number"], row["error"]) for row in rows] == [
        (each, each, number, None) for number, each in enumerate(documents)
    ]


def test_an_array_that_is_too_large_for_memory_has_the_same_elements(monkeypatch):
    monkeypatch.setattr("kinesis_assets.decoders.json_paths.IN_MEMORY", 1)
    for path, document, documents in UNNESTED.values():
        assert [row["value"] for row in decoded([document], Unnest(path))] == documents
    (row,) = decoded([b'{"a":12}'], Unnest("a"))
    assert row["error"].startswith("unnest: Expected `array`, got `int`")


@pytest.mark.parametrize(
    ("decoder", "record"),
    [
        (Unnest("a"), b'{"n":1,"a":[%b]}' % b",".join([b"1"] * 20_000)),
        (Split("array"), b"[%b]" % b",".join([b"1"] * 20_000)),
    ],
)
@pytest.mark.slow
def test_elements_take_no_more_memory_than_their_array(monkeypatch, decoder, record):
    for module in ("json_paths", "split"):
        monkeypatch.setattr(f"kinesis_assets.decoders.{module}.IN_MEMORY", 1000)
    step = decoder.make_step()
    tracemalloc.start()
    try:
        count = sum(1 for _ in step(Decoding(record)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 20_000
    assert peak < 2 * len(record)


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (b'{"a":{"b":1}}', "unnest: Expected `array`, got `int`"),
        (b'{"a":[1]}', "unnest: Expected `object`, got `array`"),
        (b"[1]", "unnest: Expected `object`, got `array`"),
        (b'{"a":{"b":[1,]}}', "unnest: JSON is malformed"),
        (b"", "unnest: Input data was truncated"),
        (b'{"\xff":1}', "unnest: 'utf-8' codec can't decode"),
    ],
)
def test_a_document_without_the_array_at_its_path_is_bad(document, error):
    (row,) = decoded([document], Unnest("a.b"))
    assert row["error"].startswith(error)
    assert (row["data"], row["document_number"]) == (document, None)


def test_a_bad_element_does_not_spoil_its_neighbors():
    kind = spark_type("owner string, logEvents struct<id: string>")
    first, second = decoded(
        [b'{"owner":"1","logEvents":[{"id":7},{"id":"e2"}]}'], Unnest("logEvents"), Json(kind)
    )
    assert first["error"] == "json: Expected `str | null`, got `int` - at `$.logEvents.id`"
    assert first["data"] == b'{"owner":"1","logEvents":{"id":7}}'
    assert second["value"] == {"owner": "1", "logEvents": {"id": "e2"}}


def test_elements_of_several_documents_of_a_record_are_numbered_in_a_row():
    rows = decoded([b'{"a":[1,2]}\nbad\n{"a":[3]}'], Split("lines"), Unnest("a"))
    assert [(row["document_number"], row["data"]) for row in rows] == [
        (0, b'{"a":1}'),
        (1, b'{"a":2}'),
        (2, b"bad"),
        (3, b'{"a":3}'),
    ]


# Only


def kept(values, *documents):
    data = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
    rows = decoded(data, Only(values))
    assert {row["error"] for row in rows} <= {None}
    return [int(row["sequence_number"]) for row in rows]


@pytest.mark.parametrize(
    ("wanted", "same", "others"),
    [
        ("a", [b'"a"', b'"\\u0061"', b' "a" '], [b'"A"', b'"a "', b'["a"]', b"null"]),
        ("1", [b'"1"'], [b"1", b"true"]),
        (1, [b"1", b"1.0", b"10e-1", b"1.00"], [b'"1"', b"true", b"1.0000000000000000000001", b"[1]", b"2"]),
        (0.1, [b"0.1", b"1e-1", b"0.10"], [b"0.1000000000000000055511151231257827", b'"0.1"']),
        (2**70, [b"1180591620717411303424"], [b"1180591620717411303425", b"1.18e21"]),
        (0, [b"0", b"-0", b"0.0"], [b"false", b"null", b'""']),
        (True, [b"true"], [b"1", b'"true"', b"false"]),
        (False, [b"false"], [b"0", b"null"]),
        (None, [b"null"], [b"0", b'""', b"false", b"{}"]),
        (["a", 1, None], [b'"a"', b"1", b"null"], [b'"1"', b"true"]),
        ("", [b'""'], [b"null"]),
        (1, [b"1"], [b"1e999999999999999999999", b"-1e-99999999999999999999"]),
    ],
)
def test_a_value_is_compared_as_one_of_json(wanted, same, others):
    documents = [b'{"x":[{"v":9}],"v":%s,"y":{}}' % each for each in (*same, *others)]
    assert kept({"v": wanted}, *documents) == [*range(len(same))]


def test_all_conditions_are_true_of_a_document_that_is_kept():
    values = {"detail-type": ["Placed", "Canceled"], "detail.order.status": 1, "`a.b`": "é"}
    good = {"detail-type": "Placed", "detail": {"order": {"status": 1}}, "a.b": "é"}
    others = [
        good | {"detail-type": "Renamed"},
        good | {"detail": {"order": {"status": 2}}},
        good | {"detail": {"order": "1"}},
        good | {"detail": "none"},
        good | {"a.b": "e"},
        {},
    ]
    assert kept(values, good, *others, good | {"detail-type": "Canceled"}) == [0, 7]


def test_a_field_that_is_missing_is_null():
    assert kept({"a.b": None}, {}, {"a": {}}, {"a": 1}, {"a": {"b": None}}, {"a": {"b": 0}}) == [0, 1, 2, 3]


def test_the_last_field_of_a_name_counts_as_for_the_decoder():
    assert kept({"v": 1}, b'{"v":2,"v":1}', b'{"v":1,"v":2}') == [0]


def test_a_document_that_is_no_object_has_no_fields():
    assert kept({"v": 1}, b"[1]", b'"v"', b"1", b'{"v":1}') == [3]


@pytest.mark.parametrize(
    "document",
    [b"", b'{"v":1', b'{"v":1}}', b"[1", b"not json", b'{"v":2,"w":x}', b'{"v":"\xff"}', b'["\xff"]'],
)
def test_a_document_that_is_no_json_is_bad_and_not_left_out(document):
    (row,) = decoded([document], Only({"v": 1}))
    assert row["error"].startswith("only: ")
    assert row["data"] == document


def test_a_document_that_is_left_out_is_not_decoded_but_has_its_number():
    kind = spark_type("id int")
    record = b'{"t":"a","id":1}\n{"t":"b","id":"x"}\n{"t":"a","id":"y"}\n{"t":"a","id":4}'
    rows = decoded([record], Split("lines"), Only({"t": "a"}), Json(kind))
    assert [(row["document_number"], row["value"], row["error"]) for row in rows] == [
        (0, {"id": 1}, None),
        (2, None, "json: Expected `int | null`, got `str` - at `$.id`"),
        (3, {"id": 4}, None),
    ]


def test_columns_of_the_source_are_compared_before_records_are_decoded():
    only = Only({"_record.sequence_number": ["0", "2"], "_record.sub_sequence_number": 0})
    (batch,) = raw_table([b"1", b"x", b"y"]).to_batches()
    kind = spark_type("int")
    batches = _decoded_batches(map(only.filtered, iter([batch])), [only, Json(kind)], pa.int32(), ["value"])
    rows = [row for each in batches for row in each.to_pylist()]
    assert [(row["sequence_number"], row["value"]) for row in rows] == [("0", 1), ("2", None)]
    assert only.multiplies is False


def test_a_null_of_a_column_is_compared_too():
    (batch,) = raw_table([b"1", b"2"], [None, "broken"]).to_batches()
    assert Only({"_record.error": None}).filtered(batch)["sequence_number"].to_pylist() == ["0"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "no condition is given"),
        ({"a": []}, "a: no value is given"),
        ({"a": {"b": 1}}, "a: .* is no text, number, true, false or null"),
        ({"a": [["b"]]}, "a: .* is no text"),
        ({"a": float("nan")}, "a: 'nan' is no text"),
        ({"a..b": 1}, "'a..b' is no path"),
        ({'"a.b"': 1}, "is no path, because of the '\"'"),
        ({"a": 1, "a.b": 2}, r"a\.b: a part of this path has a value too"),
        ({"a.b": 1, "a": 2}, "a: a part of this path has a value too"),
        ({"a": 1, "`a`": 2}, "`a`: a part of this path has a value too"),
        ({"_record": 1}, "'_record' is no column of the source"),
        ({"_record.a.b": 1}, r"'_record\.a\.b' is no column of the source"),
    ],
)
def test_conditions_that_cannot_be_are_refused(values, reason):
    with pytest.raises(InvalidInput, match=reason):
        Only(values)


@pytest.mark.parametrize("document", [b"1e%b", b"[1e%b]"])
def test_a_number_that_no_decimal_has_is_no_object(document):
    assert kept({"a": None}, document % (b"9" * 30)) == [0]
    assert kept({"a": 1}, document % (b"9" * 30)) == []


def test_a_document_is_not_repeated_for_more_elements_than_a_job_can_write():
    around, elements = b"x" * 200_000, b",".join([b"1"] * 6000)
    (row,) = decoded([b'{"a":"%b","x":[%b]}' % (around, elements)], Unnest("x"))
    assert (row["document_number"], row["value"]) == (None, None)
    assert row["error"] == (
        "unnest: its 6000 elements would each have 200013 bytes of the document around them, more than "
        "1073741824 together"
    )
