"""Changes of databases, out of order and repeated, become the rows that the database has in the end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

BAD_STOCK = "dynamodb: Object contains unknown field `S` - at `$.dynamodb.NewImage.stock`"


def documents(*changes) -> list[bytes]:
    return [each if isinstance(each, bytes) else json.dumps(each).encode() for each in changes]


def dynamodb(name, sku, at, **image):
    change = {
        "ApproximateCreationDateTime": 1_780_000_000_000_000 + at,
        "ApproximateCreationDateTimePrecision": "MICROSECOND",
        "Keys": {"sku": {"S": sku}},
    }
    if name != "REMOVE":
        change["NewImage"] = {**change["Keys"], **image}
    return {"eventName": name, "dynamodb": change}


def test_changes_of_dynamodb(typed):
    settings = {"format": "dynamodb", "key": ["sku"], "deleted_for": "1 day"}
    schema = "sku STRING, stock DECIMAL(38, 3), sizes ARRAY<STRING>, size STRUCT<cm: INT>"
    inserted = dynamodb("INSERT", "a", 1, stock={"N": "1"})
    removed = dynamodb("REMOVE", "b", 9)
    first = documents(
        inserted,
        dynamodb("MODIFY", "a", 7, stock={"N": "1E+3"}, sizes={"SS": ["m", "s"]}),
        inserted,
        dynamodb("INSERT", "b", 2, stock={"N": "2"}),
        removed,
        dynamodb("INSERT", "c", 3, stock={"N": "0.001"}, size={"M": {"cm": {"N": "12"}}}),
        dynamodb("INSERT", "d", 4, stock={"S": "none"}),
    )
    second = documents(
        dynamodb("MODIFY", "b", 8, stock={"N": "5"}),
        dynamodb("MODIFY", "a", 6, stock={"N": "4"}),
        dynamodb("MODIFY", "c", 10, stock={"NULL": True}),
        removed,
    )
    for step in (first, second):
        typed.consume(*step, schema=schema, **settings)
    assert typed.values("sku", "stock", "sizes", "size", "_operation", "error") == [
        ("a", Decimal("1000.000"), ["m", "s"], None, "update", None),
        ("c", None, None, None, "update", None),
        (None, None, None, None, None, BAD_STOCK),
    ]


def dms(operation, second, data=None, before=None, kind="data"):
    change = {
        "metadata": {
            "record-type": kind,
            "operation": operation,
            "timestamp": f"2026-02-03T04:05:{second:02}Z",
        }
    }
    if data is not None:
        change["data"] = data
    if before is not None:
        change["before-image"] = before
    return change


def test_changes_of_dms(typed):
    settings = {"format": "dms", "key": ["no"], "on_bad_record": "separate"}
    settings["select"] = ["invoice AS no", "total", "_operation", "_changed_at"]
    first = documents(
        dms("drop-table", 0, kind="control"),
        dms("create-table", 0, kind="control"),
        dms("load", 1, {"invoice": 1, "total": "10.50"}),
        dms("load", 1, {"invoice": 2, "total": 20}),
        dms("load", 1, {"invoice": 3, "total": 30}),
        dms("insert", 5, {"invoice": 4, "total": 40}),
        dms("delete", 5, {"invoice": 4, "total": 40}),
        dms("insert", 5, {"invoice": "five"}),
    )
    second = documents(
        dms("update", 6, {"invoice": 1, "total": "11.5"}),
        dms("update", 6, {"invoice": 1, "total": "12.5"}),
        dms("update", 4, {"invoice": 1, "total": 9}),
        dms("delete", 7, {"invoice": 2}),
        dms("update", 8, {"invoice": 7, "total": 30}, before={"invoice": 3}),
    )
    for step in (first, second):
        typed.consume(*step, schema="invoice BIGINT, total DECIMAL(10, 2)", **settings)
    at = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert typed.columns == ["no", "total", "_operation", "_changed_at"]
    assert typed.values("no", "total", "_operation", "_changed_at") == [
        (1, Decimal("12.50"), "update", at),
        (7, Decimal("30.00"), "update", at.replace(second=8)),
    ]


def debezium(op, lsn, after=None, before=None):
    return {
        "payload": {"op": op, "before": before, "after": after, "source": {"lsn": lsn, "ts_ms": lsn}},
        "schema": {},
    }


def test_changes_of_debezium(typed):
    settings = {"format": "debezium", "key": ["id"], "only": {"payload.source.table": [None, "people"]}}
    settings["select"] = [
        "id",
        "CAST(balance AS STRING) AS balance",
        "bio AS about",
        "_operation",
        "_position",
    ]
    schema = "id BIGINT, balance DECIMAL(10, 2), bio STRING NOT NULL"
    ann = {"id": 1, "balance": "BNI=", "bio": "a long story"}
    first = documents(
        debezium("r", 9, ann),
        debezium("c", 11, {"id": 3, "balance": 3, "bio": "c"}),
        debezium("c", 10, {"id": 2, "balance": 2, "bio": "b"}),
        b"",
        {"ts_ms": 1_780_000_000_000},
    )
    other = debezium("c", 12, {"id": "of another table"})
    other["payload"]["source"]["table"] = "places"
    second = documents(
        other,
        debezium("u", 20, {**ann, "balance": "+y4=", "bio": "__debezium_unavailable_value"}),
        debezium("u", 15, {**ann, "bio": "of before"}),
        debezium("d", 21, before={"id": 2}),
        b"default",
        debezium("u", 22, {"id": 7, "balance": 3, "bio": "c"}, before={"id": 3, "bio": "c"}),
        debezium("t", 23),
    )
    for step in (first, second):
        typed.consume(*step, schema=schema, **settings)
    assert "_unchanged" not in typed.columns
    assert typed.values("id", "balance", "about", "_operation", "_position", "document_number") == [
        (1, "-12.34", "a long story", "update", "00000000000000000020", None),
        (7, "3.00", "c", "update", "00000000000000000022", None),
        (None, None, None, None, None, 0),
    ]
    assert "was truncated" in next(error for error in typed.values("error") if error)
