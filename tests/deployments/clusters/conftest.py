"""Spark that knows nothing of this package: a standalone cluster and a Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from benchmarks.harness.waiting import SECONDS
from benchmarks.servers import spark_cluster
from benchmarks.servers.spark_cluster import ConnectServer, StandaloneCluster
from kinesis_assets.spark.local_settings import PY_FILES

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
DERIVED_RUN = Path(__file__).with_name("derived_run.py")
FAN_OUT_RUN = Path(__file__).with_name("fan_out_run.py")
OWN_MODULE = Path(__file__).with_name("own_module.py")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """The folder of a Python interpreter without any package."""
    return spark_cluster.bare_python(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def packed():
    """The archive with the packages that tasks import."""
    return spark_cluster.packed_environment()


@pytest.fixture(scope="session")
def python_with_packages(tmp_path_factory):
    """A Python interpreter with these packages, for runs that do not have to send them."""
    return str(spark_cluster.unpacked_environment(tmp_path_factory.mktemp("packages") / "unpacked"))


@pytest.fixture(scope="module")
def cluster(environment, bare_python, tmp_path_factory):
    """A standalone cluster of a master and two workers."""
    del environment
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), bare_python) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def connect_server(environment, bare_python, tmp_path_factory):
    """A Spark Connect server."""
    del environment
    with ConnectServer(tmp_path_factory.mktemp("connect"), bare_python) as server:
        yield server


@pytest.fixture(scope="module", params=["connect_server"])
def spark_server(request):
    """The Spark Connect server, or what a test is parametrized with."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def executable(tmp_path):
    """Writes a shell script that executes a command with its own arguments, and returns its path."""

    def executable(script):
        path = tmp_path / "python"
        path.write_text(f'#!/bin/sh\n{script} "$@"\n')
        path.chmod(0o755)
        return str(path)

    return executable


@pytest.fixture
def command(settings, stream, tmp_path):
    """Runs a command on the stream of the test. Returns the exit code, the rows and errors."""

    def command(name, *options, **given):
        given = [f"{field}={json.dumps(value)}" for field, value in given.items()]
        options = [*options, *(part for pair in given for part in ("--set", pair))]
        place = ["--stream", stream, "--endpoint-url", str(settings.endpoint_url), "--json"]
        done = _run([SCRIPT, name, *place, *options], tmp_path)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    return command


@pytest.fixture
def run(command, tmp_path):
    """Runs the stream of the test into `tmp_path / "table"`. Returns the exit code, the events and errors."""
    return partial(command, "run", "--table", str(tmp_path / "table"))


@pytest.fixture
def derive(settings, stream, tmp_path):
    """Derives `tmp_path / "numbers"` from the stream's table. Returns the exit code and the errors."""

    def derive(**given):
        place = {"table": str(tmp_path / "table"), "endpoint_url": settings.endpoint_url}
        fields = json.dumps({"stream": stream, **place, **given})
        done = _run([sys.executable, DERIVED_RUN, fields, tmp_path / "numbers"], tmp_path)
        return done.returncode, done.stderr

    return derive


@pytest.fixture
def land_by_consumer(kinesis, settings, stream, tmp_path):
    """Lands the stream in `tmp_path / "table"` by a consumer. Returns the exit code and the errors."""

    def land_by_consumer(rows, spark_config):
        arn = kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamARN"]
        kinesis.register_stream_consumer(StreamARN=arn, ConsumerName="lake")
        place = {"table": str(tmp_path / "table"), "endpoint_url": settings.endpoint_url}
        arguments = json.dumps({"stream": stream, "rows": rows, "spark_config": spark_config, **place})
        done = _run([sys.executable, FAN_OUT_RUN, arguments], tmp_path)
        return done.returncode, done.stderr

    return land_by_consumer


@pytest.fixture
def shout(tmp_path):
    """Starts a session that sends a module of its own in a zip. Returns what a task gets from it."""

    def shout(config):
        module = tmp_path / "modules.zip"
        with zipfile.ZipFile(module, "w") as content:
            content.writestr("own_module_of_a_test.py", "def shout(number):\n    return f'{number}!'\n")
        done = _run([sys.executable, OWN_MODULE, json.dumps(config | {PY_FILES: str(module)})], tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return shout


def _run(command, folder):
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    environment = {name: value for name, value in environment.items() if name != "PYSPARK_PYTHON"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
