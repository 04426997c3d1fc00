"""The setting `catalog`: in Python, in YAML with file and line, of routes and of tables of errors."""

from __future__ import annotations

import re

import pytest

from kinesis_assets import KinesisRoutesComponent, KinesisTableComponent, build_kinesis_stream, derived_table
from kinesis_assets.dagster.derived_tables import consumption_of
from kinesis_assets.dagster.settings.account_settings import AccountSettings
from kinesis_assets.dagster.settings.catalog_settings import CatalogSettings
from kinesis_assets.errors import InvalidInput
from support.dagster_components import dagsters_own_warnings, loaded
from support.stream_names import io_manager_key

LAKE = {"database": "lake"}
TABLE = {"name": "orders", "source": "clicks", "table": "s3://lake/orders", "format": "json"}


def test_the_runs_of_a_stream_have_the_setting():
    definitions = build_kinesis_stream("clicks", table="clicks", catalog={**LAKE, "name": "raw"})
    assert definitions.resources[io_manager_key("clicks")].opened.settings.catalog == {**LAKE, "name": "raw"}


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        ({"name": "orders"}, "catalog: database is missing"),
        ({"database": "Lake"}, "catalog: database: invalid name 'Lake'; give 1 to 255 lower-case letters"),
        ({**LAKE, "name": "web-orders"}, "catalog: name: invalid name 'web-orders'"),
        ({**LAKE, "table": "orders"}, "catalog: unknown setting table"),
        ({**LAKE, "role_arn": "admin"}, "catalog: role_arn: invalid ARN 'admin'"),
        ({**LAKE, "external_id": "shop"}, "catalog: external_id: only with role_arn"),
    ],
)
def test_an_invalid_setting_is_refused(catalog, message):
    for build in (
        lambda: build_kinesis_stream("clicks", table="clicks", catalog=catalog),
        lambda: derived_table(source="clicks", table="orders", catalog=catalog),
    ):
        with pytest.raises(InvalidInput) as refused:
            build()
        assert re.match(message, str(refused.value))


@pytest.mark.parametrize(
    ("asset", "name"),
    [("orders", "orders"), ("Web-Orders.v2", "web_orders_v2"), ("clicks_raw", "clicks_raw")],
)
def test_an_entry_has_the_name_of_the_asset_as_athena_takes_it(asset, name):
    assert CatalogSettings(**LAKE).name_of(asset) == name
    assert CatalogSettings(**LAKE, name="other").name_of(asset) == "other"


def catalogs(*settings, **attributes):
    """Return the setting of each table of a component, by the last part of its key."""
    assets = loaded(*settings, **attributes)[1].assets
    return {asset.key.path[-1]: consumption_of(asset).settings.catalog for asset in assets}


@dagsters_own_warnings
def test_a_table_of_errors_is_registered_beside_its_table():
    table = {**TABLE, "schema": "id BIGINT", "on_bad_record": "separate"}
    assert catalogs(KinesisTableComponent, **table, catalog=LAKE) == {"orders": LAKE, "orders_errors": LAKE}
    named = {**LAKE, "name": "sales"}
    assert catalogs(KinesisTableComponent, **table, catalog=named) == {
        "orders": named,
        "orders_errors": {**LAKE, "name": "sales_errors"},
    }


@dagsters_own_warnings
def test_routes_have_the_setting_of_the_router_without_its_name():
    def route(name, **settings):
        place = {"name": name, "table": f"s3://lake/{name}", "schema": "id BIGINT"}
        return {"match": name, **place, **settings}

    routes = [route("placed"), route("sent", catalog={"database": "other"}), route("gone", catalog={})]
    router = {**TABLE, "name": "events", "table": "s3://lake/events", "route_by": "kind", "routes": routes}
    assert catalogs(KinesisRoutesComponent, **router, catalog={**LAKE, "name": "all_events"}) == {
        "events": {**LAKE, "name": "all_events"},
        "placed": LAKE,
        "sent": {"database": "other"},
        "gone": {},
    }


@dagsters_own_warnings
def test_a_mistake_in_the_yaml_is_reported_with_its_file_and_line():
    with pytest.raises(Exception, match="Error while loading component") as failed:
        loaded(KinesisTableComponent, **TABLE, schema="id BIGINT", catalog={"database": "Lake"})
    error = str(failed.value.__cause__)
    assert re.search(r"defs\.yaml:\d+: catalog: database: invalid name 'Lake'", error)


def test_streams_of_an_account_do_not_share_a_name():
    shared = {"table": "s3://lake/{stream}", "catalog": LAKE}
    assert AccountSettings(**shared).catalog == LAKE
    with pytest.raises(InvalidInput, match="catalog: name: all streams would have one entry"):
        AccountSettings(**shared | {"catalog": {**LAKE, "name": "all"}})


@pytest.mark.parametrize("off", [{"catalog": {}}, {"catalog": {"severity": "ERROR"}}])
def test_a_table_without_the_setting_cannot_have_its_check(off):
    with pytest.raises(InvalidInput, match="checks: catalog: only of a Delta table with the setting catalog"):
        derived_table(source="clicks", table="orders", checks=off)
