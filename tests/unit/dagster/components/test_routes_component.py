"""The YAML of a router: the assets that it defines, and what is refused when it is loaded."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from kinesis_assets import KinesisRoutesComponent
from kinesis_assets.dagster.derived_tables import consumption_of
from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.kinesis.settings import ClientSettings
from support import dagster_components
from support.dagster_components import dagsters_own_warnings, schema_of, validator_of
from support.stream_names import raw_key

pytestmark = dagsters_own_warnings

ORDERS = {
    "match": "Order Placed",
    "name": "orders",
    "table": "s3://lake/orders",
    "schema": "id BIGINT, at TIMESTAMP",
    "key": ["id"],
    "order_by": ["at"],
}
USERS = {
    "match": ["User Created", "User Renamed"],
    "name": "users",
    "table": "s3://lake/users",
    "schema": "id STRING",
}
EVENTS = {
    "name": "shop_events",
    "source": "events",
    "table": "s3://lake/events",
    "format": "json",
    "route_by": "detail-type",
}

ICEBERG = {
    "table_format": "iceberg",
    "catalog": {"type": "rest", "uri": "https://catalog.example/api", "database": "lake"},
}


def loaded(*routes: dict[str, Any], **attributes: Any) -> dg.Definitions:
    given = EVENTS | {"routes": routes or [ORDERS, USERS]} | attributes
    return dagster_components.loaded(KinesisRoutesComponent, **given)[1]


def refusal(*routes: dict[str, Any], **attributes: Any) -> str:
    with pytest.raises(Exception, match=r"defs\.yaml \(KinesisRoutesComponent\)") as caught:
        loaded(*routes, **attributes)
    return str(caught.value.__cause__)


def test_the_router_is_below_the_raw_table_and_each_table_below_the_router():
    router, orders, users = loaded().assets
    assert (router.key, router.dependency_keys) == (dg.AssetKey("shop_events"), {raw_key("events")})
    assert (orders.key, orders.dependency_keys) == (dg.AssetKey("orders"), {router.key})
    assert (users.key, users.dependency_keys) == (dg.AssetKey("users"), {router.key})


def test_each_table_is_described_by_what_is_routed_to_it():
    described = {each.key.to_user_string(): each.get_asset_spec().description for each in loaded().assets}
    assert described == {
        "shop_events": "The documents of events, by detail-type, in s3://lake/events. In those that no route "
        "matches, route is null.",
        "orders": "The documents of events whose detail-type is Order Placed, in s3://lake/orders.",
        "users": "The documents of events whose detail-type is User Created or User Renamed, in "
        "s3://lake/users.",
    }
    (_, own) = loaded(ORDERS | {"description": "All orders."}).assets
    assert own.get_asset_spec().description == "All orders."


def test_a_table_consumes_the_rows_of_its_values_only():
    router, orders, users = loaded().assets
    sources = [consumption_of(each).source(router) for each in (orders, users)]
    assert sources == [
        "s3://lake/events/_kinesis/routes/Order%20Placed",
        "s3://lake/events/_kinesis/routes/User%20Created&User%20Renamed",
    ]


def test_the_router_is_partitioned_by_the_route_and_the_tables_as_they_say():
    router, orders, _ = loaded(ORDERS | {"partition_by": ["id"]}, USERS).assets
    assert [*consumption_of(router).settings.partition_by] == ["route"]
    assert consumption_of(router).is_router
    assert [*consumption_of(orders).settings.partition_by] == ["id"]


def test_the_tables_of_an_iceberg_router_read_it_in_its_format():
    router, orders, users = loaded(ORDERS, USERS | {"table_format": "delta"}, **ICEBERG).assets
    opened = SimpleNamespace(aws_settings=lambda _: ClientSettings())
    formats = [consumption_of(each).format_in(opened) for each in (router, orders, users)]
    assert [each is not None for each in formats] == [True, True, False]
    for each in (orders, users):
        assert consumption_of(each).source_format(router, opened).of.args == formats[0].of.args


def test_only_the_router_has_the_check_of_unmatched_records():
    router, orders, _ = loaded().assets
    names = [{spec.name for spec in each.check_specs} for each in (router, orders)]
    assert ["unmatched_records" in each for each in names] == [True, False]
    assert ["no_duplicates" in each for each in names] == [False, True]
    assert {"lag", "continuity", "bad_records", "compaction_debt"} <= names[0]


def test_separate_errors_of_a_route_are_below_its_table():
    _, _, errors, _ = loaded(ORDERS | {"on_bad_record": "separate"}, USERS).assets
    assert (errors.key, errors.dependency_keys) == (dg.AssetKey("orders_errors"), {dg.AssetKey("orders")})


def test_a_route_has_the_owners_of_the_router_unless_it_has_its_own():
    owners = ["team:shop"]
    router, orders, users = loaded(ORDERS, USERS | {"owners": ["team:crm"]}, owners=owners).assets
    found = [next(iter(each.specs)).owners for each in (router, orders, users)]
    assert found == [["team:shop"], ["team:shop"], ["team:crm"]]


def test_columns_of_a_route_come_from_those_of_the_router():
    _, orders, _ = loaded().assets
    lineage = orders.metadata_by_key[orders.key]["dagster/column_lineage"]
    assert lineage.deps_by_column["id"] == [dg.TableColumnDep(dg.AssetKey("shop_events"), "data")]


OVERLAPS = {
    "one value": (
        [ORDERS, USERS | {"match": "Order Placed"}],
        r"routes\[1\]: match: 'Order Placed' is that of routes\[0\] \(orders\) too",
    ),
    "a value in a list": (
        [ORDERS, USERS | {"match": ["User Created", "Order Placed"]}],
        r"routes\[1\]: match: 'Order Placed' is that of routes\[0\]",
    ),
    "a number and its text": (
        [ORDERS | {"match": 3}, USERS | {"match": "3"}],
        r"routes\[1\]: match: '3' is that of routes\[0\]",
    ),
    "one name": ([ORDERS, USERS | {"name": "orders"}], r"routes\[1\]: name: 'orders' is that of routes\[0\]"),
    "the name of the router": (
        [ORDERS, USERS | {"name": "shop_events"}],
        r"routes\[1\]: .*shop_events",
    ),
    "one table": (
        [ORDERS, USERS | {"table": "s3://lake/orders/"}],
        r"routes\[1\]: table: .* is that of routes\[0\]",
    ),
    "the table of the router": (
        [ORDERS, USERS | {"table": "s3://lake/events"}],
        r"routes\[1\]: table: .* is that of the router",
    ),
    "the table of errors": (
        [ORDERS | {"on_bad_record": "separate"}, USERS | {"table": "s3://lake/orders_errors"}],
        r"routes\[1\]: table: .* is that of routes\[0\]",
    ),
}


@pytest.mark.parametrize(("routes", "reason"), OVERLAPS.values(), ids=OVERLAPS)
def test_two_routes_that_overlap_are_refused(routes, reason):
    assert re.match(rf".*defs\.yaml:\d+: {reason}", refusal(*routes))


INVALID = {
    "an empty value": ({"match": ""}, r"routes\[1\]: match: a value is empty"),
    "no value": ({"match": []}, r"routes\[1\]: match: no value is given"),
    "null": ({"match": [None]}, r"routes\[1\]: match: 'None' is no text"),
    "a fraction": ({"match": 1.5}, r"routes\[1\]: match: '1.5' is no text"),
    "a format of its own": ({"format": "json"}, r"routes\[1\]: format: not in a route"),
    "a source of its own": ({"source": "others"}, r"routes\[1\]: source: not in a route"),
    "a filter": ({"only": {"a": 1}}, r"routes\[1\]: only: not in a route"),
    "an unknown setting": ({"colour": "red"}, r"routes\[1\]: unknown setting colour"),
    "no schema": ({"schema": None}, r"routes\[1\]: schema: required"),
    "a key that the table lacks": ({"key": ["no"], "order_by": ["id"]}, r"routes\[1\]: key: .* no column no"),
    "a broken schema": ({"schema": "id BIGGER"}, r"routes\[1\]: schema: "),
    "a check of routers": ({"checks": {"unmatched_records": {}}}, r"routes\[1\]: checks: unmatched_records"),
}


@pytest.mark.parametrize(("wrong", "reason"), INVALID.values(), ids=INVALID)
def test_an_invalid_route_is_refused(wrong, reason):
    assert re.match(rf".*defs\.yaml:\d+: {reason}", refusal(ORDERS, USERS | wrong))


WRONG = {
    "no path": ({"route_by": "a..b"}, "route_by: .* is no path"),
    "no column of the source": ({"route_by": "_record.colour"}, "route_by: _record.colour is no text"),
    "a path in Avro": ({"format": "avro"}, "route_by: a path in a document only with the format json"),
    "no format": ({"format": None}, "format: required"),
    "no route": ({"routes": []}, "routes "),
    "a check without keys": ({"checks": {"no_duplicates": {}}}, "checks: no_duplicates"),
    "an unknown setting": ({"partition_by": ["route"]}, "unknown setting partition_by|.*partition_by"),
    "documents that become several": ({"format": "debezium", "unnest": "a"}, "unnest: "),
}


@pytest.mark.parametrize(("wrong", "reason"), WRONG.values(), ids=WRONG)
def test_an_invalid_router_is_refused(wrong, reason):
    route = USERS | {"schema": "names.avsc"} if wrong.get("format") == "avro" else USERS
    assert re.search(reason, refusal(route, **wrong))


def test_an_error_has_the_line_of_the_setting_of_the_route():
    lines = [
        int(re.match(r".*defs\.yaml:(\d+): ", refusal(*routes))[1])
        for routes in ([ORDERS | {"match": ""}, USERS], [ORDERS, USERS | {"match": ""}])
    ]
    assert lines[1] > lines[0]


def test_records_of_any_format_are_routed_by_a_column_of_the_source():
    assert len(loaded(route_by="_record.partition_key", format="dynamodb").assets) == 3


def test_the_schema_of_the_yaml_describes_the_settings_of_a_route():
    entry = schema_of(KinesisRoutesComponent)["properties"]["routes"]["items"]
    assert next(iter(entry["properties"])) == "match"
    assert "source" not in entry["properties"]
    assert entry["properties"]["key"]["description"] == TableSettings.model_fields["key"].description
    assert set(entry["required"]) == {"match", "name", "table"}
    validator = validator_of(KinesisRoutesComponent, "routes")
    validator.validate([ORDERS, USERS])
    assert not validator.is_valid([USERS | {"format": "json"}])
    assert not validator.is_valid([{"name": "users", "table": "s3://lake/users"}])


def test_every_example_of_a_setting_is_valid():
    placed = ORDERS | {"name": "placed"}
    others = {
        "registry": {"format": "glue", "route_by": "_record.partition_key"},
        **dict.fromkeys(["table_format", "keep_snapshots", "keep_snapshot_hours"], ICEBERG),
    }
    for name, field in RoutesSettings.model_fields.items():
        for example in field.examples:
            KinesisRoutesComponent(**EVENTS | {"routes": [placed]} | others.get(name, {}) | {name: example})


def test_the_settings_of_a_router_are_those_of_a_typed_table():
    for name in ("source", "table", "max_bytes", "format", "split", "checks"):
        assert RoutesSettings.model_fields[name].description == TableSettings.model_fields[name].description
    with pytest.raises(Exception, match="max_bytes must be above 0"):
        KinesisRoutesComponent(**EVENTS | {"routes": [ORDERS], "max_bytes": 0})
    with pytest.raises(Exception, match="invalid stream name"):
        KinesisRoutesComponent(**EVENTS | {"routes": [ORDERS], "source": "page views"})


def test_values_may_be_templates(monkeypatch):
    monkeypatch.setenv("KIND_OF_THE_TESTS", "User Moved")
    _, _, users = loaded(ORDERS, USERS | {"match": ["{{ env.KIND_OF_THE_TESTS }}"]}).assets
    assert consumption_of(users).routes == ("User Moved",)
