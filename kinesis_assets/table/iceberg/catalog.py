"""The catalog that names the newest version of an Iceberg table, and its errors.

A table bucket of Amazon S3 Tables is a REST catalog, at https://s3tables.<region>.amazonaws.com/iceberg.
Its warehouse is the ARN of the table bucket, and requests are signed for the service `s3tables` [1].
Namespaces have one level, and names neither hyphens nor dots [2]. The service chooses the location of a
table, a bucket whose name ends with `--table-s3`. Objects there can be read and put, also in parts, but
neither listed nor deleted [3]. The service compacts tables, expires snapshots, and deletes each object
that no snapshot names and that is older than `unreferencedDays`, by default 3 [4].

[1] https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-integrating-open-source.html
[2] https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-buckets-naming.html
[3] https://docs.aws.amazon.com/AmazonS3/latest/API/developing-s3-tables-APIs.html
[4] https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-table-buckets-maintenance.html
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyiceberg.exceptions
from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.catalog import BOTOCORE_SESSION, load_catalog

from kinesis_assets.errors import InvalidInput, RoleNotAssumed
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.table.store.storage import table_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

    from kinesis_assets.table.store.storage import TableFolder


@dataclass(frozen=True, slots=True)
class IcebergCatalog:
    """Where the newest version of a table is found.

    Attributes:
        type: The type of the catalog, as pyiceberg names it: sql, rest or glue; or s3tables.
        namespace: The namespace of the table; in Glue, the database.
        name: The name of the table in it.
        uri: The address of the catalog: a database URL of SQLAlchemy, or the URL of a REST catalog.
        warehouse: The warehouse, if the catalog needs one; of s3tables the ARN of the table bucket.
        properties: Further properties of the catalog, as in pyiceberg.
        aws: The region, the profile and the role with which AWS Glue is called, and with which requests to a
            REST catalog are signed.
        catalog_name: The name of the catalog, which a SQL catalog stores: all its clients must use the same.
        snapshots_kept: How many snapshots of the table are kept at least, the newest ones.
        snapshot_hours: For how many hours others are kept.
    """

    type: str
    namespace: str
    name: str
    uri: str | None = None
    warehouse: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    aws: ClientSettings = field(default_factory=ClientSettings)
    catalog_name: str = "kinesis-assets"
    snapshots_kept: int = 50
    snapshot_hours: float = 0.0

    @property
    def identifier(self) -> tuple[str, ...]:
        """The name of the table in the catalog."""
        return (*self.namespace.split("."), self.name)

    @property
    def region_of_rows(self) -> str | None:
        """The region of a location that the catalog chooses; None if the table is in its folder."""
        return str(self.warehouse).split(":")[3] if self.type == "s3tables" else None

    def open(self, access: Mapping[str, str]) -> Catalog:
        """Return a client of the catalog.

        Args:
            access: How the files of the table are read and written, see `store_properties`.

        Raises:
            RoleNotAssumed: A role cannot be assumed.
        """
        settings = {"type": self.type, "uri": self.uri, "warehouse": self.warehouse}
        if self.region_of_rows is not None:
            settings |= _endpoint_of(self.region_of_rows, self.uri)
        properties = {**_given(settings), **access, **self.properties, **_ALL_SNAPSHOTS}
        if settings["type"] == "rest":
            from kinesis_assets.table.iceberg.rest_catalog import open_rest_catalog  # noqa: PLC0415  # as below

            return open_rest_catalog(self.catalog_name, properties, self.aws)
        if self.type == "glue":
            from kinesis_assets.kinesis.sdk import sdk_session  # noqa: PLC0415  # as below

            session = sdk_session(self.aws)
            region = _given({"glue.region": session.get_config_variable("region")})
            return load_catalog(self.catalog_name, **{**region, **properties, BOTOCORE_SESSION: session})
        from sqlalchemy.exc import DBAPIError  # noqa: PLC0415  # only a SQL catalog needs it

        try:
            return load_catalog(self.catalog_name, **properties)
        except DBAPIError:  # of two processes that open a new database, one creates the tables of the catalog
            return load_catalog(self.catalog_name, **properties)


def _endpoint_of(region: str, uri: str | None) -> dict[str, str | None]:
    """Return the properties of the REST catalog that a table bucket of S3 Tables is.

    Args:
        uri: Another address than the public one of the region.
    """
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return {
        "type": "rest",
        "uri": uri or f"https://s3tables.{region}.{domain}/iceberg",
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": region,
    }


_ALL_SNAPSHOTS = {"snapshot-loading-mode": "all"}
"""Each commit expires snapshots, and vacuum deletes files that no snapshot names, so all must be loaded."""


def store_properties(folder: TableFolder) -> dict[str, str]:
    """Return the properties with which pyiceberg reads and writes a table's files now, as Arrow does.

    Raises:
        RoleNotAssumed: The role of the folder cannot be assumed.
    """
    if folder.bucket is None:
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options = folder.storage_options() or {}  # those of delta-rs
    found = {
        "s3.endpoint": endpoint,
        "s3.region": region,
        "s3.access-key-id": options.get("AWS_ACCESS_KEY_ID"),
        "s3.secret-access-key": options.get("AWS_SECRET_ACCESS_KEY"),
        "s3.session-token": options.get("AWS_SESSION_TOKEN"),
    }
    return _given(found)


def _given(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value is not None}


def location_of(folder: TableFolder) -> str:
    """Return the location of the table in a folder, as Iceberg's metadata names it.

    Raises:
        InvalidInput: Clients of Iceberg cannot open it.
    """
    if folder.bucket is not None:
        return folder.uri
    path = unquote(folder.uri)
    if {*"?#"} & {*path}:
        raise InvalidInput(f"table {path}: Iceberg cannot open a path with ? or #; use another path")
    return path


def relative(location: str, path: str) -> str | None:
    """Return the path of a file relative to a table's location; None if it is elsewhere.

    Engines write the scheme of a local file in different ways.
    """
    base, file = (_without_scheme(text) for text in (location.rstrip("/"), path))
    return file.removeprefix(f"{base}/") if file.startswith(f"{base}/") else None


def _without_scheme(path: str) -> str:
    scheme, colon, rest = path.partition(":")
    if scheme == "file":
        return f"/{rest.lstrip('/')}"
    return f"s3:{rest}" if scheme in {"s3a", "s3n"} else f"{scheme}{colon}{rest}"


def _errors() -> tuple[type[Exception], ...]:
    found: list[Any] = [value for value in vars(pyiceberg.exceptions).values() if isinstance(value, type)]
    try:
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415  # only a SQL catalog needs it
    except ImportError:
        pass
    else:
        found.append(SQLAlchemyError)
    return (*found, BotoCoreError, ClientError, OSError, RoleNotAssumed, ValueError)


_ERRORS = _errors()
"""The errors of pyiceberg, whose classes have no base in common, and of what it uses."""

iceberg_errors = partial(table_errors, _ERRORS)
"""See `table_errors`."""


def create_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Create a namespace, unless there is one, or another process creates it at the same time.

    Raises an error of pyiceberg, or of what it uses.
    """
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except _ERRORS:  # of two processes, a SQL database refuses the second
        if not catalog.namespace_exists(namespace):
            raise
