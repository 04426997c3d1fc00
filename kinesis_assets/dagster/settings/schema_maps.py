"""The maps that the settings `schema` and `registry` of a typed table may be."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from kinesis_assets.dagster.settings.settings_base import SchemaFrom, Settings, map_schema, naming, valid
from kinesis_assets.dagster.settings.yaml_model import map_fields
from kinesis_assets.decoders.formats import SchemaKind, map_kind
from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.role import check_role_settings
from kinesis_assets.schemas.registries import check_connection

_VERSION = Annotated[int, Field(ge=1)] | SkipJsonSchema[None]
_LATEST = "Number of the version. By default the latest one, which is read at each step of a run."
_MESSAGE = "Full name of the Protobuf message. A registered schema with a single message does not need it."


class RegisteredSchema(Settings):
    """A schema of the Glue Schema Registry."""

    registry: str = Field(
        min_length=1, description="Name of the registry, in its account and region.", examples=["shop"]
    )
    name: str = Field(min_length=1, description="Name of the schema.", examples=["orders"])
    version: _VERSION = Field(default=None, description=_LATEST, examples=[3])
    message: str | SkipJsonSchema[None] = Field(default=None, description=_MESSAGE, examples=["shop.Order"])


class SubjectSchema(Settings):
    """A schema of a registry with the API of Confluent's Schema Registry."""

    subject: str = Field(min_length=1, description="Subject of the schema.", examples=["orders-value"])
    version: _VERSION = Field(default=None, description=_LATEST, examples=[3])
    message: str | SkipJsonSchema[None] = Field(default=None, description=_MESSAGE, examples=["shop.Order"])


class ProtobufSchema(Settings):
    """A message of a descriptor set."""

    file: str = Field(
        min_length=1,
        description="Path of a descriptor set, relative to the folder of the YAML, as protoc writes it with "
        "--include_imports and --descriptor_set_out.",
        examples=["shop.desc"],
    )
    message: str = Field(min_length=1, description=_MESSAGE, examples=["shop.Order"])


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


class ConfluentSettings(Settings):
    """How to connect to a registry with the API of Confluent's Schema Registry, or a folder in its place."""

    url: str | SkipJsonSchema[None] = Field(
        default=None, description="Address of the registry.", examples=["https://registry.example:8081"]
    )
    username: str | SkipJsonSchema[None] = Field(
        default=None,
        description="User name for HTTP basic authentication, or an API key.",
        examples=["orders"],
    )
    password: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Password, or the secret of the API key. Driver and executors use it.",
        examples=["{{ env.REGISTRY_PASSWORD }}"],
    )
    folder: str | SkipJsonSchema[None] = Field(
        default=None,
        description="Path of a folder with schemas in place of a registry, relative to the folder of the "
        "YAML. The name of each file is the id of its schema: 17.avsc, 18.json or 19.proto.",
        examples=["schemas"],
    )

    @model_validator(mode="after")
    def _check_connection(self) -> Self:
        if (self.url is None) == (self.folder is None):
            raise InvalidInput("url and folder: exactly one of them is required")
        if self.url is not None:
            check_connection(self.url, self.username, self.password)
            if find_spec("confluent_kafka") is None:
                raise InvalidInput(
                    "url: a registry needs confluent-kafka: pip install 'kinesis-assets[confluent]'"
                )
        elif self.username is not None or self.password is not None:
            raise InvalidInput("username and password: only with a url; remove them")
        return self


_SCHEMAS: Mapping[SchemaKind, type[RegisteredSchema | SubjectSchema | ProtobufSchema]] = {
    SchemaKind.PROTOBUF: ProtobufSchema,
    SchemaKind.REGISTERED: RegisteredSchema,
    SchemaKind.SUBJECT: SubjectSchema,
}

_REGISTRIES: Mapping[SchemaKind, type[RegistrySettings | ConfluentSettings]] = {
    SchemaKind.REGISTERED: RegistrySettings,
    SchemaKind.SUBJECT: ConfluentSettings,
}
"""The connections of registries, by the kind of their schemas."""


def schema_map(
    schema: str | Mapping[str, Any] | None,
) -> RegisteredSchema | SubjectSchema | ProtobufSchema | None:
    """Return the map that the setting `schema` is; None if it is none."""
    if not isinstance(schema, Mapping):
        return None
    with naming("schema"):
        return _SCHEMAS[map_kind(schema)](**schema)


def registry_kind(registry: Mapping[str, Any]) -> SchemaKind:
    """Return the kind of the schemas in the registry to which the setting `registry` connects."""
    is_confluent = any(name in ConfluentSettings.model_fields for name in registry)
    return SchemaKind.SUBJECT if is_confluent else SchemaKind.REGISTERED


def _check_registry(registry: Mapping[str, Any]) -> None:
    settings = _REGISTRIES[registry_kind(registry)]
    names = settings.model_fields
    if unknown := sorted(registry.keys() - names.keys()):
        raise InvalidInput(
            f"registry: unknown setting {unknown[0][:80]}; the settings are {', '.join(names)}"
        )
    with naming("registry"):
        settings(**registry)


def _map(*alternatives: type[Settings]) -> dict[str, Any]:
    """Return the JSON schema of a map that has the fields of one of some settings."""
    found = {"type": "object", "properties": map_fields(*alternatives), "additionalProperties": False}
    schemas = map(map_schema, alternatives)
    required = [{"required": schema["required"]} for schema in schemas if "required" in schema]
    return found | {"anyOf": required} if required else found


SchemaField = Annotated[
    str | Mapping[str, str | int] | None,
    valid(schema_map),
    SchemaFrom(lambda: {"anyOf": [{"type": "string"}, _map(*_SCHEMAS.values()), {"type": "null"}]}),
]

RegistryField = Annotated[
    Mapping[str, str], valid(_check_registry), SchemaFrom(lambda: _map(*_REGISTRIES.values()))
]
