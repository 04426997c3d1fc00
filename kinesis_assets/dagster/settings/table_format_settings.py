"""The settings of the format and the catalog of a raw or derived table, and what Iceberg needs besides."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003  # pydantic evaluates the annotations
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema  # noqa: TC002  # as above

from kinesis_assets.dagster.settings.catalog_settings import (
    CatalogSettings,
    Connection,
    RegisteredTable,
    catalog_of,
    catalog_schema,
)
from kinesis_assets.dagster.settings.settings_base import UNIT, SchemaFrom, map_schema, valid
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import AssumedRole, default_session_name
from kinesis_assets.table.format import DerivedIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.format import RawFormat
    from kinesis_assets.table.format import TableFormat as OpenFormat
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.snapshot import TableFiles

    AwsSettings = Callable[[Connection], ClientSettings]
    """Returns how AWS is called for the catalog of a table, see `OpenStream.aws_settings`."""

    FormatOf = Callable[[AwsSettings], DerivedIn | None]
    """Returns the format of a derived table; None for Delta Lake."""

TableFormat = Literal["delta", "iceberg"]

_PASSED_ON = re.compile(r"[a-z0-9_]+(?:[.-][a-z0-9_]+)+|credential|token|scope|prefix")
"""The names of further properties of a catalog, as in pyiceberg."""

_SECRET = re.compile(r"credential|(?:.*[.-])?token|.*secret.*|.*password.*")
"""The names of those with a secret, which the Dagster UI would show."""

_S3_TABLES = re.compile(r"//s3tables\.|:s3tables:|s3tablescatalog\b|^s3tables$")
"""A part of the URL and the ARNs of Amazon S3 Tables, and of the id of its catalog in AWS Glue."""

_TABLE_BUCKET = re.compile(
    r"arn:aws[a-z-]*:s3tables:[a-z0-9-]+:\d{12}:bucket/[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"
)
_TABLE_BUCKET_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_]*[a-z0-9])?")
"""The names of namespaces and tables in a table bucket."""

_ORDINARY_BUCKET = re.compile(r"s3://(?![^/]*--table-s3(?:/|$))")
"""The start of the URI of a folder in a bucket that is not that of a table of S3 Tables."""

_NAMED_BY_URI = ("sql", "rest")


class IcebergCatalogSettings(CatalogSettings):
    """The catalog of an Iceberg table."""

    type: Literal["sql", "rest", "glue", "s3tables"] = Field(
        description="Type of the catalog of an Iceberg table: a SQL database, a REST catalog, AWS Glue or a "
        "table bucket of Amazon S3 Tables.",
        examples=["rest"],
    )
    uri: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Address of the catalog: a URL of SQLAlchemy, as sqlite:////lake/catalog.db or "
        "postgresql+psycopg2://user@host/db, or that of a REST catalog. Not of glue; of s3tables only for "
        "another endpoint than the public one of the region.",
        examples=["https://catalog.example/api"],
    )
    warehouse: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Warehouse of the catalog, if a REST catalog has several. Of s3tables the ARN of the "
        "table bucket.",
        examples=["lake"],
    )
    catalog_name: str = Field(
        default="kinesis-assets",
        description="Name of the catalog. A SQL database stores it, so Spark has to use the same.",
        examples=["lake"],
    )

    @model_validator(mode="after")
    def _check_uri(self) -> Self:
        if self.type == "s3tables":
            self._check_table_bucket()
        elif (self.uri is None) != (self.type not in _NAMED_BY_URI):
            raise InvalidInput(
                f"uri: a catalog of the type {self.type} {'needs' if self.uri is None else 'has'} "
                f"{'one' if self.uri is None else 'none'}"
            )
        if self.uri is not None and urlsplit(self.uri).password is not None:
            raise InvalidInput(
                "uri: has a password; give it in the environment, such as PGPASSWORD of PostgreSQL"
            )
        return self

    def _check_table_bucket(self) -> None:
        if self.warehouse is None or not _TABLE_BUCKET.fullmatch(self.warehouse):
            raise InvalidInput(
                "warehouse: a catalog of the type s3tables needs the ARN of its table bucket, as in "
                "arn:aws:s3tables:eu-central-1:111122223333:bucket/lake"
            )
        for setting, name in (("database", self.database), ("name", self.name)):
            if name is not None and not _TABLE_BUCKET_NAME.fullmatch(name):
                raise InvalidInput(
                    f"{setting}: invalid name {name!r} in a table bucket; give lower-case letters, digits "
                    "or '_', with a letter or a digit at either end"
                )


def _check_iceberg(catalog: Mapping[str, str]) -> tuple[IcebergCatalogSettings, dict[str, str]]:
    """Return the settings of a catalog, and its further properties.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """
    properties = {name: value for name, value in catalog.items() if _PASSED_ON.fullmatch(name)}
    for name in filter(_SECRET.fullmatch, properties):
        variable = f"PYICEBERG_CATALOG__KINESIS_ASSETS__{_in_variable(name)}"
        raise InvalidInput(f"catalog: {name}: a secret; give it in the environment, such as {variable}")
    if "glue.region" in properties:
        raise InvalidInput("catalog: glue.region: give the region as region_name")
    named: dict[str, Any] = {name: value for name, value in catalog.items() if name not in properties}
    of_table_bucket = {"uri", "warehouse"} if catalog.get("type") == "s3tables" else set()
    for name in ("uri", "warehouse", "glue.id", "rest.signing-name"):
        if name not in of_table_bucket and _S3_TABLES.search(str(catalog.get(name, ""))):
            raise InvalidInput(f"catalog: {name}: {_S3_TABLES_BY_TYPE}")
    try:
        settings = IcebergCatalogSettings(**named)
    except InvalidInput as error:
        raise InvalidInput(f"catalog: {error}") from None
    given = [name for name in Connection._fields if getattr(settings, name) is not None]
    if given and not _is_of_aws(settings, properties):
        raise InvalidInput(
            f"catalog: {given[0]}: only of a catalog of the type glue, or rest with {_SIGNED}: 'true'"
        )
    return settings, properties


_SIGNED = "rest.sigv4-enabled"


def _is_of_aws(catalog: IcebergCatalogSettings, properties: Mapping[str, str]) -> bool:
    """Return whether a catalog is called with the credentials of a role, a profile or the process."""
    return catalog.type == "glue" or (
        catalog.type == "rest" and properties.get(_SIGNED, "").lower() == "true"
    )


_S3_TABLES_BY_TYPE = (
    "a table bucket of Amazon S3 Tables is a catalog of its own type; give {type: s3tables, warehouse: the "
    "ARN of the table bucket, database: lake}"
)


def _in_variable(name: str) -> str:
    """Return the name of a property as in the variables of pyiceberg."""
    return name.replace(".", "__").replace("-", "_").upper()


def _check(catalog: Mapping[str, str]) -> None:
    if "type" in catalog:
        _check_iceberg(catalog)
    else:
        catalog_of(catalog)


def _schema() -> dict[str, Any]:
    from kinesis_assets.dagster.settings.yaml_model import allow_template  # noqa: PLC0415  # loads Dagster

    schema = catalog_schema()
    iceberg = map_schema(IcebergCatalogSettings)["properties"]
    for name in iceberg.keys() - schema["properties"].keys():
        iceberg[name].pop("default", None)
        allow_template(iceberg[name])
        schema["properties"][name] = iceberg[name]
    schema["additionalProperties"] = {"type": "string"}
    return schema


class Place(NamedTuple):
    """Which Data Catalog the calls of a stream reach, unless the setting of a table names another one."""

    region_name: str | None
    role_arn: str | None
    profile_name: str | None


def entry_of(catalog: Mapping[str, str], place: Place, asset: str) -> tuple[object, ...] | None:
    """Return what identifies the entry of a table in its catalog; None if it has no catalog.

    Args:
        catalog: The setting `catalog` of the table.
        asset: The last part of its asset key.
    """
    found: tuple[CatalogSettings | None, Mapping[str, str]]
    found = _check_iceberg(catalog) if "type" in catalog else (catalog_of(catalog), {})
    settings, properties = found
    if settings is None:
        return None
    name = (settings.database, settings.name_of(asset))
    address: tuple[object, ...] = (properties.get("glue.id"), properties.get("glue.endpoint"))
    if isinstance(settings, IcebergCatalogSettings) and settings.type != "glue":
        stored = settings.catalog_name if settings.type == "sql" else None
        address = (settings.type, settings.uri, settings.warehouse, stored, *sorted(properties.items()))
        if not _is_of_aws(settings, properties):
            return (*address, *name)
    region, role = settings.region_name or place.region_name, settings.role_arn or place.role_arn
    return (*address, region, role, place.profile_name, *name)


class TableInFormat(RegisteredTable):
    """A table in a format.

    Attributes:
        named_by: The setting with the name of the format.
    """

    named_by: ClassVar[str]

    catalog: Annotated[Mapping[str, str], valid(_check), SchemaFrom(_schema)] = Field(
        default={},
        description="Of a Delta table, where it is registered in the AWS Glue Data Catalog: a map with "
        "database, and perhaps name, region_name, role_arn and external_id, see docs/catalog.md. By default "
        "it is not. Of an Iceberg table, its catalog: a map with type, database, and perhaps name, uri, "
        "warehouse, catalog_name and properties of pyiceberg, and of a catalog of AWS region_name, role_arn "
        "and external_id, see docs/iceberg.md. With the type s3tables, table is the folder of the positions.",
        examples=[{"database": "lake"}],
    )
    keep_snapshots: int = Field(
        default=50,
        ge=1,
        description="How many snapshots of an Iceberg table each commit keeps at least, the newest ones. The "
        "more there are, the longer a commit takes.",
        examples=[200],
    )
    keep_snapshot_hours: int = Field(
        default=0,
        ge=0,
        description="How long other snapshots of an Iceberg table are kept.",
        examples=[24],
        json_schema_extra={UNIT: "hours"},
    )

    @model_validator(mode="after")
    def _check_catalog(self) -> Self:
        named = f"{self.named_by}: iceberg"
        if not self.is_iceberg:
            others = TableInFormat.model_fields
            changed = [
                name
                for name in ("keep_snapshots", "keep_snapshot_hours")
                if getattr(self, name) != others[name].default
            ]
            if "type" in self.catalog:
                changed.append("catalog: type")
            if changed:
                raise InvalidInput(f"{changed[0]}: only with {named}")
            return self
        if not self.catalog:
            raise InvalidInput(
                f"{named} needs the setting catalog, such as {{type: rest, uri: ..., database: lake}}"
            )
        if "type" not in self.catalog:
            raise InvalidInput(
                "catalog: type: give that of the catalog of the Iceberg table: sql, rest, glue or s3tables"
            )
        if self.catalog["type"] == "s3tables" and not _ORDINARY_BUCKET.match(str(getattr(self, "table", ""))):
            raise InvalidInput(
                "table: with a catalog of the type s3tables, give a folder in an ordinary bucket, as in "
                "s3://bucket/prefix: it has the positions, which S3 Tables would delete in a table bucket"
            )
        if find_spec("pyiceberg") is None:
            raise InvalidInput(f"{named} needs pyiceberg: pip install 'kinesis-assets[iceberg]'")
        return self

    @property
    def is_iceberg(self) -> bool:
        """Whether it is an Iceberg table."""
        return bool(getattr(self, self.named_by) == "iceberg")

    @property
    def registration(self) -> Mapping[str, str]:
        """Where a Delta table is registered, see `catalog_of`. An Iceberg table is in its catalog anyway."""
        return {} if self.is_iceberg else self.catalog

    def name_in_catalog(self, asset: str) -> str | None:
        """Return the namespace and name of an Iceberg table, as engines name it; None for a Delta table.

        Args:
            asset: The last part of the asset key, which is the table's name by default.
        """
        if not self.is_iceberg:
            return None
        settings, _ = _check_iceberg(self.catalog)
        return f"{settings.database}.{settings.name_of(asset)}"

    def iceberg_catalog(self, asset: str, aws_settings: AwsSettings) -> IcebergCatalog:
        """Return the catalog of an Iceberg table. The first argument is as above."""
        settings, properties = _check_iceberg(self.catalog)
        return _catalog(
            settings,
            properties,
            settings.name_of(asset),
            aws_settings(settings.connection),
            snapshots_kept=self.keep_snapshots,
            snapshot_hours=self.keep_snapshot_hours,
        )

    def derived_in(self, asset: str, aws_settings: AwsSettings) -> DerivedIn | None:
        """Return the format of a derived table; None for Delta Lake. The arguments are as above."""
        return DerivedIn(partial(_derived_format, self, asset, aws_settings)) if self.is_iceberg else None


def _catalog(
    settings: IcebergCatalogSettings,
    properties: Mapping[str, str],
    name: str,
    aws: ClientSettings,
    **snapshots: int,
) -> IcebergCatalog:
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog  # noqa: PLC0415  # loads pyiceberg

    return IcebergCatalog(
        settings.type,
        settings.database,
        name,
        uri=settings.uri,
        warehouse=settings.warehouse,
        catalog_name=settings.catalog_name,
        properties=properties,
        aws=aws,
        **snapshots,
    )


def catalog_to_read(catalog: Mapping[str, str], role: AssumedRole | None) -> IcebergCatalog:
    """Return the catalog of an Iceberg table that is only read, outside of the definitions of its stream.

    Args:
        catalog: The setting `catalog` of the table, with its name.
        role: The role that calls a catalog of AWS, unless the setting names another one.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid, or pyiceberg is missing.
    """
    from kinesis_assets.kinesis.settings import ClientSettings  # noqa: PLC0415  # definitions load without the AWS SDK

    settings, properties = _check_iceberg(catalog)
    if settings.name is None:
        raise InvalidInput("catalog: name: give that of the table; by default it is that of its asset")
    if find_spec("pyiceberg") is None:
        raise InvalidInput("an Iceberg table needs pyiceberg: pip install 'kinesis-assets[iceberg]'")
    connection = settings.connection
    if connection.role_arn is not None:
        session = default_session_name(settings.name)
        role = AssumedRole(
            connection.role_arn, session, connection.external_id, region_name=connection.region_name
        )
    aws = ClientSettings(connection.region_name, role=role)
    return _catalog(settings, properties, settings.name, aws)


class RawTableFormat(TableInFormat):
    """The format of a raw table."""

    named_by: ClassVar = "format"

    format: TableFormat = Field(
        default="delta",
        description="Format of the raw table. Iceberg needs a catalog; see docs/iceberg.md.",
        examples=["iceberg"],
    )

    def format_of(self, asset: str, aws_settings: AwsSettings) -> RawFormat | None:
        """Return what opens the table in its format; None for Delta Lake.

        The arguments are those of `iceberg_catalog`.
        """
        return partial(_iceberg_format, self, asset, aws_settings) if self.is_iceberg else None


class DerivedTableFormat(TableInFormat):
    """The format of a derived table."""

    named_by: ClassVar = "table_format"

    table_format: TableFormat = Field(
        default="delta",
        description="Format of the table. Iceberg needs a catalog; see docs/iceberg.md.",
        examples=["iceberg"],
    )

    def format_of(self, asset: str) -> FormatOf | None:
        """Return what returns the format of the table, see `derived_in`; None for Delta Lake."""
        return partial(self.derived_in, asset) if self.is_iceberg else None


def _iceberg_format(
    settings: RawTableFormat, asset: str, aws_settings: AwsSettings, table: TableFiles
) -> OpenFormat:
    from kinesis_assets.table.iceberg.raw_table import IcebergFormat  # noqa: PLC0415  # loads pyiceberg

    return IcebergFormat(table, settings.iceberg_catalog(asset, aws_settings))


def _derived_format(settings: TableInFormat, asset: str, aws_settings: AwsSettings, table: Any) -> Any:
    from kinesis_assets.derive.iceberg_table import IcebergDerived  # noqa: PLC0415  # loads pyiceberg

    return IcebergDerived(table, settings.iceberg_catalog(asset, aws_settings))
