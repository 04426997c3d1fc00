"""The catalogs of Iceberg tables."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import pytest
from requests import ReadTimeout
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import IntegrityError

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.iceberg import rest_catalog
from kinesis_assets.table.iceberg.catalog import IcebergCatalog, create_namespace
from support.formats import sqlite_catalog
from support.scripted_server import After, Response, ScriptedServer


@contextmanager
def before(statement, act):
    """Call a function once, before a client of a SQL catalog executes a statement with this beginning."""
    calls = []

    def execute(_connection, _cursor, executed, *_):
        if executed.strip().startswith(statement) and not calls:
            calls.append(executed)
            act(executed)

    event.listen(Engine, "before_cursor_execute", execute)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", execute)
    assert calls


def test_a_new_sql_catalog_is_opened_by_two_processes_at_once(tmp_path):
    def create_first(statement):
        other = sqlite3.connect(tmp_path / "catalog.db")
        other.execute(statement)
        other.close()

    with before("CREATE TABLE iceberg_tables", create_first):
        opened = sqlite_catalog(tmp_path).open({})
    assert opened.list_namespaces() == []


def test_a_namespace_is_created_by_two_processes_at_once(tmp_path):
    catalog, other = (sqlite_catalog(tmp_path).open({}) for _ in "12")
    with before("INSERT INTO iceberg_namespace", lambda _: other.create_namespace(("lake",))):
        create_namespace(catalog, ("lake",))
    assert catalog.list_namespaces() == [("lake",)]


def test_a_namespace_that_cannot_be_created_is_an_error(tmp_path):
    catalog = sqlite_catalog(tmp_path).open({})
    with catalog.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER refuse BEFORE INSERT ON iceberg_namespace_properties "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    with pytest.raises(IntegrityError, match="refused"):
        create_namespace(catalog, ("lake",))


def test_all_snapshots_are_loaded_whatever_the_configuration_of_pyiceberg_says(tmp_path):
    """Vacuum would delete the files of the others."""
    catalog = replace(sqlite_catalog(tmp_path), properties={"snapshot-loading-mode": "refs"})
    opened = catalog.open({})
    assert opened.properties["snapshot-loading-mode"] == "all"


@pytest.mark.slow
def test_a_rest_catalog_that_does_not_respond_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(rest_catalog, "TIMEOUTS", (SECONDS, 0.2))
    with ScriptedServer(Response(b"", After.HOLD)) as server:
        catalog = IcebergCatalog("rest", "lake", "orders", uri=f"http://{server.address}")
        with pytest.raises(ReadTimeout):
            catalog.open({})


def test_a_rest_catalog_is_opened_with_the_configuration_of_pyiceberg(monkeypatch):
    for name in ("TOKEN", "WAREHOUSE"):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE_1__{name}", "of-environment")
    body = b'{"defaults":{},"overrides":{}}'
    with ScriptedServer(
        Response(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    ) as server:
        url = f"http://{server.address}"
        catalog = IcebergCatalog(
            "rest", "lake", "orders", uri=url, warehouse="of-setting", catalog_name="lake-1"
        )
        catalog.open({}).close()
        (request,) = server.requests
    assert b"/v1/config?warehouse=of-setting" in request
    assert b"Bearer of-environment" in request


@pytest.mark.parametrize(
    ("region", "uri"),
    [
        ("eu-central-1", "https://s3tables.eu-central-1.amazonaws.com/iceberg"),
        ("cn-north-1", "https://s3tables.cn-north-1.amazonaws.com.cn/iceberg"),
    ],
)
def test_the_requests_to_a_table_bucket_are_signed_in_its_region(monkeypatch, region, uri):
    opened = {}
    monkeypatch.setattr(
        rest_catalog, "open_rest_catalog", lambda _, properties, __: opened.update(properties)
    )
    bucket = f"arn:aws:s3tables:{region}:111122223333:bucket/lake"
    catalog = IcebergCatalog("s3tables", "raw", "clicks", warehouse=bucket)
    catalog.open({})
    assert (opened["type"], opened["uri"], opened["warehouse"]) == ("rest", uri, bucket)
    assert opened["rest.signing-name"] == "s3tables"
    assert opened["rest.signing-region"] == region


def test_the_role_of_the_stream_signs_the_requests_to_a_table_bucket(monkeypatch, role):
    signers = []
    monkeypatch.setattr(rest_catalog, "open_rest_catalog", lambda _, __, aws: signers.append(aws))
    bucket = "arn:aws:s3tables:eu-central-1:111122223333:bucket/lake"
    of_stream = ClientSettings("eu-west-1", role=role)
    IcebergCatalog("s3tables", "raw", "clicks", warehouse=bucket, aws=of_stream).open({})
    assert signers == [of_stream]
