"""The setting `managed_spark`: the service of AWS that runs the Spark session of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from kinesis_assets.dagster.settings.settings_base import UNIT, SchemaFrom, Settings, map_schema, valid
from kinesis_assets.errors import InvalidInput

Service = Literal["emr-serverless", "emr", "glue"]


class ManagedSparkSettings(Settings):
    """The settings that all services have."""

    service: Service = Field(description="Service that runs the session.", examples=["emr-serverless"])
    region_name: str | None = Field(
        default=None, description="AWS region of the service, as in boto3.", examples=["eu-west-1"]
    )
    profile_name: str | None = Field(
        default=None, description="Profile of the AWS configuration, as in boto3.", examples=["data"]
    )
    idle_timeout_minutes: int = Field(
        default=15,
        ge=1,
        description="Time after which the service ends a session that a killed run has left.",
        examples=[30],
        json_schema_extra={UNIT: "minutes"},
    )
    tags: Mapping[str, str] = Field(
        default={},
        description="Tags of the session, such as those for cost allocation.",
        examples=[{"team": "sales"}],
    )


class EmrServerlessSettings(ManagedSparkSettings):
    """Sessions on an application of EMR Serverless."""

    application_id: str = Field(
        min_length=1, description="Id of the application.", examples=["00f1abcdexample"]
    )
    execution_role_arn: str = Field(
        min_length=20,
        description="ARN of the role of the session.",
        examples=["arn:aws:iam::111122223333:role/kinesis-assets"],
    )


class EmrSettings(ManagedSparkSettings):
    """Sessions on an EMR cluster on EC2."""

    cluster_id: str = Field(min_length=1, description="Id of the cluster.", examples=["j-1K48XXXXXXHCB"])
    execution_role_arn: str | None = Field(
        default=None,
        min_length=20,
        description="ARN of the role of the session. By default that of the cluster.",
        examples=["arn:aws:iam::111122223333:role/kinesis-assets"],
    )


class GlueSettings(ManagedSparkSettings):
    """Interactive sessions of AWS Glue."""

    execution_role_arn: str = Field(
        min_length=20,
        description="ARN of the role of the session.",
        examples=["arn:aws:iam::111122223333:role/kinesis-assets"],
    )
    glue_version: str = Field(default="6.0", description="Version of AWS Glue.", examples=["5.1"])
    worker_type: str = Field(default="G.1X", description="Type of the workers.", examples=["G.2X"])
    workers: int = Field(
        default=2,
        ge=2,
        description="Number of workers, including that of the driver.",
        examples=[5],
        json_schema_extra={UNIT: "workers"},
    )


SERVICE_SETTINGS: dict[str, type[ManagedSparkSettings]] = {
    "emr-serverless": EmrServerlessSettings,
    "emr": EmrSettings,
    "glue": GlueSettings,
}
"""The settings of a session by the name of its service."""


def parse(settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the settings of a service with their defaults; None if Spark is not a service's.

    Raises:
        InvalidInput: The service is unknown, or a setting is unknown, missing or invalid.
    """
    if settings is None:
        return None
    service = settings.get("service")
    kind = SERVICE_SETTINGS.get(service) if isinstance(service, str) else None
    if kind is None:
        raise InvalidInput(f"managed_spark: service must be one of {', '.join(SERVICE_SETTINGS)}")
    try:
        return kind(**settings).model_dump()
    except InvalidInput as error:
        raise InvalidInput(f"managed_spark: {error}") from None


def _schema() -> dict[str, Any]:
    """Return the JSON schema: the settings of all services, of which `parse` accepts those of one."""
    properties: dict[str, Any] = {}
    for kind in SERVICE_SETTINGS.values():
        properties |= map_schema(kind)["properties"]
    settings = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"anyOf": [{**settings, "required": ["service"]}, {"type": "null"}]}


ManagedSpark = Annotated[Mapping[str, Any] | None, valid(parse), SchemaFrom(_schema)]
"""The type of the setting: a map that `parse` accepts."""
