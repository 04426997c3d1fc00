"""A Spark server that outlives runs: how `SparkServer` and `kinesis-assets spark` start, watch and end it."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import SECONDS, wait_until
from integration.spark.server.processes import SCRIPT, children, processes_with, result_of
from kinesis_assets.errors import InvalidInput, SparkServerFailed
from kinesis_assets.spark import server as server_module
from kinesis_assets.spark.connect import has_package
from kinesis_assets.spark.server import SparkServer, Supervisor
from support.mentions import assert_mentions
from support.tables import put_numbers

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc")
MARKER = uuid4().hex


@dataclass
class Supervised:
    """A server whose supervisor restarts it if it ends.

    Attributes:
        messages: What the supervisor has reported.
    """

    server: SparkServer
    messages: list[str]

    def __post_init__(self) -> None:
        self._supervisor = Supervisor(self.server, self.messages.append)

    @property
    def java(self) -> int:
        """The id of the server's JVM."""
        (java,) = children(self.server.pid, "java")
        return java

    def assert_restarted_under_the_same_url(self) -> None:
        url = self.server.url
        wait_until(self.server.failed, failure="the server does not see that its Java has ended or hangs")
        self._supervisor.check()
        assert self.server.url == url
        has_package(url)


@pytest.fixture(scope="module")
def running(environment, tmp_path_factory):
    """A server, which each test of its end leaves running."""
    del environment
    log = tmp_path_factory.mktemp("supervised") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KINESIS_ASSETS_TEST", MARKER)
        with SparkServer(log, unresponsive_seconds=10.0, seconds_to_archive=1.0) as server:
            yield server
    wait_until(lambda: not processes_with(MARKER), failure="processes are left")


@pytest.fixture
def supervised(running):
    return Supervised(running, [])


@needs_proc
def test_a_server_whose_java_was_killed_is_restarted_under_the_same_url(supervised):
    os.kill(supervised.java, signal.SIGKILL)
    supervised.assert_restarted_under_the_same_url()
    assert_mentions(supervised.messages[0], "Spark server", "status 1", "Java", "status -9")


@needs_proc
@pytest.mark.thorough
def test_a_server_whose_java_hangs_is_restarted_under_the_same_url(supervised):
    hanging = {supervised.server.pid, supervised.java}
    os.kill(supervised.java, signal.SIGSTOP)
    supervised.assert_restarted_under_the_same_url()
    assert_mentions(supervised.messages[0], "Spark server", "status -9", "Java", "10 s")
    assert not hanging & processes_with(MARKER)


@needs_proc
def test_a_server_whose_java_hangs_is_killed_when_its_supervisor_ends(supervised):
    """This test comes last: it ends the server."""
    server, java = supervised.server, supervised.java
    os.kill(java, signal.SIGSTOP)
    server._process.stdin.close()  # as if this process were killed
    failed = wait_until(server.failed, failure="the server does not end")
    assert "status -9" in str(failed)
    wait_until(lambda: not Path(f"/proc/{java}").exists(), failure="Java does not end")


def test_a_server_has_freed_its_port_when_it_is_stopped(tmp_path, monkeypatch):
    taken = socket.create_server(("127.0.0.1", 0))  # as by a Java that was killed, and has not ended yet
    port = taken.getsockname()[1]
    server = SparkServer(tmp_path / "log", port=port)
    server._process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True)
    waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: taken.close())
    monkeypatch.setattr(server_module, "time", waiting)
    server.stop()
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_in_use_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=f"^port {port}: "):
            SparkServer(tmp_path / "log", port=port).start()


def test_a_server_that_does_not_start_is_reported_with_its_last_output(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit; }\nexit 3\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    server = SparkServer(tmp_path / "log")
    with pytest.raises(SparkServerFailed, match=f"; see {tmp_path}/log$"):
        server.start()


@needs_proc
def test_a_server_ends_with_its_supervisor_and_an_active_run_reports_it(
    start, kinesis, stream, faults, tmp_path, marker
):
    put_numbers(kinesis, stream, 300)
    with subprocess.Popen(
        [SCRIPT, "spark", "--port", "0"],
        env=os.environ | {"KINESIS_ASSETS_TEST": marker},
        stdout=subprocess.PIPE,
        text=True,
    ) as supervisor:
        try:
            assert select.select([supervisor.stdout], [], [], SECONDS)[0]
            (url,) = re.findall(
                r"^export SPARK_REMOTE='(sc://localhost:\d+/;token=\S+)'$", supervisor.stdout.readline()
            )
            faults.page_size(1)  # reading all pages takes a minute
            run = start(url, stream)
            wait_until(lambda: faults.count("GetRecords") >= 5, run)
            assert len(processes_with(marker)) > 2
        finally:
            supervisor.kill()
        status, shards, err = result_of(run)
    assert (status, shards) == (1, [])
    assert f"Error: stream {stream}: " in err
    assert not DeltaTable(tmp_path / stream).to_pyarrow_table().num_rows
    wait_until(lambda: not processes_with(marker), failure="processes are left")


WITHOUT_NAMES = """
from kinesis_assets.spark import pyspark_internals

pyspark_internals.connect_port = pyspark_internals.java_process = lambda spark: None
"""


@pytest.mark.thorough
def test_a_server_without_pysparks_private_names_responds_on_a_free_port_and_ends_whole(
    environment, tmp_path, monkeypatch, marker
):
    del environment
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_NAMES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("MARKER", marker)
    with SparkServer(tmp_path / "log") as server:
        has_package(server.url)
        assert processes_with(marker)
    wait_until(lambda: not processes_with(marker), failure="processes are left")
