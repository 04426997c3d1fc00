"""The settings of a Spark session and of its executors, also of a session that a service of AWS runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from kinesis_assets.dagster.settings.settings_base import (
    UNIT,
    SchemaFrom,
    Settings,
    map_schema,
    naming,
    valid,
)
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.local_settings import ARCHIVES, MANAGED, PYTHON, TASKS

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


def parse(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a service with their defaults."""
    service = settings.get("service")
    kind = SERVICE_SETTINGS.get(service) if isinstance(service, str) else None
    if kind is None:
        raise InvalidInput(f"managed_spark: service must be one of {', '.join(SERVICE_SETTINGS)}")
    with naming("managed_spark"):
        return kind(**settings).model_dump()


def _schema() -> dict[str, Any]:
    """Return the JSON schema: the settings of all services, of which `parse` accepts those of one."""
    properties: dict[str, Any] = {}
    for kind in SERVICE_SETTINGS.values():
        properties |= map_schema(kind)["properties"]
    settings = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"anyOf": [{**settings, "required": ["service"]}, {"type": "null"}]}


ManagedSpark = Annotated[Mapping[str, Any] | None, valid(parse), SchemaFrom(_schema)]


_FOLDER = "environment"
"""The folder into which each executor unpacks the environment, below its working directory."""


def _check_environment(path: str) -> None:
    if not set(path).isdisjoint("#,"):
        raise InvalidInput("python_environment must be one path or URI, without # and commas")


class SparkSettings(Settings):
    """The Spark session of a stream's runs, and the Python of its executors."""

    spark_config: Mapping[str, Any] = Field(
        default={},
        description="Settings of the Spark session.",
        examples=[{"spark.driver.memory": "2g"}],
    )
    managed_spark: ManagedSpark = Field(
        default=None,
        description="Service of AWS that runs the session of each run: emr-serverless, emr or glue, with its "
        "own settings. See docs/spark.md.",
        examples=[
            {
                "service": "emr-serverless",
                "application_id": "00f1abcdexample",
                "execution_role_arn": "arn:aws:iam::111122223333:role/kinesis-assets",
            }
        ],
    )
    python_environment: Annotated[str | None, valid(_check_environment)] = Field(
        default=None,
        description="Archive with the Python packages of the executors, which "
        "`kinesis-assets spark environment` creates: a path on the machine of the run, which sends it; or, "
        "on a cluster, a URI that Spark itself can read. By default the executors have these packages "
        "installed.",
        examples=["/opt/kinesis-assets.tar.gz", "hdfs:///environments/kinesis-assets.tar.gz"],
    )
    python_executable: str | None = Field(
        default=None,
        min_length=1,
        description="Python interpreter of the executors. By default the one of python_environment; without "
        "it, this interpreter on a local master, and python3 on a cluster.",
        examples=["/usr/bin/python3.12"],
    )
    tasks: int | None = Field(
        default=None,
        ge=1,
        description="Number of tasks among which a run divides its shards. By default as many as the cluster "
        "can run at once.",
        examples=[16],
    )

    @field_validator("spark_config", mode="before")
    @classmethod
    def _accept_none(cls, value: Any) -> Any:
        return {} if value is None else value

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        elsewhere = [name for name in ("spark.master", "spark.remote") if name in self.spark_config]
        if self.managed_spark is not None and elsewhere:
            raise InvalidInput(f"managed_spark and {elsewhere[0]} in spark_config: set one of them only")
        return self

    @property
    def session_config(self) -> dict[str, Any]:
        """The settings of the session, including those by which Spark knows the other fields."""
        config = dict(self.spark_config)
        if self.managed_spark is not None:
            config[MANAGED] = parse(self.managed_spark)
        if self.python_environment is not None:
            archives = [config[ARCHIVES]] if config.get(ARCHIVES) else []
            config[ARCHIVES] = ",".join([*archives, f"{self.python_environment}#{_FOLDER}"])
            config[PYTHON] = f"./{_FOLDER}/bin/python"
        if self.python_executable is not None:
            config[PYTHON] = self.python_executable
        if self.tasks is not None:
            config[TASKS] = str(self.tasks)
        return config
