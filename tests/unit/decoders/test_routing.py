"""The route of each document, as the task of a router finds it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from kinesis_assets.decoders.routing import Routing
from kinesis_assets.derive.data_files import COMMIT_ORDER_COLUMN
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.derive.row_order import ORDER_COLUMN
from kinesis_assets.table.schema import COLUMNS
from support.raw_rows import raw_table

NAMES = [column.name for column in COLUMNS]


def routed(
    path: str, routes: dict[Any, str], *data: bytes, errors: list[str | None] | None = None
) -> list[dict[str, Any]]:
    rows = raw_table(data, errors)
    rows = rows.append_column(ORDER_COLUMN, pa.array(["1001"] * len(data)))
    routing = Routing(path, list(routes.items()), NAMES, ORDER_COLUMN, COMMIT_ORDER_COLUMN, ROUTE_COLUMN)
    return [row for batch in routing.batches(iter(rows.to_batches()), NAMES) for row in batch.to_pylist()]


DOCUMENTS = {
    "a text": (b'{"type": "order", "id": 1}', "order"),
    "a text with escapes": (b'{"type": "\\u006frder"}', "order"),
    "an integer": (b'{"type": 3}', "3"),
    "the same number": (b'{"type": 3.0}', "3"),
    "true": (b'{"type": true}', "true"),
    "another text": (b'{"type": "refund"}', None),
    "the text of a number": (b'{"type": "3"}', None),
    "one instead of true": (b'{"type": 1}', None),
    "an object": (b'{"type": {"order": 1}}', None),
    "an array": (b'{"type": ["order"]}', None),
    "null": (b'{"type": null}', None),
    "no field": (b'{"kind": "order"}', None),
    "no object": (b'["order"]', None),
    "a text only": (b'"order"', None),
    "the last of two fields": (b'{"type": "refund", "type": "order"}', "order"),
}


@pytest.mark.parametrize(("document", "route"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_has_the_route_of_the_value_of_its_field(document, route):
    (row,) = routed("type", {"order": "order", 3: "3", True: "true"}, document)
    assert (row["route"], row["error"]) == (route, None)


def test_a_field_may_be_in_objects_and_have_any_name():
    documents = b'{"detail": {"a.b": {"kind": "x"}}}', b'{"detail": "x"}', b'{"detail": {"a.b": ["x"]}}'
    assert [row["route"] for row in routed("detail.`a.b`.kind", {"x": "x"}, *documents)] == ["x", None, None]


@pytest.mark.parametrize(
    "document", [b"1e%b", b"[1e%b]", b'{"a": 1e%b}', b'{"a": [1e%b]}', b'{"a": {"b": 1e%b}}']
)
def test_a_number_that_no_decimal_has_is_another_value(document):
    (row,) = routed("a.b", {"x": "x"}, document % (b"9" * 30))
    assert (row["route"], row["error"]) == (None, None)


@pytest.mark.parametrize(
    "document",
    [
        *(b"not json", b'{"type": "order"', b'{"type": "order"} x', b"", b"[" * 9999),
        *(b'{"type": "\xff"}', b'["\xff"]'),
    ],
)
def test_a_record_that_is_no_json_has_no_route_but_an_error(document):
    bad, good = routed("type", {"order": "order"}, document, b'{"type": "order"}')
    assert bad["route"] is None
    assert bad["error"].startswith("route_by: ")
    assert bad["data"] == document
    assert (good["route"], good["error"]) == ("order", None)


def test_a_damaged_record_has_no_route_and_keeps_its_error():
    (row,) = routed("type", {"order": "order"}, b'{"type": "order"}', errors=["damaged"])
    assert (row["route"], row["error"]) == (None, "damaged")
    (row,) = routed("_record.partition_key", {"k": "k"}, b"x", errors=["damaged"])
    assert (row["route"], row["error"]) == (None, "damaged")


def test_records_are_routed_by_a_column_of_the_source_whatever_they_are():
    assert [row["route"] for row in routed("_record.partition_key", {"k": "k"}, b"\x00", b"{")] == ["k", "k"]
    assert [row["route"] for row in routed("_record.partition_key", {"x": "x"}, b"{}")] == [None]
    assert [row["route"] for row in routed("_record.sub_sequence_number", {0: "0"}, b"{}")] == ["0"]


def test_rows_keep_the_columns_of_the_source_and_the_order_of_the_commits():
    (row,) = routed("type", {"order": "order"}, b'{"type": "order"}')
    assert list(row) == [*NAMES, "commit_order", "route"]
    assert (row["commit_order"], row["sequence_number"], row["batch_id"]) == ("1001", "0", 7)


@pytest.mark.slow
def test_large_values_are_not_remembered():
    rows = raw_table([b'{"type": "%s%06d"}' % (b"x" * 1_000_000, number) for number in range(40)])
    rows = rows.append_column(ORDER_COLUMN, pa.array(["1001"] * 40))
    routing = Routing("type", [("x", "x")], NAMES, ORDER_COLUMN, COMMIT_ORDER_COLUMN, ROUTE_COLUMN)
    batches = routing.batches(iter(rows.to_batches(max_chunksize=1)), NAMES)
    next(batches)
    tracemalloc.start()
    assert sum(batch.num_rows for batch in batches) == 39
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000
