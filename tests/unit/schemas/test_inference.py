"""The Spark type of a sample of JSON documents."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from kinesis_assets.schemas.ddl import column_names, columns
from kinesis_assets.schemas.inference import Inference, infer_values, read_document
from support.mentions import assert_mentions


def inferred(*values: Any) -> Inference:
    """The type of documents with a field `f`."""
    return infer_values([read_document(json.dumps({"f": value}).encode()) for value in values])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, -2], "BIGINT"),
        ([2**63], "DECIMAL(38, 0)"),
        ([1, 2**64], "DECIMAL(38, 0)"),
        ([10**40], "DOUBLE"),
        ([1.5, 1], "DOUBLE"),
        ([1.5, 2**64], "DOUBLE"),
        ([True, False], "BOOLEAN"),
        (["a", "1"], "STRING"),
        (["2026-01-31"], "DATE"),
        (["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+01:00"], "TIMESTAMP"),
        (["2026-01-31T12:00:00"], "TIMESTAMP_NTZ"),
        (["2026-01-31", "2026-01-31T12:00:00Z"], "STRING"),
        (["2026-01-31T12:00:00Z", "2026-01-31T12:00:00"], "STRING"),
        (["2026-01-31", "soon"], "STRING"),
        (["2026-02-30"], "STRING"),
        ([None, 1, None], "BIGINT"),
        ([None], "STRING"),
        ([[1], [2, None]], "ARRAY<BIGINT>"),
        ([[1], [2.5]], "ARRAY<DOUBLE>"),
        ([[]], "ARRAY<STRING>"),
        ([[[1]]], "ARRAY<ARRAY<BIGINT>>"),
        ([{"a": 1}, {"b c": "x"}, {}], "STRUCT<a: BIGINT, `b c`: STRING>"),
        ([{"a": {"b": [{"c": True}]}}], "STRUCT<a: STRUCT<b: ARRAY<STRUCT<c: BOOLEAN>>>>"),
        ([{}], "MAP<STRING, VARIANT>"),
        ([[{}], [{"": 1}]], "ARRAY<MAP<STRING, VARIANT>>"),
    ],
    ids=str,
)
def test_a_field_has_the_type_of_its_values(values, expected):
    result = inferred(*values)
    assert columns(result.fields) == f"f {expected}"
    assert [note for note in result.notes if "different types" in note] == []


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([1, "a", "b"], "STRING (2), BIGINT (1)"),
        ([True, 1], "BOOLEAN (1), BIGINT (1)"),
        ([{"a": 1}, [1]], "STRUCT (1), ARRAY (1)"),
        (["2026-01-31", 1], "DATE (1), BIGINT (1)"),
    ],
    ids=str,
)
def test_values_of_different_types_are_variants_with_a_note(values, note):
    result = inferred(*values)
    assert columns(result.fields) == "f VARIANT"
    (sentence,) = result.notes
    assert_mentions(sentence, "f ", note, "VARIANT")


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"9" * 400], ids=["1e400", "-1e400", "400 digits"])
def test_a_number_beyond_the_floats_is_a_variant(number):
    assert columns(infer_values([read_document(b'{"f": %s}' % number)]).fields) == "f VARIANT"


def test_a_note_names_the_place():
    (note,) = inferred({"a": [{"b": 1}, {"b": "x"}]}).notes
    assert note.startswith("f.a[].b has values")


@pytest.mark.parametrize("document", [b"", b"{", b"\xff", b'{"f": 1e99999999999999999999}'])
def test_a_document_that_is_no_json_is_not_read(document):
    assert read_document(document) is None


def test_of_fields_that_differ_by_case_only_the_first_is_used():
    result = infer_values([{"id": 1, "ID": "a"}])
    assert columns(result.fields) == "id BIGINT"
    (note,) = result.notes
    assert note.startswith("ID ")
    assert note.endswith(" id")


@pytest.mark.parametrize("name", ["", "_record", "_RECORD"])
def test_a_field_whose_name_no_column_can_have_is_left_out(name):
    result = infer_values([{"id": 1, name: {"_record": 2}}])
    assert columns(result.fields) == "id BIGINT"
    (note,) = result.notes
    assert "left out" in note


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        (["order_id"], ["order_id"]),
        (["order id"], ["order_id"]),
        (["a.b"], ["a_b"]),
        (["Error", "data"], ["Error_", "data_"]),
        (["__typename", "__record"], ["_typename", "_record_"]),
        (["a b", "a_b", "A.B"], ["a_b_", "a_b", "A_B__"]),
        (["error", "error_"], ["error__", "error_"]),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_a_column_gets_another_name_that_no_other_has(fields, names):
    assert column_names(fields) == dict(zip(fields, names, strict=True))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([Decimal("1.50"), Decimal(2)], "DECIMAL(38, 1)"),
        ([Decimal("2E+1")], "BIGINT"),
        ([Decimal("1E+37")], "DECIMAL(38, 0)"),
        ([Decimal("1E+38")], "VARIANT"),
        ([Decimal("0.25"), 1.125], "DECIMAL(38, 3)"),
        ([Decimal("0.5"), 1e300], "VARIANT"),
        ([Decimal(f"{10**30 + 1}.5")], "DECIMAL(38, 1)"),
        ([Decimal("1.0000000000000000000000000000000000001")], "DECIMAL(38, 37)"),
        ([Decimal("0.00001"), Decimal("-123.0")], "DECIMAL(38, 5)"),
        ([Decimal("0.5"), 10**36], "DECIMAL(38, 1)"),
        ([Decimal("0.5"), 10**38 - 1], "VARIANT"),
        ([b"x"], "BINARY"),
        ([b"x", "x"], "VARIANT"),
    ],
    ids=str,
)
def test_exact_numbers_are_decimals_with_all_their_digits(values, expected):
    assert columns(infer_values([{"f": value} for value in values]).fields) == f"f {expected}"


def test_values_of_different_types_may_have_another_type_than_variant():
    found = infer_values([{"f": 1}, {"f": "x"}], "STRING")
    assert columns(found.fields) == "f STRING"
    assert_mentions(*found.notes, "STRING keeps their text")


def test_the_evidence_is_the_number_of_values_of_each_type():
    found = infer_values([{"a": 1, "b": None}, {"a": 2}, {"a": 2.5, "b": "x"}])
    assert found.evidence == {"a": "2 BIGINT, 1 DOUBLE", "b": "1 STRING, 2 without a value"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.5, 10**16 + 1], "DECIMAL(38, 1)"),
        ([0.5, 10**14], "DOUBLE"),
        ([1e20, 0.5], "DOUBLE"),
        ([10**16 + 1], "BIGINT"),
    ],
    ids=str,
)
def test_integers_keep_their_digits_among_fractions_if_they_must(values, expected):
    documents = [{"f": value} for value in values]
    assert columns(infer_values(documents, exact=True).fields) == f"f {expected}"
    assert "DECIMAL" not in columns(infer_values(documents).fields)
