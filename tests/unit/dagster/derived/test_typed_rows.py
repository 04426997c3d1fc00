"""The column lineage of typed tables."""

from __future__ import annotations

import dagster as dg
import pytest

from kinesis_assets.dagster.derived.selected_columns import columns_of_fields
from kinesis_assets.dagster.derived.typed_rows import column_lineage, lineage_of_errors
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.schemas.ddl import KEEPING, parse_columns

RAW = dg.AssetKey(["kinesis", "clicks_raw"])
FIELDS = "id BIGINT NOT NULL, `a b` STRING, amount DECIMAL(10, 2), address STRUCT<city: STRING, zip: STRING>"


def sources(fields: str = FIELDS, /, **settings) -> dict[str, str]:
    """The column of the source from which each column is, for a table with these settings."""
    defaults = {"name": "clicks", "source": "clicks", "table": "/clicks", "on_bad_record": "fail"}
    decoding = {"format": "json", "schema": fields} if settings.get("format", "json") else {}
    lineage = column_lineage(TableSettings(**defaults | decoding | settings), parse_columns(fields))
    if lineage is None:
        return {}
    return {name: dep.column_name for name, (dep,) in lineage.deps_by_column.items()}


def test_all_fields_are_from_the_payload():
    assert sources() == dict.fromkeys(["id", "a b", "amount", "address"], "data")


def test_a_table_that_keeps_bad_records_passes_on_their_columns():
    kept = sources("id BIGINT", on_bad_record="keep")
    assert kept == {"id": "data"} | {name: name for name in KEEPING if name != "error"} | {"error": "data"}


@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("id", {"id": "data"}),
        ("id AS order_id", {"order_id": "data"}),
        ("`a b` as ab", {"ab": "data"}),
        ("CAST(amount AS DECIMAL(12, 2)) AS price", {"price": "data"}),
        ("try_cast(shard_id AS INT) AS `shard no`", {"shard no": "shard_id"}),
        ("shard_id", {"shard_id": "shard_id"}),
        ("Shard_Id AS shard", {"shard": "shard_id"}),
        ("_record.Shard_Id AS shard", {"shard": "shard_id"}),
        ("ID AS order_id", {"order_id": "data"}),
        ("approximate_arrival_timestamp AS at", {"at": "approximate_arrival_timestamp"}),
        ("_record.shard_id", {"shard_id": "shard_id"}),
        ("amount / 100 AS total", {}),
        ("upper(shard_id) AS shard", {}),
    ],
)
def test_a_column_that_is_selected_renamed_or_cast_has_a_lineage(expression, column):
    assert sources(select=[expression]) == column


def test_a_field_hides_the_column_of_the_source_with_its_name():
    select = ["stream", "_record.stream AS of"]
    assert sources("Stream STRING, id BIGINT", select=select) == {"stream": "data", "of": "stream"}


def test_a_table_below_a_derived_table_has_its_lineage_there():
    settings = TableSettings(
        name="small", source="clicks", table="/small", upstream="shop/clicks", select=["id AS click"]
    )
    lineage = column_lineage(settings, None)
    (dep,) = lineage.deps_by_column["click"]
    assert (dep.asset_key, dep.column_name) == (dg.AssetKey(["shop", "clicks"]), "id")


def test_an_unknown_column_of_the_raw_table_has_no_lineage():
    assert sources(format=None, select=["nothing", "batch_id"], on_bad_record="keep") == {
        "batch_id": "batch_id"
    }


def test_a_table_of_errors_passes_on_the_columns_of_the_raw_table():
    found = {name: dep.column_name for name, (dep,) in lineage_of_errors(RAW).deps_by_column.items()}
    assert (found["sequence_number"], found["error"]) == ("sequence_number", "data")
    assert {"stream", "batch_id"}.isdisjoint(found)


@pytest.mark.parametrize(
    ("select", "columns"),
    [
        ([], {}),
        (["*"], {}),
        (["id", "`A b`", "upper(id) AS id2"], {"id": ["id"], "a b": ["A b"]}),
        (["id AS order_id", "CAST(amount AS DOUBLE) AS price"], {"id": ["order_id"], "amount": ["price"]}),
        (["amount", "TRY_CAST(amount AS INT) AS whole"], {"amount": ["amount", "whole"]}),
        (["*", "`a b` AS ab"], {"a b": ["a b", "ab"]}),
        (["_record.stream AS id"], {}),
    ],
)
def test_the_columns_that_are_fields_are_found(select, columns):
    assert columns_of_fields(select) == columns
