"""Catalogs of Iceberg tables, each with the properties with which pyiceberg and Spark reach it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from support.iceberg import rest_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyiceberg.catalog import Catalog


@dataclass(frozen=True)
class TestCatalog:
    """A catalog, and a namespace that no other test uses.

    Attributes:
        kind: What it is, for example "sqlite".
        properties: The properties of pyiceberg's `load_catalog`.
        spark: The properties of Spark's catalog, without their prefix; None if Spark cannot reach it.
    """

    __test__ = False

    kind: str
    properties: Mapping[str, str]
    spark: Mapping[str, str] | None = None
    name: str = "lake"
    namespace: str = field(default_factory=lambda: f"tests_{uuid4().hex[:12]}")

    def load(self) -> Catalog:
        """Return a client of the catalog, whose namespace exists."""
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # every test session imports this module

        catalog = load_catalog(self.name, **self.properties)
        catalog.create_namespace_if_not_exists(self.namespace)
        return catalog


def on_sqlite(folder: Path, warehouse: Mapping[str, str]) -> TestCatalog:
    """Return a catalog in a file."""
    database = folder / "catalog.db"
    return TestCatalog(
        "sqlite",
        # More time than any commit takes: who waits longer for the file fails with "database is locked".
        {"type": "sql", "uri": f"sqlite:///{database}?timeout=300", **warehouse},
        spark=_jdbc(f"jdbc:sqlite:{database}", warehouse),
    )


def on_postgresql(port: int, warehouse: Mapping[str, str]) -> TestCatalog:
    """Return a catalog in the database of a server, see `support.postgresql`."""
    address = f"127.0.0.1:{port}/postgres"
    return TestCatalog(
        "postgresql",
        {"type": "sql", "uri": f"postgresql+psycopg2://dagster@{address}", **warehouse},
        spark=_jdbc(f"jdbc:postgresql://{address}?user=dagster", warehouse),
    )


def over_rest(url: str, warehouse: Mapping[str, str]) -> TestCatalog:
    """Return the catalog of a server, see `rest`."""
    settings = {name: value for name, value in warehouse.items() if name != "warehouse"}
    return TestCatalog(
        "rest",
        {"type": "rest", "uri": url, **settings},
        spark={"type": "rest", "uri": url, **for_java(settings)},
    )


@contextmanager
def rest(warehouse: Mapping[str, str], folder: Path) -> Iterator[str]:
    """Run a REST catalog until the end of the block, and yield its URL.

    Args:
        folder: An empty folder.
    """
    files = {} if "s3.endpoint" in warehouse else {"io-impl": f"{rest_server.SERVER}$DiskFiles"}
    with rest_server.running({**for_java(warehouse), **files}, folder) as url:
        yield url


def on_disk(folder: Path) -> dict[str, str]:
    """Return the properties of a warehouse in a folder."""
    return {"warehouse": f"file://{folder}"}


def in_bucket(uri: str, endpoint: str) -> dict[str, str]:
    """Return the properties of a warehouse in a bucket on an S3 server with the keys of the tests."""
    return {
        "warehouse": uri,
        "s3.endpoint": endpoint,
        "s3.region": "us-east-1",
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
    }


def for_java(warehouse: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a warehouse in Iceberg's Java library."""
    if "s3.endpoint" not in warehouse:
        return dict(warehouse)
    s3 = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "s3.path-style-access": "true"}
    return {**warehouse, **s3, "client.region": warehouse["s3.region"]}


def _jdbc(uri: str, warehouse: Mapping[str, str]) -> dict[str, str]:
    return {"type": "jdbc", "uri": uri, "jdbc.schema-version": "V1", **for_java(warehouse)}
