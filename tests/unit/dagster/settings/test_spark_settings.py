"""How the settings of executors, and of the service that runs them, reach a session of Spark."""

from __future__ import annotations

from typing import get_args

import pytest

from kinesis_assets.dagster.settings.spark_settings import SERVICE_SETTINGS, Service, SparkSettings
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import InvalidInput, LandingFailed
from kinesis_assets.spark.managed import SERVICES

ARCHIVE = "s3://lake/environment.tar.gz"


def test_a_session_without_them_has_the_settings_of_spark_alone():
    assert SparkSettings(spark_config={"a": "b"}).session_config == {"a": "b"}


def test_an_environment_is_unpacked_beside_other_archives_and_its_python_is_used():
    settings = SparkSettings(spark_config={"spark.archives": "model.zip#model"}, python_environment=ARCHIVE)
    assert settings.session_config == {
        "spark.archives": f"model.zip#model,{ARCHIVE}#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }


def test_a_named_interpreter_has_precedence_over_that_of_the_environment():
    settings = SparkSettings(python_environment=ARCHIVE, python_executable="./environment/bin/pypy")
    assert settings.session_config["spark.pyspark.python"] == "./environment/bin/pypy"


def test_the_number_of_tasks_is_a_setting_of_the_session():
    assert SparkSettings(tasks=3).session_config == {"spark.kinesis_assets.tasks": "3"}


@pytest.mark.parametrize("environment", ["a.tar.gz#x", "a.tar.gz,b.tar.gz"])
def test_an_environment_is_one_archive(environment):
    with pytest.raises(InvalidInput, match="python_environment"):
        SparkSettings(python_environment=environment)


# The setting managed_spark

GLUE = {"service": "glue", "execution_role_arn": "arn:aws:iam::111122223333:role/kinesis-assets"}


def test_every_service_has_settings():
    assert [*get_args(Service)] == [*SERVICE_SETTINGS] == [*SERVICES]


def test_the_session_gets_the_service_with_its_defaults():
    config = SparkSettings(managed_spark=GLUE, spark_config={"a": "b"}).session_config
    assert config["a"] == "b"
    assert config["spark.kinesis_assets.managed"]["worker_type"] == "G.1X"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "service .*emr-serverless, emr, glue"),
        ({"service": "dataproc"}, "service must be one of"),
        ({"service": []}, "service must be one of"),
        ({"service": "glue"}, "execution_role_arn"),
        ({"service": "emr"}, "cluster_id"),
        ({**GLUE, "cluster_id": "j-1"}, "cluster_id"),
        ({**GLUE, "workers": 1}, "workers"),
    ],
)
def test_an_invalid_service_is_refused(settings, reason):
    with pytest.raises(InvalidInput, match=f"managed_spark.*{reason}"):
        SparkSettings(managed_spark=settings)


@pytest.mark.parametrize("name", ["spark.master", "spark.remote"])
def test_a_service_excludes_another_place_for_the_session(name):
    with pytest.raises(InvalidInput, match=f"managed_spark and {name}"):
        SparkSettings(managed_spark=GLUE, spark_config={name: "local"})


def test_a_session_that_cannot_be_started_is_an_error_that_names_the_stream(monkeypatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    project = StreamProject.from_settings("clicks", table=str(tmp_path), managed_spark=GLUE)
    with (
        project.open_stream() as opened,
        pytest.raises(LandingFailed, match=r"^stream clicks: .*AWS Glue.*region_name"),
    ):
        opened.start_spark()
