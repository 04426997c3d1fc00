"""The settings of a Spark session and of its executors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from kinesis_assets.dagster.settings.managed_spark import ManagedSpark, parse
from kinesis_assets.dagster.settings.settings_base import Settings, valid
from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.local_settings import ARCHIVES, MANAGED, PYTHON, TASKS

_FOLDER = "environment"
"""The folder into which each executor unpacks the environment, below its working directory."""


def _check_environment(path: str | None) -> None:
    if path is not None and not set(path).isdisjoint("#,"):
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
        if (managed := parse(self.managed_spark)) is not None:
            config[MANAGED] = managed
        if self.python_environment is not None:
            archives = [config[ARCHIVES]] if config.get(ARCHIVES) else []
            config[ARCHIVES] = ",".join([*archives, f"{self.python_environment}#{_FOLDER}"])
            config[PYTHON] = f"./{_FOLDER}/bin/python"
        if self.python_executable is not None:
            config[PYTHON] = self.python_executable
        if self.tasks is not None:
            config[TASKS] = str(self.tasks)
        return config
