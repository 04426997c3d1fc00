"""How the settings of executors reach a session of Spark."""

from __future__ import annotations

import pytest

from kinesis_assets.dagster.settings.spark_settings import SparkSettings
from kinesis_assets.errors import InvalidInput

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
