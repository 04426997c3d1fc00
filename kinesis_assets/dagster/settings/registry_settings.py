"""The settings of the Glue Schema Registry in a typed table: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from kinesis_assets.dagster.settings.settings_base import SchemaFrom, Settings, map_schema, valid
from kinesis_assets.dagster.settings.yaml_model import allow_template
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import check_role_settings


class RegisteredSchema(Settings):
    """A schema of the Glue Schema Registry."""

    registry: str = Field(
        min_length=1, description="Name of the registry, in its account and region.", examples=["shop"]
    )
    name: str = Field(min_length=1, description="Name of the schema.", examples=["orders"])
    version: Annotated[int, Field(ge=1)] | SkipJsonSchema[None] = Field(
        default=None,
        description="Number of the version. By default the latest one, which is read at each step of a run.",
        examples=[3],
    )


class RegistrySettings(Settings):
    """How to connect to the Glue Schema Registry: the arguments of `GlueRegistry`."""

    region_name: str | SkipJsonSchema[None] = Field(
        default=None, description="AWS region of the registry, as in boto3.", examples=["eu-central-1"]
    )
    endpoint_url: str | SkipJsonSchema[None] = Field(
        default=None, description="Endpoint of AWS Glue, as in boto3.", examples=["http://127.0.0.1:4566"]
    )
    profile_name: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Profile of the AWS configuration, as in boto3. It must exist on Spark's executors too.",
        examples=["analytics"],
    )
    role_arn: str | SkipJsonSchema[None] = Field(
        default=None,
        description="ARN of a role that reads the registry. Driver and executors assume it with the "
        "credentials that they find. By default these credentials are used themselves.",
        examples=["arn:aws:iam::111122223333:role/schema-reader"],
    )
    external_id: str | SkipJsonSchema[None] = Field(
        default=None,
        description="External id that the trust policy of the role requires. Only with role_arn.",
        examples=["shop-4711"],
    )
    session_name: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Name of the sessions of the role, as in AWS CloudTrail. Only with role_arn.",
        examples=["orders-production"],
    )

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        check_role_settings(self.role_arn, self.external_id, self.session_name)
        return self


def registered_schema(schema: str | Mapping[str, Any] | None) -> RegisteredSchema | None:
    """Return the schema of the registry that the setting `schema` names; None if the schema is not there.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """
    if not isinstance(schema, Mapping):
        return None
    try:
        return RegisteredSchema(**schema)
    except InvalidInput as error:
        raise InvalidInput(f"schema: {error}") from None


def _check_registry(registry: Mapping[str, Any]) -> None:
    names = RegistrySettings.model_fields
    if unknown := sorted(registry.keys() - names.keys()):
        raise InvalidInput(
            f"registry: unknown setting {unknown[0][:80]}; the settings are {', '.join(names)}"
        )
    try:
        RegistrySettings(**registry)
    except InvalidInput as error:
        raise InvalidInput(f"registry: {error}") from None


def _map(settings: type[Settings]) -> dict[str, Any]:
    """Return the JSON schema of a map whose values may be templates. A value is left out, and not null."""
    schema = map_schema(settings)
    for field in schema["properties"].values():
        field.pop("default", None)
        allow_template(field)
    return schema


def _schema_of_schema() -> dict[str, Any]:
    return {"anyOf": [{"type": "string"}, _map(RegisteredSchema), {"type": "null"}]}


def _schema_of_registry() -> dict[str, Any]:
    return _map(RegistrySettings)


SchemaField = Annotated[
    str | Mapping[str, str | int] | None, valid(registered_schema), SchemaFrom(_schema_of_schema)
]
"""The type of the setting `schema`: a text, or a map that `registered_schema` accepts."""

RegistryField = Annotated[Mapping[str, str], valid(_check_registry), SchemaFrom(_schema_of_registry)]
"""The type of the setting `registry`: a map of `RegistrySettings`."""
