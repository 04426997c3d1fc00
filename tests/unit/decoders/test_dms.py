"""Changes of AWS DMS become rows, or have an error with the path of what does not fit."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from kinesis_assets.decoders.dms import DMS
from support.database_changes import rows_of
from support.spark_types import spark_type

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


def change(operation="update", data=None, before=None, kind="data", **metadata):
    record = {
        "data": data,
        "metadata": {
            "timestamp": "2026-03-04T05:06:07.000089Z",
            "record-type": kind,
            "operation": operation,
            "partition-key-type": "primary-key",
            "schema-name": "sales",
            "table-name": "invoices",
            "transaction-id": 8589934712,
            **metadata,
        },
    }
    if before is not None:
        record["before-image"] = before
    return record


def rows(ddl, *documents, key=("id",)):
    return rows_of(DMS(spark_type(f"id long, {ddl}"), key), *documents)


def value(ddl, content):
    """Return the decoded value of a column, or the reason why it cannot be decoded."""
    [row] = rows(f"a {ddl}", change("load", {"id": 1, "a": content}))
    return row if isinstance(row, str) else row.get("a")


@pytest.mark.parametrize("operation", ["load", "insert", "update", "delete"])
def test_a_change_is_a_row_with_its_operation_and_time(operation):
    assert rows("total int", change(operation, {"id": 4, "total": 7, "other": "x"})) == [
        {"id": 4, "total": 7, "_operation": operation, "_changed_at": MOMENT}
    ]


def test_a_document_may_be_printed_over_several_lines():
    document = json.dumps(change("load", {"id": 4}), indent="\t").replace("\n", "\r\n").encode() + b"\n"
    assert rows("total int", document) == [{"id": 4, "_operation": "load", "_changed_at": MOMENT}]


@pytest.mark.parametrize(
    "operation", ["create-table", "drop-table", "rename-table", "add-column", "anything"]
)
def test_a_control_record_has_no_row(operation):
    record = change(operation, kind="control")
    del record["data"]
    record["control"] = {"table-def": {"columns": {"id": {"type": "INT64", "nullable": False}}}}
    assert rows("total int", record) == []


def test_an_update_that_moves_a_row_deletes_the_one_with_the_old_key():
    document = change("update", {"id": 5, "total": 8}, before={"id": 4, "total": 7})
    assert rows("total int", document) == [
        {"id": 4, "total": 7, "_operation": "delete", "_changed_at": MOMENT},
        {"id": 5, "total": 8, "_operation": "update", "_changed_at": MOMENT},
    ]


@pytest.mark.parametrize(
    ("operation", "before"),
    [
        ("update", {"id": 5, "total": 7}),
        ("update", {"total": 7}),
        ("update", {}),
        ("update", {"id": None}),
        ("insert", {"id": 4}),
        ("load", {"id": 4}),
    ],
)
def test_another_change_with_an_image_before_it_is_one_row(operation, before):
    assert rows("total int", change(operation, {"id": 5}, before=before)) == [
        {"id": 5, "_operation": operation, "_changed_at": MOMENT}
    ]


def test_a_deletion_with_an_image_before_it_is_one_row():
    assert rows("total int", change("delete", {"id": 5}, before={"id": 4})) == [
        {"id": 5, "_operation": "delete", "_changed_at": MOMENT}
    ]


def test_a_row_is_moved_if_one_column_of_its_key_is_another():
    document = change("update", {"id": 5, "line": "2"}, before={"id": 5, "line": "1"})
    assert [(row["line"], row["_operation"]) for row in rows("line int", document, key=("id", "line"))] == [
        (1, "delete"),
        (2, "update"),
    ]


def test_the_case_of_a_key_makes_no_difference():
    found = rows("total int", change("update", {"id": 5}, before={"id": 4}), key=("ID",))
    assert [row["id"] for row in found] == [4, 5]


def test_without_a_key_a_change_is_one_row():
    [row] = rows("total int", change("update", {"id": 5}, before={"id": 4}), key=())
    assert row["id"] == 5


@pytest.mark.parametrize(
    ("ddl", "content", "expected"),
    [
        ("long", 12, 12),
        ("long", "12", 12),
        ("long", "-9223372036854775808", -9223372036854775808),
        ("long", "12.000", 12),
        ("long", 12.0, 12),
        ("short", "1e3", 1000),
        ("decimal(38,2)", f"{'9' * 36}.78", Decimal(f"{'9' * 36}.78")),
        ("decimal(10,2)", 9.99, Decimal("9.99")),
        ("decimal(10,2)", "9.990", Decimal("9.99")),
        ("double", "0.1", 0.1),
        ("double", 0.1, 0.1),
        ("double", 3, 3.0),
        ("float", "0.1", 0.10000000149011612),
        ("string", "12", "12"),
        ("boolean", True, True),
        ("binary", "0xDEADbeef", b"\xde\xad\xbe\xef"),
        ("binary", "0x", b""),
        ("binary", "aGk=", b"hi"),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("timestamp", "2026-03-04T05:06:07.000089999Z", MOMENT),
        ("timestamp_ntz", "2026-03-04T05:06:07", datetime(2026, 3, 4, 5, 6, 7)),  # noqa: DTZ001
        ("int", None, None),
        ("struct<b: array<int>>", {"b": ["1"]}, {"b": [1]}),
        ("variant", {"b": "1"}, '{"b":"1"}'),
    ],
)  # fmt: skip
def test_values(ddl, content, expected):
    assert value(ddl, content) == expected


@pytest.mark.parametrize(
    ("ddl", "content", "reason"),
    [
        ("long", "9223372036854775808", "Number out of range"),
        ("int", 2147483648, "Number out of range"),
        ("int", "1.5", "'1.5' is not an integer"),
        ("int", 1.5, "'1.5' is not an integer"),
        ("int", "", "'' is not a number"),
        ("int", " 1", "' 1' is not a number"),
        ("int", True, "Expected `int`, got `bool`"),
        ("int", [], "Expected `int`, got `list`"),
        ("double", "1e999", "Number out of range"),
        ("double", "NaN", "'NaN' is not a number"),
        ("decimal(4,2)", "9.999", "'9.999' is not a decimal(4,2)"),
        ("decimal(4,2)", "100", "'100' is not a decimal(4,2)"),
        ("string", 1, "Expected `str | null`, got `int`"),
        ("binary", "0xabc", "non-hexadecimal number found in fromhex() arg at position 3"),
        ("binary", "abc", "Invalid base64 encoded string"),
        ("date", "0000-00-00", "Invalid RFC3339 encoded date"),
        ("timestamp", "2026-03-04 05:06:07", "Expected `datetime` with a timezone component"),
    ],
)
def test_values_that_do_not_fit(ddl, content, reason):
    assert value(ddl, content) == f"{reason} - at `$.data.a`"


@pytest.mark.parametrize("content", [{"id": 1}, {"id": 1, "a": None}])
def test_a_required_column_that_is_null_is_an_error(content):
    assert rows("a int not null", change("insert", content)) == [
        "Expected a value of `a`, got `null` - at `$.data`"
    ]


def test_a_deletion_needs_only_the_key():
    assert rows("a int not null", change("delete", {"id": 1})) == [
        {"id": 1, "_operation": "delete", "_changed_at": MOMENT}
    ]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (change("delete", {"a": 1}), "Expected a value of `id`, got `null` - at `$.data`"),
        (change("insert", {"a": 1}), "Expected a value of `id`, got `null` - at `$.data`"),
        (change("insert", None), "Expected `object`, got `null` - at `$.data`"),
        (change("insert", []), "Expected `object | null`, got `array` - at `$.data`"),
        (change("upsert", {"id": 1}), "Invalid enum value 'upsert' - at `$.metadata.operation`"),
        (change(data={"id": 1}, kind="other"), "Invalid enum value 'other' - at `$.metadata.record-type`"),
        (change(timestamp="x"), "Invalid RFC3339 encoded datetime - at `$.metadata.timestamp`"),
        (change(timestamp=None), "Expected `datetime`, got `null` - at `$.metadata.timestamp`"),
        (change(data={"id": 1}, before={"id": "x"}), "'x' is not a number - at `$.before-image.id`"),
        ({"data": {"id": 1}}, "Object missing required field `metadata`"),
        ([], "Expected `object`, got `array`"),
        (b"", "Input data was truncated"),
        (b"{}{}", "Object missing required field `metadata`"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_decoded(document, reason):
    assert rows("a int", document) == [reason]


def test_source_is_the_metadata():
    ddl = "_source struct<`table-name`: string, `transaction-id`: long>"
    [row] = rows(ddl, change("load", {"id": 1}))
    assert row["_source"] == {"table-name": "invoices", "transaction-id": 8589934712}
