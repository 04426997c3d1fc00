"""Shared fixtures: the embedded stream with its faults, Spark, and a table."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import settings as hypothesis_settings
from pyspark.sql import SparkSession

from kinesis_assets.errors import JavaUnavailable
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.spark.java import require_java
from kinesis_assets.table.table import PositionedTable
from kinesis_assets.testing import Clock, Faults, LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


hypothesis_settings.register_profile("untimed", hypothesis_settings(), deadline=None)
hypothesis_settings.load_profile("untimed")  # how long an example takes is the machine's


@dataclass(frozen=True)
class Clocked:
    """An embedded stream with a clock to move, and how it is reached."""

    clock: Clock
    kinesis: Any
    settings: ClientSettings


def settings_of(local: LocalKinesis) -> ClientSettings:
    """How the package reaches an embedded stream."""
    return ClientSettings(region_name=local.region, endpoint_url=local.endpoint_url)


def boto3_of(local: LocalKinesis) -> Any:
    """A plain boto3 client of an embedded stream."""
    return boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)


_faults = Faults()


def pytest_sessionstart() -> None:
    """Say in one line what Spark's absence would say in many."""
    try:
        require_java()
    except JavaUnavailable as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Credentials that mean nothing, and none of this machine's AWS settings; the same Python in Spark."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def local_kinesis(environment: None) -> Iterator[LocalKinesis]:
    """The embedded stream, shared by the session: tests name their own streams."""
    del environment
    with LocalKinesis(wrap=_faults.around) as local:
        yield local


@pytest.fixture
def faults(local_kinesis: LocalKinesis) -> Iterator[Faults]:
    """What bends the embedded stream's answers, and notes its calls; clean for each test."""
    del local_kinesis
    _faults.clear()
    yield _faults
    _faults.clear()


@pytest.fixture(scope="session")
def settings(local_kinesis: LocalKinesis) -> ClientSettings:
    """How the package reaches the shared embedded stream."""
    return settings_of(local_kinesis)


@pytest.fixture
def clocked(environment: None, faults: Faults) -> Iterator[Clocked]:
    """An embedded stream of the test's own, whose clock the test moves; `faults` bends it too."""
    del environment
    clock = Clock()
    with LocalKinesis(now=clock, wrap=faults.around) as local:
        yield Clocked(clock, boto3_of(local), settings_of(local))


@pytest.fixture(scope="session")
def kinesis(local_kinesis: LocalKinesis) -> Any:
    """A plain boto3 client of the shared embedded stream."""
    return boto3_of(local_kinesis)


@pytest.fixture
def stream() -> str:
    """A stream name of the test's own; the test creates it."""
    return f"stream-{uuid4().hex[:12]}"


@pytest.fixture
def table(tmp_path: Path) -> PositionedTable:
    """A table of the test's own; the first freeze creates it."""
    return PositionedTable(str(tmp_path / "table"))


@pytest.fixture(scope="session")
def spark(environment: None) -> Iterator[SparkSession]:
    """A classic local session; two tasks at once, and a failed one is tried four times."""
    del environment
    session = (
        SparkSession.builder.master("local[2,4]")
        .appName("kinesis_assets tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    yield session
    session.stop()
