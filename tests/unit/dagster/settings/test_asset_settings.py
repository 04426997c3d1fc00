"""Groups, owners, tags, kinds and descriptions of assets, and Dagster's standard metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kinesis_assets import build_kinesis_stream, derived_table, rollup
from kinesis_assets.dagster.events.table_metadata import derived_columns
from kinesis_assets.derive.data_files import BATCH_COLUMN, COMMIT_ORDER_COLUMN, FOUND_COLUMN
from kinesis_assets.derive.policy import ROUTE_COLUMN
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import DOCUMENT_NUMBER
from kinesis_assets.table.column_schemas import schema_of
from kinesis_assets.table.data_file import TABLE_SCHEMA
from kinesis_assets.table.schema import COLUMNS
from support.stream_names import raw_key, stream_key

if TYPE_CHECKING:
    import dagster as dg

ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/clicks"
SETTINGS = {
    "group_name": "shop",
    "owners": ["team:shop", "ada@example.com"],
    "tags": {"domain": "shop"},
    "kinds": ["deltalake", "bronze"],
    "description": "All clicks.",
}


def raw_spec(stream: str = "clicks", **settings) -> dg.AssetSpec:
    definitions = build_kinesis_stream(stream, table="s3://lake/raw/clicks", **settings)
    return (
        definitions.resolve_asset_graph().get(raw_key("clicks")).assets_def.get_asset_spec(raw_key("clicks"))
    )


def test_the_raw_asset_has_the_settings():
    spec = raw_spec(**SETTINGS)
    assert (spec.group_name, spec.owners) == ("shop", SETTINGS["owners"])
    assert spec.tags["domain"] == "shop"
    assert (spec.kinds, spec.description) == ({"deltalake", "bronze"}, "All clicks.")


def test_the_asset_of_the_stream_is_in_the_same_group_and_has_the_same_owners_and_tags():
    graph = build_kinesis_stream("clicks", table="/clicks", **SETTINGS).resolve_asset_graph()
    node = graph.get(stream_key("clicks"))
    assert (node.group_name, list(node.owners), node.tags["domain"]) == ("shop", SETTINGS["owners"], "shop")
    assert node.kinds == {"aws", "kinesis"}


def test_by_default_the_group_is_the_stream_and_the_description_names_it():
    spec = raw_spec(ARN)
    assert (spec.group_name, spec.kinds) == ("clicks", {"pyspark", "deltalake"})
    assert ARN in spec.description


@pytest.mark.parametrize("decorator", [derived_table, rollup], ids=["derived_table", "rollup"])
def test_a_derived_table_has_the_settings(decorator):
    more = {} if decorator is derived_table else {"by": ["day"]}

    @decorator(source="clicks", table="/derived", **more, **SETTINGS)
    def visits(rows):
        """Not shown."""
        return rows

    spec = visits.get_asset_spec()
    assert (spec.group_name, spec.owners, spec.kinds) == ("shop", SETTINGS["owners"], {"deltalake", "bronze"})
    assert (spec.tags["domain"], spec.description) == ("shop", "All clicks.")


@pytest.mark.parametrize(
    ("setting", "value"),
    [("group_name", "a b"), ("owners", ["ada"]), ("tags", {"a b": "c"})],
)
def test_an_invalid_setting_is_refused_with_its_name(setting, value):
    with pytest.raises(InvalidInput, match=f"^{setting}: .*[Ii]nvalid|^{setting}: .*not a valid") as caught:
        build_kinesis_stream("clicks", table="/clicks", **{setting: value})
    assert "AssetKey" not in str(caught.value)


def columns_of(*fields: tuple[str, str]) -> dict[str, str | None]:
    """Return the descriptions of the columns of a derived table."""
    given = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in fields]
    return {column.name: column.description for column in derived_columns({"fields": given}).columns}


def test_every_column_of_the_raw_asset_has_a_description():
    schema = raw_spec().metadata["dagster/column_schema"]
    assert {column.name: column.description for column in schema.columns} == {
        column.name: column.description for column in COLUMNS
    }


def test_raw_and_derived_tables_have_the_same_names_of_types():
    derived = derived_columns(schema_of(TABLE_SCHEMA))
    types = {column.name: column.type for column in raw_spec().metadata["dagster/column_schema"].columns}
    assert {column.name: column.type for column in derived.columns} == types


def test_every_column_that_tables_add_has_a_description():
    texts = [(name, "string") for name in ("schema_id", COMMIT_ORDER_COLUMN, ROUTE_COLUMN)]
    numbers = [(DOCUMENT_NUMBER, "integer"), (FOUND_COLUMN, "long"), (BATCH_COLUMN, "long")]
    columns = columns_of(*texts, *numbers)
    assert all(columns.values())


def test_a_column_of_another_kind_has_no_description_of_its_namesake():
    assert columns_of(("data", "string"), ("stream", "integer"), ("route", "string")) == {
        "data": None,
        "stream": None,
        "route": None,
    }
    assert columns_of(("data", "binary"))["data"] == "Payload of the record, or one of its documents."


def test_the_standard_metadata_names_the_table():
    metadata = raw_spec().metadata
    assert metadata["dagster/uri"] == "s3://lake/raw/clicks"
    assert metadata["dagster/table_name"] == "lake/raw/clicks"
    assert metadata["dagster/storage_kind"] == "deltalake"


@pytest.mark.parametrize(
    ("catalog", "name"), [({}, "lake.clicks_raw"), ({"name": "clicks"}, "lake.clicks")], ids=str
)
def test_an_iceberg_table_is_named_as_in_its_catalog(catalog, name):
    given = {"type": "glue", "database": "lake", **catalog}
    assert raw_spec(format="iceberg", catalog=given).metadata["dagster/table_name"] == name


@pytest.mark.parametrize(
    ("settings", "icon"),
    [({}, "deltalake"), ({"format": "iceberg", "catalog": {"type": "glue", "database": "lake"}}, "iceberg")],
)
def test_the_kinds_of_a_table_name_its_format(settings, icon):
    assert raw_spec(**settings).kinds == {"pyspark", icon}


def test_a_derived_iceberg_table_has_its_format_as_a_kind_and_is_named_as_in_its_catalog():
    catalog = {"type": "rest", "uri": "https://catalog.example", "database": "lake"}

    @derived_table(source="clicks", table="/derived", table_format="iceberg", catalog=catalog)
    def visits(rows):
        return rows

    spec = visits.get_asset_spec()
    assert spec.kinds == {"pyspark", "iceberg"}
    assert spec.metadata["dagster/table_name"] == "lake.visits"


def test_a_derived_table_links_to_its_function():
    @derived_table(source="clicks", table="/derived")
    def visits(rows):
        return rows

    (reference,) = visits.get_asset_spec().metadata["dagster/code_references"].code_references
    assert (reference.file_path, reference.label) == (__file__, "visits")
