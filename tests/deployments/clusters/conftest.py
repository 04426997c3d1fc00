"""Spark that knows nothing of this package: a standalone cluster and a Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from benchmarks.harness.file_lock import locked
from benchmarks.servers import spark_cluster
from benchmarks.servers.spark_cluster import ConnectServer, StandaloneCluster

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
DERIVED_RUN = Path(__file__).with_name("derived_run.py")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """The folder of a Python interpreter without any package."""
    return spark_cluster.bare_python(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="session")
def packed(environment, tmp_path_factory):
    """The archive with the packages that tasks import, which all processes of pytest-xdist share."""
    del environment
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    archive = folder / "environment.tar.gz"
    with locked(folder / "lock"):
        if not archive.exists():  # a process that failed to pack it has left none
            spark_cluster.packed_environment(tmp_path_factory.mktemp("packed")).rename(archive)
    return archive


@pytest.fixture(scope="session")
def python_with_packages(packed, tmp_path_factory):
    """A Python interpreter with these packages, for runs that do not have to send them."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return str(folder / "bin" / "python")


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


@pytest.fixture
def run(settings, stream, tmp_path):
    """Runs the stream of the test into `tmp_path / "table"`. Returns the exit code, the events and errors."""

    def run(*options, **given):
        place = ["--table", str(tmp_path / "table"), "--endpoint-url", str(settings.endpoint_url)]
        given = [f"{name}={json.dumps(value)}" for name, value in given.items()]
        options = [*options, *(part for pair in given for part in ("--set", pair))]
        done = _run([SCRIPT, "run", "--stream", stream, *place, "--json", *options], tmp_path)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    return run


@pytest.fixture
def derive(settings, stream, tmp_path):
    """Derives `tmp_path / "numbers"` from the stream's table. Returns the exit code and the errors."""

    def derive(**given):
        place = {"table": str(tmp_path / "table"), "endpoint_url": settings.endpoint_url}
        fields = json.dumps({"stream": stream, **place, **given})
        done = _run([sys.executable, DERIVED_RUN, fields, tmp_path / "numbers"], tmp_path)
        return done.returncode, done.stderr

    return derive


def _run(command, folder):
    environment = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    environment = {name: value for name, value in environment.items() if name != "PYSPARK_PYTHON"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
