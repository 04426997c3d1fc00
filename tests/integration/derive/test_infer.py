"""The proposal of `infer` decodes the records from which it was inferred."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F  # noqa: N812  # as everywhere

from kinesis_assets.dagster.derived.typed_rows import RoutedRows, TypedRows, rows_of_router
from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.decoders.proposal import propose
from kinesis_assets.derive.row_order import ORDER_COLUMN
from support.raw_rows import raw_table
from support.sampled_shapes import SHAPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

RECORDS = [
    {
        "order_id": 1,
        "amount": 2,
        "at": "2026-01-31T12:00:00Z",
        "day": "2026-01-31",
        "local": "2026-01-31 12:00:00",
        "lines": [{"sku": "a", "price per unit": 1.5}, {"sku": None}],
        "customer": {"id": 2**70, "tags": [], "vip": True, "address": {}},
        "timestamp": None,
        "order": "x",
        "interval": 1,
        "a.b": 1,
        "data": "x",
        "error": {"code": 1},
        "über": 1,
        "a b": 1,
        "a_b": 2,
        "__typename": "Order",
        "_record": 1,
        "`": {"x.y": [10**400]},
        "mixed": 1.25,
        "list": [1, "1", {"deep": [True]}, None],
        "empty": {},
    },
    {
        "order_id": 2,
        "amount": 2.5,
        "lines": None,
        "customer": None,
        "timestamp": "now",
        "late": {"x": [[1]]},
        "mixed": "1.25",
    },
    {"order_id": 3, "amount": 3, "mixed": {"a": None}, "list": "none"},
]


def test_every_record_of_the_sample_is_decoded(bench, derived, cli):
    bench.put(*(json.dumps(record).encode() for record in RECORDS))
    bench.run()
    place = ["--table", bench.table.uri, "--endpoint-url", bench.settings.endpoint_url]
    done = cli("infer", "--stream", bench.stream, *place)
    attributes = yaml.safe_load(done.out)["attributes"]
    settings = TableSettings(**attributes)
    derived.run(transform=TypedRows(settings, attributes["schema"]).of_table)
    assert derived.values("error") == [None, None, None]
    rows = {row["order_id"]: row for row in derived.rows.to_pylist()}
    assert (rows[1]["a_b__"], rows[1]["data_"], rows[1]["error_"]) == (1, "x", {"code": 1})
    assert (rows[1]["a_b_"], rows[1]["a_b"], rows[1]["_typename"]) == (1, 2, "Order")
    assert rows[1]["customer"]["id"] == 2**70
    assert rows[1]["über"] == 1
    assert (rows[2]["amount"], rows[2]["late"]) == (2.5, {"x": [[1]]})
    assert [rows[id_]["mixed"] for id_ in (1, 2, 3)] == ["1.25", '"1.25"', '{"a":null}']
    assert [rows[id_]["list"] for id_ in (1, 2, 3)] == ['[1,"1",{"deep":[true]},null]', None, '"none"']


def values_of(rows: DataFrame) -> list[dict[str, Any]]:
    """Return the values of good rows that are not null, without the numbers of documents."""
    found = rows.toArrow().to_pylist(maps_as_pydicts="strict")
    return [
        {name: value for name, value in row.items() if value is not None and name != "document_number"}
        for row in found
        if row["error"] is None
    ]


def rows_of(proposed: Mapping[str, Any], raw: DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the proposed tables."""
    if "routes" not in proposed:
        typed = TypedRows(TableSettings(**proposed), proposed["schema"])
        return {"typed": values_of(typed.of_table(raw).rows)}
    settings = RoutesSettings(**proposed)
    routed = rows_of_router(settings, raw.withColumn(ORDER_COLUMN, F.lit(""))).rows
    return {
        str(table.match): values_of(
            RoutedRows(table, str(table.schema_)).of_table(routed.where(F.col("route") == table.match)).rows
        )
        for table in settings.tables
    }


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.rows])
def test_the_proposed_tables_have_the_rows_of_the_sample(spark, compiled, tmp_path, name):
    del compiled
    shape = SHAPES[name]
    (tmp_path / "18.json").write_text('{"type": "object"}')
    proposed = dict(propose(shape.records, "depot", "depot", "./depot").attributes)
    if "registry" in proposed:
        proposed["registry"] = {"folder": str(tmp_path)}
    raw = spark.createDataFrame(raw_table(shape.records))
    assert rows_of(proposed, raw) == shape.rows
