"""The catalogs of tables: the setting `catalog`, what it identifies, and the catalog that it opens.

That of a Delta table says where the AWS Glue Data Catalog has an entry; that of an Iceberg table, which
catalog has the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from kinesis_assets.dagster.settings.settings_base import SchemaFrom, Settings, map_schema, naming, valid
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import AssumedRole, check_role_settings, default_session_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog

    AwsSettings = Callable[["Connection"], ClientSettings]
    """Returns how AWS is called for the catalog of a table, see `OpenStream.aws_settings`."""

_DATABASE = re.compile(r"[a-z0-9_.-]{1,255}")
_NAME = re.compile(r"[a-z0-9_]{1,255}")


def _check_database(name: str) -> None:
    if not _DATABASE.fullmatch(name):
        raise InvalidInput(
            f"database: invalid name {name[:80]!r}; give 1 to 255 lower-case letters, digits, '_', '.' or '-'"
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name: invalid name {name[:80]!r}; give 1 to 255 lower-case letters, digits or '_', which "
            "Athena needs no quotes for"
        )


class Connection(NamedTuple):
    """How to connect to a catalog of AWS. None is what the stream has."""

    region_name: str | None
    role_arn: str | None
    external_id: str | None


class CatalogSettings(Settings):
    """Where a table is registered in the AWS Glue Data Catalog."""

    database: Annotated[str, valid(_check_database)] = Field(
        description="Database of the Data Catalog. It must exist.", examples=["lake"]
    )
    name: Annotated[str | SkipJsonSchema[None], valid(_check_name)] = Field(
        default=None,
        description="Name of the entry. By default that of the asset in lower case, with _ for characters "
        "that are neither letters nor digits.",
        examples=["orders"],
    )
    region_name: str | SkipJsonSchema[None] = Field(
        default=None,
        description="AWS region of the Data Catalog, as in boto3. By default that of the stream.",
        examples=["eu-central-1"],
    )
    role_arn: str | SkipJsonSchema[None] = Field(
        default=None,
        description="ARN of a role that calls AWS Glue, which may belong to another account. By default "
        "the role of the stream.",
        examples=["arn:aws:iam::111122223333:role/catalog-writer"],
    )
    external_id: str | SkipJsonSchema[None] = Field(
        default=None,
        description="External id that the trust policy of the role requires. Only with role_arn.",
        examples=["shop-4711"],
    )

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        check_role_settings(self.role_arn, self.external_id, None)
        return self

    @property
    def connection(self) -> Connection:
        """How to connect to the catalog."""
        return Connection(self.region_name, self.role_arn, self.external_id)

    def name_of(self, asset: str) -> str:
        """Return the name of the entry of an asset, given the last part of its key."""
        return self.name or re.sub(r"[^a-z0-9]", "_", asset.lower())[:255]

    def full_name(self, asset: str) -> str:
        """Return the database and the name of the entry of an asset, given the last part of its key."""
        return f"{self.database}.{self.name_of(asset)}"


def catalog_of(catalog: Mapping[str, str]) -> CatalogSettings | None:
    """Return the map that the setting `catalog` of a Delta table is; None if it is empty.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """
    if not catalog:
        return None
    with naming("catalog"):
        return CatalogSettings(**catalog)


def without_name(catalog: Mapping[str, str]) -> dict[str, str]:
    """Return the setting of a table for another one, which has a name of its own."""
    return {setting: value for setting, value in catalog.items() if setting != "name"}


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

_S3_TABLES_BY_TYPE = (
    "a table bucket of Amazon S3 Tables is a catalog of its own type; give {type: s3tables, warehouse: the "
    "ARN of the table bucket, database: lake}"
)

_SIGNED = "rest.sigv4-enabled"


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
        elif (self.uri is None) != (self.type == "glue"):
            problem = "needs one" if self.uri is None else "has none"
            raise InvalidInput(f"uri: a catalog of the type {self.type} {problem}")
        if self.uri is not None and urlsplit(self.uri).password is not None:
            raise InvalidInput(
                "uri: has a password; give it in the environment, such as PGPASSWORD of PostgreSQL"
            )
        return self

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        levels = self.database.split(".")
        if self.type == "glue" and len(levels) > 1:
            raise InvalidInput(
                f"database: invalid name {self.database[:80]!r}; give an Iceberg table in AWS Glue a "
                "database without '.' in its name"
            )
        if not all(levels):
            raise InvalidInput(
                f"database: invalid name {self.database[:80]!r}; a level of the namespace is empty; give one "
                "name or several, with '.' between them"
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


def iceberg_catalog_of(catalog: Mapping[str, str]) -> tuple[IcebergCatalogSettings, dict[str, str]]:
    """Return the settings of a catalog, and its further properties.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """
    properties = {name: value for name, value in catalog.items() if _PASSED_ON.fullmatch(name)}
    for name in filter(_SECRET.fullmatch, properties):
        in_variable = name.replace(".", "__").replace("-", "_").upper()
        variable = f"PYICEBERG_CATALOG__KINESIS_ASSETS__{in_variable}"
        raise InvalidInput(f"catalog: {name}: a secret; give it in the environment, such as {variable}")
    if "glue.region" in properties:
        raise InvalidInput("catalog: glue.region: give the region as region_name")
    named: dict[str, Any] = {name: value for name, value in catalog.items() if name not in properties}
    of_table_bucket = {"uri", "warehouse"} if catalog.get("type") == "s3tables" else set()
    for name in ("uri", "warehouse", "glue.id", "rest.signing-name"):
        if name not in of_table_bucket and _S3_TABLES.search(str(catalog.get(name, ""))):
            raise InvalidInput(f"catalog: {name}: {_S3_TABLES_BY_TYPE}")
    with naming("catalog"):
        settings = IcebergCatalogSettings(**named)
    given = [name for name in Connection._fields if getattr(settings, name) is not None]
    if given and not _is_of_aws(settings, properties):
        raise InvalidInput(
            f"catalog: {given[0]}: only of a catalog of the type glue, or rest with {_SIGNED}: 'true'"
        )
    return settings, properties


def _is_of_aws(catalog: IcebergCatalogSettings, properties: Mapping[str, str]) -> bool:
    """Return whether a catalog is called with the credentials of a role, a profile or the process."""
    return catalog.type == "glue" or (
        catalog.type == "rest" and properties.get(_SIGNED, "").lower() == "true"
    )


def _check(catalog: Mapping[str, str]) -> None:
    if "type" in catalog:
        iceberg_catalog_of(catalog)
    else:
        catalog_of(catalog)


def _schema() -> dict[str, Any]:
    from kinesis_assets.dagster.settings.yaml_model import map_fields  # noqa: PLC0415  # loads Dagster

    schema = map_schema(CatalogSettings)
    schema["properties"] = map_fields(IcebergCatalogSettings)
    return schema | {"additionalProperties": {"type": "string"}}


CatalogField = Annotated[Mapping[str, str], valid(_check), SchemaFrom(_schema)]


class Place(NamedTuple):
    """Which Data Catalog the calls of a stream reach, unless the setting of a table names another one."""

    region_name: str | None
    role_arn: str | None
    profile_name: str | None


def entry_id(catalog: Mapping[str, str], place: Place, asset: str) -> tuple[object, ...] | None:
    """Return what identifies the entry of a table, by the setting and the last part of the asset key.

    None if the table has no catalog.
    """
    found: tuple[CatalogSettings | None, Mapping[str, str]]
    found = iceberg_catalog_of(catalog) if "type" in catalog else (catalog_of(catalog), {})
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


def open_iceberg(
    catalog: Mapping[str, str], asset: str, aws_settings: AwsSettings, **snapshots: int
) -> IcebergCatalog:
    """Return the catalog of an Iceberg table, by the setting and the last part of the asset key.

    Args:
        snapshots: Which snapshots are kept, by the names of `IcebergCatalog`.
    """
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog  # noqa: PLC0415  # loads pyiceberg

    settings, properties = iceberg_catalog_of(catalog)
    return IcebergCatalog(
        settings.type,
        settings.database,
        settings.name_of(asset),
        uri=settings.uri,
        warehouse=settings.warehouse,
        catalog_name=settings.catalog_name,
        properties=properties,
        aws=aws_settings(settings.connection),
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

    name = iceberg_catalog_of(catalog)[0].name
    if name is None:
        raise InvalidInput("catalog: name: give that of the table; by default it is that of its asset")
    if find_spec("pyiceberg") is None:
        raise InvalidInput("an Iceberg table needs pyiceberg: pip install 'kinesis-assets[iceberg]'")
    session = default_session_name(name)

    def aws_settings(connection: Connection) -> ClientSettings:
        region, arn, external_id = connection
        own = role if arn is None else AssumedRole(arn, session, external_id, region_name=region)
        return ClientSettings(region, role=own)

    return open_iceberg(catalog, name, aws_settings)
