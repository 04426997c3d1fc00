"""The setting `catalog`: the entry of a table in the AWS Glue Data Catalog."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from kinesis_assets.dagster.settings.settings_base import SchemaFrom, Settings, map_schema, valid
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import check_role_settings

_DATABASE = re.compile(r"[a-z0-9_.-]{1,255}")
_NAME = re.compile(r"[a-z0-9_]{1,255}")


def _check_database(name: str) -> None:
    if not _DATABASE.fullmatch(name):
        raise InvalidInput(
            f"database: invalid name {name[:80]!r}; give 1 to 255 lower-case letters, digits, '_', '.' or '-'"
        )


def _check_name(name: str | None) -> None:
    if name is not None and not _NAME.fullmatch(name):
        raise InvalidInput(
            f"name: invalid name {name[:80]!r}; give 1 to 255 lower-case letters, digits or '_', which "
            "Athena needs no quotes for"
        )


class Connection(NamedTuple):
    """How to connect to AWS Glue. None is what the stream has."""

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
        """How to connect to AWS Glue."""
        return Connection(self.region_name, self.role_arn, self.external_id)

    def name_of(self, asset: str) -> str:
        """Return the name of the entry of an asset.

        Args:
            asset: The last part of the asset key.
        """
        return self.name or re.sub(r"[^a-z0-9]", "_", asset.lower())[:255]


def catalog_of(catalog: Mapping[str, str]) -> CatalogSettings | None:
    """Return the map that the setting `catalog` is; None if it is empty.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """
    if not catalog:
        return None
    try:
        return CatalogSettings(**catalog)
    except InvalidInput as error:
        raise InvalidInput(f"catalog: {error}") from None


def without_name(catalog: Mapping[str, str]) -> dict[str, str]:
    """Return the setting of a table for another one, which has a name of its own."""
    return {setting: value for setting, value in catalog.items() if setting != "name"}


def catalog_schema() -> dict[str, Any]:
    """Return the JSON schema of the setting of a Delta table."""
    from kinesis_assets.dagster.settings.yaml_model import allow_template  # noqa: PLC0415  # loads Dagster

    schema = map_schema(CatalogSettings)
    for field in schema["properties"].values():
        field.pop("default", None)
        allow_template(field)
    return schema


class RegisteredTable(Settings):
    """A table that other engines find."""

    catalog: Annotated[Mapping[str, str], valid(catalog_of), SchemaFrom(catalog_schema)] = Field(
        default={},
        description="Where the table is registered in the AWS Glue Data Catalog: a map with database, and "
        "perhaps name, region_name, role_arn and external_id, see docs/catalog.md. By default it is not.",
        examples=[{"database": "lake"}],
    )
