"""Versions of tables, as far as their entries in the Data Catalog need them, and databases of moto."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import boto3

from kinesis_assets.operations.catalog.entry import Entry
from support.formats import delta_columns

if TYPE_CHECKING:
    from kinesis_assets.table.delta.version import TableVersion


def version_of_table(
    columns: dict[str, Any],
    *,
    uri: str = "s3://lake/orders",
    table_id: str = "11111111-1111-4111-8111-111111111111",
    version: int = 0,
    partition_by: tuple[str, ...] = (),
    properties: dict[str, str] | None = None,
) -> TableVersion:
    """Return a version of a table with columns, whose types are as in Delta's metadata."""
    found = SimpleNamespace(
        schema=delta_columns(columns),
        partition_by=[*partition_by],
        properties=properties or {},
        folder=SimpleNamespace(uri=uri),
        id=table_id,
        version=version,
    )
    return cast("TableVersion", found)


def entry_of(columns: dict[str, Any], *, database: str = "lake", **of_table: Any) -> Entry:
    """Return the entry `orders` of such a version."""
    version = version_of_table(columns, **of_table)
    return Entry.of(version, database, "orders", asset="orders", stream="kinesis/clicks")


class Database:
    """An empty database of the Data Catalog at an endpoint of moto, with a name that no other has."""

    def __init__(self, endpoint: str) -> None:
        self.name = f"lake_{uuid4().hex}"
        self.glue = boto3.client("glue", endpoint_url=endpoint)
        self.glue.create_database(DatabaseInput={"Name": self.name})

    def create(self, name: str, location: str, **parameters: str) -> None:
        """Create an entry as somebody else does."""
        storage = {"Columns": [{"Name": "col", "Type": "array<string>"}], "Location": location}
        self.glue.create_table(
            DatabaseName=self.name,
            TableInput={"Name": name, "StorageDescriptor": storage, "Parameters": parameters},
        )

    def change(self, name: str, **parts: Any) -> None:
        """Change parts of an entry as somebody else does."""
        found = self.entry(name)
        kept = {key: found[key] for key in found if key in {"Name", "StorageDescriptor", "Parameters"}}
        kept |= {key: found[key] for key in found if key in {"PartitionKeys", "TableType", "Description"}}
        self.glue.update_table(DatabaseName=self.name, TableInput=kept | parts)

    def entry(self, name: str) -> dict[str, Any]:
        """Return an entry."""
        found: dict[str, Any] = self.glue.get_table(DatabaseName=self.name, Name=name)["Table"]
        return found

    def columns(self, name: str) -> dict[str, str]:
        """Return the types of the columns of an entry, partition columns included."""
        found = self.entry(name)
        columns = [*found["StorageDescriptor"]["Columns"], *found.get("PartitionKeys", [])]
        return {column["Name"]: column["Type"] for column in columns}
