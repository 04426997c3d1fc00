"""What a sample of the changes of a database says about its tables."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from kinesis_assets.decoders.sampled_changes import sample_debezium, sample_dms, sample_dynamodb
from kinesis_assets.schemas.ddl import columns
from kinesis_assets.schemas.inference import infer_values
from support.mentions import assert_mentions
from support.sampled_shapes import connect, text


def item(**attributes: Any) -> dict[str, Any]:
    """Return a change of an item of DynamoDB with the key `id`."""
    keys = {"id": {"S": "a"}}
    return {"dynamodb": {"Keys": keys, "NewImage": keys | attributes}}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([{"S": "x"}], "STRING"),
        ([{"S": "2026-05-01"}], "DATE"),
        ([{"N": "1"}, {"N": "-2"}], "BIGINT"),
        ([{"N": "1"}, {"N": "2.50"}], "DECIMAL(38, 1)"),
        ([{"N": "1E+25"}], "DECIMAL(38, 0)"),
        ([{"N": "1E-20"}, {"N": "1E+20"}], "VARIANT"),
        ([{"B": "AA=="}], "BINARY"),
        ([{"BOOL": False}], "BOOLEAN"),
        ([{"NULL": True}, {"BOOL": True}], "BOOLEAN"),
        ([{"SS": ["a"]}], "ARRAY<STRING>"),
        ([{"NS": ["1", "2.25"]}], "ARRAY<DECIMAL(38, 2)>"),
        ([{"BS": ["AA=="]}], "ARRAY<BINARY>"),
        ([{"SS": ["a"]}, {"L": [{"S": "b"}]}], "ARRAY<STRING>"),
        ([{"SS": ["a"]}, {"NS": ["1"]}], "VARIANT"),
        ([{"L": [{"N": "1"}, {"NULL": True}]}], "ARRAY<BIGINT>"),
        ([{"M": {"zip": {"S": "10115"}}}], "STRUCT<zip: STRING>"),
        ([{"M": {}}], "MAP<STRING, VARIANT>"),
        ([{"S": "x"}, {"N": "1"}], "VARIANT"),
    ],
    ids=str,
)
def test_attribute_values_have_the_types_that_their_decoder_takes(values, expected):
    sample = sample_dynamodb(text(*(item(f=value) for value in values)))
    assert columns(infer_values(sample.rows).fields) == f"id STRING, f {expected}"


def test_a_removal_has_the_old_image_or_the_keys():
    keys = {"id": {"S": "a"}}
    removals = [{"Keys": keys, "OldImage": keys | {"n": {"N": "1"}}}, {"Keys": keys}]
    sample = sample_dynamodb(text(*({"dynamodb": each} for each in removals)))
    assert (sample.rows, sample.key) == ([{"id": "a", "n": Decimal(1)}, {"id": "a"}], ("id",))


@pytest.mark.parametrize(
    "value",
    [
        {"N": "x"},
        {"N": "NaN"},
        {"NS": ["Infinity"]},
        {"N": 1},
        {"X": "a"},
        {"S": "a", "N": "1"},
        {},
        "a",
        None,
    ],
    ids=str,
)
def test_what_is_no_attribute_value_is_counted(value):
    sample = sample_dynamodb(text(item(f=value), item()))
    assert len(sample.rows) == 1
    assert_mentions(*sample.notes, "1 changes", "attribute value")


def test_different_keys_are_noted():
    sample = sample_dynamodb(text(item(), {"dynamodb": {"Keys": {"other": {"S": "a"}}}}))
    assert_mentions(*sample.notes, "2 different keys")


def of_dms(operation: str, *, before: Any = None, **data: Any) -> dict[str, Any]:
    image = {} if before is None else {"before-image": before}
    return {"data": data, "metadata": {"record-type": "data", "operation": operation}} | image


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1.5", "2"], "DECIMAL(38, 1)"),
        ([1, "2"], "BIGINT"),
        ([1.5, "2.25", None], "DECIMAL(38, 2)"),
        ([1.5, 2], "DOUBLE"),
        (["10115", "01067"], "STRING"),
        (["10115"], "STRING"),
        ([1, "x"], "VARIANT"),
        ([True, "1.5"], "VARIANT"),
        (["2026-05-01T08:00:00Z"], "TIMESTAMP"),
    ],
    ids=str,
)
def test_texts_are_numbers_if_the_column_has_numbers(values, expected):
    sample = sample_dms(text(*(of_dms("insert", f=value) for value in values)))
    assert columns(infer_values(sample.rows).fields) == f"f {expected}"


def test_a_number_with_more_digits_than_a_double_is_exact():
    document = (
        b'{"data": {"f": 0.12345678901234567890}, "metadata": {"record-type": "data", "operation": "load"}}'
    )
    (field,) = infer_values(sample_dms([document]).rows).fields
    assert field.type == "DECIMAL(38, 19)"


@pytest.mark.parametrize(
    ("changes", "key", "by"),
    [
        ([of_dms("update", before={"no": 1}, no=1, size=2)], ["no"], "what 1 rows before changes have"),
        (
            [of_dms("insert", no=1, part=2, size=3, color=4), of_dms("delete", no=1, part=2, size=None)],
            ["no", "part"],
            "what 1 rows before changes have",
        ),
        ([of_dms("delete", no=1, order_id=2)], ["order_id"], "its name"),
        ([of_dms("insert", order_id=None, ID=2)], ["ID"], "its name"),
        ([of_dms("insert", order_id=1), of_dms("insert", order_id=None)], [], ""),
        ([of_dms("insert", paid=1)], [], ""),
        ([], [], ""),
    ],
    ids=["images before updates", "deletions", "whole rows", "a name", "nulls", "no such name", "nothing"],
)
def test_the_key_is_what_the_database_logs_alone_or_has_the_name_of_one(changes, key, by):
    sample = sample_dms(text(*changes))
    assert (sample.key, sample.key_shown_by) == (key, by)


def test_control_records_have_no_row_and_others_without_data_are_counted():
    control = {"metadata": {"record-type": "control", "operation": "drop-table"}}
    sample = sample_dms(text(control, {"metadata": {"record-type": "data", "operation": "load"}}))
    assert sample.rows == []
    assert_mentions(*sample.notes, "1 changes have no row")


def of_debezium(payload: dict[str, Any], *fields: dict[str, Any], is_flat: bool = False) -> dict[str, Any]:
    of_row = [*fields] if is_flat else [{"field": "after", "type": "struct", "fields": fields}]
    return {"schema": {"type": "struct", "fields": of_row}, "payload": payload}


DECIMAL = "org.apache.kafka.connect.data.Decimal"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (connect("f", "boolean"), "BOOLEAN"),
        (connect("f", "int16"), "SMALLINT"),
        (connect("f", "int32"), "INT"),
        (connect("f", "double"), "DOUBLE"),
        (connect("f", "bytes"), "BINARY"),
        (connect("f", "string", "io.debezium.data.Json"), "STRING"),
        (connect("f", "string", "io.debezium.time.ZonedTimestamp"), "TIMESTAMP"),
        (connect("f", "int64", "io.debezium.time.NanoTimestamp"), "TIMESTAMP_NTZ"),
        (connect("f", "int64", "io.debezium.time.MicroTime"), "BIGINT"),
        (connect("f", "bytes", DECIMAL, scale="4"), "DECIMAL(38, 4)"),
        (connect("f", "bytes", DECIMAL, **{"scale": "4", "connect.decimal.precision": "9"}), "DECIMAL(9, 4)"),
        ({"field": "f", "type": "array", "items": {"type": "int64"}}, "ARRAY<BIGINT>"),
        ({"field": "f", "type": "map", "values": {"type": "string"}}, "MAP<STRING, STRING>"),
        (
            {"field": "f", "type": "struct", "fields": [connect("x", "double"), connect("y", "double")]},
            "STRUCT<x: DOUBLE, y: DOUBLE>",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("is_flat", [False, True], ids=["envelope", "flat"])
def test_the_schema_in_a_record_has_the_types(field, expected, is_flat):
    payload = {"f": None, "__op": "c"} if is_flat else {"op": "c", "after": {"f": None}}
    marks = [connect("__op", "string")] if is_flat else []
    sample = sample_debezium(text(of_debezium(payload, field, *marks, is_flat=is_flat)))
    assert sample.types == {"f": expected}
    assert sample.notes == []


@pytest.mark.parametrize(
    "field",
    [
        connect("f", "bytes", DECIMAL),
        connect("f", "bytes", DECIMAL, **{"scale": "2", "connect.decimal.precision": "60"}),
        {"field": "f", "type": "array"},
        {"field": "f"},
    ],
    ids=["no scale", "too many digits", "no elements", "no type"],
)
def test_a_schema_that_no_type_represents_is_left_to_the_values(field):
    assert sample_debezium(text(of_debezium({"op": "c", "after": {"f": "x"}}, field))).types == {}


def test_values_that_are_not_available_are_none():
    after = {"id": 1, "bio": "__debezium_unavailable_value"}
    assert sample_debezium(text({"op": "u", "after": after})).rows == [{"id": 1}]


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ({"op": "c", "before": None, "after": {"id": 1}}, {"id": 1}),
        ({"op": "d", "before": {"id": 2}, "after": None}, {"id": 2}),
        ({"op": "c", "after": json.dumps({"_id": 3})}, {"_id": 3}),
        ({"id": 4, "__op": "c", "__source_lsn": 9}, {"id": 4}),
        ({"schema": None, "payload": {"op": "r", "after": {"id": 5}}}, {"id": 5}),
    ],
    ids=["envelope", "deletion", "MongoDB", "flat", "without a schema"],
)
def test_a_change_has_the_row_after_it_or_the_deleted_one(change, row):
    assert sample_debezium(text(change)).rows == [row]


def test_changes_without_a_schema_have_a_note_on_dates_and_decimals():
    assert_mentions(*sample_debezium(text({"op": "c", "after": {"id": 1}})).notes, "no schema", "DECIMAL")
