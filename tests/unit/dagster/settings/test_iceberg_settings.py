"""The settings of Iceberg tables, and what is refused when definitions are loaded."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings, RollupSettings
from kinesis_assets.dagster.settings.routes_settings import RoutesSettings
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.settings import ClientSettings

REST = {"type": "rest", "uri": "https://catalog.example/api", "database": "lake"}
TABLE_BUCKET = {
    "type": "s3tables",
    "warehouse": "arn:aws:s3tables:eu-central-1:111122223333:bucket/lake",
    "database": "raw",
}


def settings(**given):
    defaults = {"table": "/lake/clicks", "format": "iceberg", "catalog": REST}
    return StreamSettings("clicks", **defaults | given)


def opened(**given):
    return settings(**given).iceberg_catalog("clicks_raw", lambda _: ClientSettings())


def test_a_catalog_has_the_settings_of_pyiceberg():
    catalog = {
        **REST,
        "warehouse": "w",
        "name": "events",
        "catalog_name": "prod",
        "s3.endpoint": "https://s3.example",
        "scope": "lake",
    }
    found = opened(catalog=catalog, keep_snapshots=7, keep_snapshot_hours=2)
    assert found.identifier == ("lake", "events")
    assert (found.type, found.uri, found.warehouse, found.catalog_name) == (
        "rest",
        "https://catalog.example/api",
        "w",
        "prod",
    )
    assert found.properties == {"s3.endpoint": "https://s3.example", "scope": "lake"}
    assert (found.snapshots_kept, found.snapshot_hours) == (7, 2)


def test_a_table_is_named_like_its_asset_by_default():
    assert opened().name == "clicks_raw"


@pytest.mark.parametrize("kind", ["raw", "derived"])
def test_glue_is_called_as_the_catalog_says(kind):
    role = "arn:aws:iam::111122223333:role/catalog-writer"
    glue = {"type": "glue", "database": "lake", "region_name": "eu-central-1", "role_arn": role}
    connections = []

    def aws_settings(connection):
        connections.append(connection)
        return ClientSettings(connection.region_name)

    given = settings(catalog=glue) if kind == "raw" else derived_settings(catalog=glue)
    found = given.iceberg_catalog("clicks_raw", aws_settings)
    assert connections == [("eu-central-1", role, None)]
    assert found.aws == ClientSettings("eu-central-1")


def test_a_table_bucket_needs_its_arn_alone():
    found = opened(catalog=TABLE_BUCKET, table="s3://lake/clicks")
    assert (found.type, found.uri, found.region_of_rows) == ("s3tables", None, "eu-central-1")
    assert found.identifier == ("raw", "clicks_raw")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"catalog": {}}, "format: iceberg needs the setting catalog"),
        ({"catalog": {"database": "lake"}}, "catalog: type: give .*: sql, rest, glue or s3tables$"),
        ({"catalog": {**REST, "type": "hive"}}, "type"),
        ({"catalog": {"type": "rest", "database": "lake"}}, "uri: a catalog of the type rest needs one"),
        ({"catalog": {**REST, "type": "glue"}}, "uri: a catalog of the type glue has none"),
        ({"catalog": {**REST, "databse": "lake"}}, "databse"),
        (
            {"catalog": {**REST, "role_arn": "arn:aws:iam::111122223333:role/r"}},
            "role_arn: only of a catalog of the type glue, or rest with rest.sigv4-enabled: 'true'",
        ),
        ({"catalog": {"type": "glue", "database": "lake", "glue.region": "eu-west-1"}}, "as region_name"),
        ({"format": "delta"}, "catalog: type: only with format: iceberg"),
        (
            {"format": "delta", "catalog": {}, "keep_snapshots": 7},
            "keep_snapshots: only with format: iceberg",
        ),
        ({"catalog": {**REST, "token": "t"}}, "PYICEBERG_CATALOG__KINESIS_ASSETS__TOKEN"),
        ({"catalog": {**REST, "s3.secret-access-key": "t"}}, "ASSETS__S3__SECRET_ACCESS_KEY"),
        ({"catalog": {**REST, "uri": "postgresql://ann:p@host/lake"}}, "has a password"),
        (
            {"catalog": {**REST, "uri": "https://s3tables.eu-central-1.amazonaws.com/iceberg"}},
            "catalog: uri: a table bucket of Amazon S3 Tables is a catalog of its own type",
        ),
        (
            {"catalog": {**REST, "warehouse": "arn:aws:s3tables:eu-central-1:111122223333:bucket/lake"}},
            "catalog: warehouse: a table bucket",
        ),
        (
            {"catalog": {**REST, "warehouse": "111122223333:s3tablescatalog/lake"}},
            "catalog: warehouse: a table bucket",
        ),
        (
            {"catalog": {"type": "glue", "database": "lake", "glue.id": "111122223333:s3tablescatalog/lake"}},
            "catalog: glue.id: a table bucket",
        ),
        ({"catalog": {**REST, "rest.signing-name": "s3tables"}}, "rest.signing-name: a table bucket"),
        (
            {"catalog": TABLE_BUCKET | {"warehouse": "lake"}},
            "warehouse: a catalog of the type s3tables needs",
        ),
        (
            {"catalog": TABLE_BUCKET | {"database": "my-lake"}},
            "database: invalid name 'my-lake' in a table b",
        ),
        ({"catalog": TABLE_BUCKET | {"database": "raw.eu"}}, "database: invalid name 'raw.eu' in a table b"),
        ({"catalog": TABLE_BUCKET | {"name": "_clicks"}}, "name: invalid name '_clicks' in a table bucket"),
        ({"catalog": TABLE_BUCKET | {"region_name": "eu-central-1"}}, "region_name: only of a catalog"),
        (
            {"catalog": TABLE_BUCKET},
            "table: with a catalog of the type s3tables, give a folder in an ordinary",
        ),
        (
            {"catalog": TABLE_BUCKET, "table": "s3://0a1b--table-s3/clicks"},
            "give a folder in an ordinary bucket",
        ),
        ({"format": "hudi"}, "format"),
        ({"keep_snapshots": 0}, "keep_snapshots"),
    ],
)
def test_invalid_settings_are_refused(given, error):
    with pytest.raises(InvalidInput, match=error):
        settings(**given)


def test_a_database_of_glue_has_no_levels():
    with pytest.raises(InvalidInput, match=r"^catalog: database: invalid name 'lake\.raw'; .* AWS Glue"):
        settings(catalog={"type": "glue", "database": "lake.raw"})


def test_a_namespace_of_a_rest_catalog_may_have_levels():
    assert opened(catalog=REST | {"database": "lake.raw"}).identifier == ("lake", "raw", "clicks_raw")


@pytest.mark.parametrize("database", ["lake..raw", ".", ".raw", "lake."])
@pytest.mark.parametrize("catalog", [REST, {"type": "sql", "uri": "sqlite:////lake/catalog.db"}], ids=str)
def test_a_namespace_has_no_empty_level(catalog, database):
    with pytest.raises(InvalidInput, match=r"^catalog: database: invalid name .*; a level .* is empty"):
        settings(catalog=catalog | {"database": database})


def test_a_rest_catalog_that_requires_signatures_may_have_a_role():
    role = "arn:aws:iam::111122223333:role/r"
    found = settings(catalog={**REST, "rest.sigv4-enabled": "true", "role_arn": role})
    assert found.name_in_catalog("clicks_raw") == "lake.clicks_raw"


def test_an_iceberg_table_has_no_check_of_an_entry_of_a_delta_table():
    assert settings().checks_of_stream({}).catalog is None


def derived_settings(kind=DerivedTableSettings, **given):
    named = {"source": "clicks", "table": "/lake/orders", "table_format": "iceberg", "catalog": REST}
    return kind(**named | given)


@pytest.mark.parametrize(
    ("kind", "given"),
    [(DerivedTableSettings, {}), (RollupSettings, {"by": ["day"]})],
    ids=["table", "roll-up"],
)
def test_a_derived_table_is_named_like_its_asset_by_default(kind, given):
    found = derived_settings(kind, **given, keep_snapshots=7)
    catalog = found.iceberg_catalog("orders", lambda _: ClientSettings())
    assert (catalog.identifier, catalog.snapshots_kept) == (("lake", "orders"), 7)
    assert (found.registration, found.is_iceberg) == ({}, True)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"partition_by": ["days(at)"]}, "partition_by: invalid transform 'days"),
        ({"partition_by": ["day(at)", "bucket(4, AT)"]}, "partition_by: at is given twice"),
        ({"partition_by": ["day(_batch_id)"]}, "partition_by: no column can be called '_batch_id'"),
        (
            {"partition_by": ["day", "day(at)"], "table_format": "delta", "catalog": {}},
            r"partition_by: day\(at\): a transform, which only an Iceberg table has",
        ),
        ({"catalog": {}}, "table_format: iceberg needs the setting catalog"),
        ({"catalog": {"database": "lake"}}, "catalog: type: give .*: sql, rest, glue or s3tables$"),
        ({"table_format": "delta"}, "catalog: type: only with table_format: iceberg"),
        ({"checks": {"catalog": {"severity": "WARN"}}}, "only of a Delta table with the setting catalog"),
    ],
)
def test_what_a_derived_table_cannot_have_is_refused_when_definitions_are_loaded(given, error):
    with pytest.raises(InvalidInput, match=error):
        derived_settings(**given)


def test_entries_of_partition_by_are_written_in_one_way():
    found = derived_settings(partition_by=["bucket(16,id)", "day( at )", "name"])
    assert found.partition_by == ["bucket(16, id)", "day(at)", "name"]


ROUTE = {"match": "a", "name": "a", "table": "/lake/a", "schema": "id BIGINT"}


def router_settings(route, **given):
    named = {"name": "r", "source": "clicks", "table": "/lake/r", "format": "json", "route_by": "kind"}
    return RoutesSettings(**named | given, routes=[ROUTE | route])


@pytest.mark.parametrize(
    ("given", "route", "found"),
    [
        ({}, {"table_format": "iceberg", "catalog": REST}, [None, (("lake", "a"), 50)]),
        (
            {"table_format": "iceberg", "catalog": REST | {"name": "events"}, "keep_snapshots": 7},
            {},
            [(("lake", "events"), 7), (("lake", "a"), 7)],
        ),
        (
            {"table_format": "iceberg", "catalog": REST},
            {"table_format": "delta"},
            [(("lake", "r"), 50), None],
        ),
        (
            {"catalog": {"database": "lake"}},
            {"table_format": "iceberg", "catalog": {**REST, "name": "b"}},
            [None, (("lake", "b"), 50)],
        ),
    ],
    ids=["only the route", "both", "only the router", "the router is registered"],
)
def test_a_route_has_the_format_and_the_catalog_of_its_router_but_for_the_name(given, route, found):
    settings = router_settings(route, **given)
    tables = [(settings.router, settings.name), *((table, table.name) for table in settings.tables)]
    catalogs = [
        each.iceberg_catalog(name, lambda _: ClientSettings()) if each.is_iceberg else None
        for each, name in tables
    ]
    assert [each and (each.identifier, each.snapshots_kept) for each in catalogs] == found


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"table_format": "iceberg"}, "^table_format: iceberg needs the setting catalog"),
        ({"catalog": REST}, "^catalog: type: only with table_format: iceberg"),
        ({"table_format": "iceberg", "catalog": {"database": "lake"}}, "^catalog: type: give"),
    ],
)
def test_a_router_without_a_valid_catalog_is_refused(given, error):
    with pytest.raises(InvalidInput, match=error):
        router_settings({}, **given)
