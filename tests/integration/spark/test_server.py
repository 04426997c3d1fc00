"""A Spark server that outlives runs: `SparkServer`, `kinesis-assets spark`, and runs that connect to it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from kinesis_assets.errors import InvalidInput, LandingFailed, SparkServerFailed
from kinesis_assets.spark import connect
from kinesis_assets.spark.connect import require_answer
from kinesis_assets.spark.local_settings import JAVA_OPTIONS
from kinesis_assets.spark.server import SparkServer
from kinesis_assets.spark.server_process import _kill_if_unresponsive
from kinesis_assets.spark.supervisor import Supervisor

SCRIPT = Path(sys.prefix, "bin", "kinesis-assets")
SECONDS = 120


def awaited(check, what):
    """Wait until a check returns something, and return it."""
    deadline = time.monotonic() + SECONDS
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)  # between two checks
    return found


def processes_with(marker, told="environ"):
    """Return the processes with a marker in their environment, or in another of their files in /proc."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / told).read_bytes():
                found.add(int(process.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # the process has ended, or belongs to another user
    return found


@pytest.fixture
def marker():
    """A value in the environment of all processes of a test's server, which are killed at the end."""
    marker = uuid4().hex
    yield marker
    for pid in processes_with(marker):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def server(environment, tmp_path_factory):
    del environment
    with SparkServer(
        tmp_path_factory.mktemp("server") / "log", preload=["kinesis_assets.replay.task"]
    ) as server:
        yield server


@pytest.fixture
def start(settings, tmp_path):
    """Starts a run on a server, of a stream into a table with its name."""

    def started(url, stream):
        options = ["--table", str(tmp_path / stream), "--endpoint-url", str(settings.endpoint_url), "--json"]
        return subprocess.Popen(
            [SCRIPT, "run", "--stream", stream, *options],
            env=os.environ | {"SPARK_REMOTE": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


def ended(run):
    out, err = run.communicate(timeout=SECONDS)
    return run.returncode, [json.loads(line) for line in out.splitlines()], err


def put(kinesis, stream, count, shards=1):
    kinesis.create_stream(StreamName=stream, ShardCount=shards)
    entries = [{"Data": b"%d" % item, "PartitionKey": str(item)} for item in range(count)]
    kinesis.put_records(StreamName=stream, Records=entries)


def rows(table):
    return sorted(
        int(data) for data in DeltaTable(table).to_pyarrow_table(columns=["data"])["data"].to_pylist()
    )


# Runs on the server


def test_concurrent_runs_share_a_server(server, start, kinesis, stream, tmp_path):
    streams = [f"{stream}-{number}" for number in range(2)]
    for name in streams:
        put(kinesis, name, 100, shards=3)
    runs = [start(server.url, name) for name in streams]
    for run in runs:
        status, shards, err = ended(run)
        assert (status, [shard["state"] for shard in shards]) == (0, ["committed"] * 3), err
    assert [rows(tmp_path / name) for name in streams] == [list(range(100))] * 2


def test_a_stopped_run_commits_what_the_server_has_read(server, start, kinesis, stream, faults, tmp_path):
    put(kinesis, stream, 300)
    faults.page_size(1)  # reading all pages takes a minute
    run = start(server.url, stream)
    awaited(lambda: faults.count("GetRecords") >= 5 or run.poll() is not None, "no page was read")
    run.send_signal(signal.SIGTERM)
    status, (shard,), err = ended(run)
    assert status == 1
    assert f"stream {stream}: the run was canceled" in err
    assert (shard["state"], 5 <= shard["rows"] < 300) == ("committed", True)
    assert rows(tmp_path / stream) == list(range(shard["rows"]))


def test_a_command_on_the_server_prints_nothing_of_spark(server, settings, kinesis, stream, tmp_path):
    put(kinesis, stream, 1)
    place = ["--table", str(tmp_path / "table"), "--endpoint-url", settings.endpoint_url]
    done = subprocess.run(
        [
            Path(sys.prefix, "bin", "kinesis-assets"),
            *("run", "--stream", stream, *place),
            *("--set", "spark_config={spark.ui.enabled: 'false'}"),
        ],
        env=os.environ | {"SPARK_REMOTE": server.url},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def on_the_server(url, work):
    """Run a script in a process with SPARK_REMOTE, and return its JSON output."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("on_server.py"), work],
        env=os.environ | {"SPARK_REMOTE": url, "http_proxy": "http://127.0.0.1:9"},  # not for this
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_resource_connects_with_any_master_and_ends_its_session(server):
    assert on_the_server(server.url, "sessions") == {"tasks": 2, "other": True, "before": 2, "after": 1}


def test_a_job_on_the_server_can_be_interrupted_from_another_thread(server):
    told = on_the_server(server.url, "interrupted")
    assert told["error"].startswith("LandingFailed: stream any: the Spark job failed, nothing was committed")


def test_workers_outlive_sessions(server):
    first, second = (on_the_server(server.url, "workers")["workers"] for _ in range(2))
    assert first == second


# The server


def test_the_server_rejects_clients_without_its_token(server):
    with pytest.raises(LandingFailed, match=r"no Spark Connect server responds at sc://localhost:\d+, "):
        require_answer(server.url.split(";")[0])


def test_an_unresponsive_server_is_reported_before_anything_is_read(start, kinesis, stream, tmp_path):
    put(kinesis, stream, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    status, shards, err = ended(start(f"sc://localhost:{port}/;token=secret", stream))
    assert (status, shards) == (1, [])
    assert f"Error: no Spark Connect server responds at sc://localhost:{port}, " in err
    assert "`kinesis-assets spark`" in err
    assert "secret" not in err
    assert not list((tmp_path / stream).rglob("*.parquet"))


def test_a_server_with_other_code_of_the_package_is_refused(server, monkeypatch):
    require_answer(server.url)
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    with pytest.raises(
        LandingFailed, match=r"other code .* \(server \w{12}, run 0123456789ab\).* start it again"
    ) as told:
        require_answer(server.url)
    assert "token" not in str(told.value)


def test_a_server_that_does_not_report_its_code_is_accepted(server, monkeypatch):
    monkeypatch.setattr(connect, "CODE_SETTING", "spark.kinesis_assets.unknown")
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    require_answer(server.url)


def children(pid, command):
    """Return the child processes of a process that run a command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, fields = (process / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # the process has ended
        if name == command and int(fields.split()[1]) == pid:
            found.append(int(process.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_server_whose_java_was_killed_is_restarted_under_the_same_url(tmp_path):
    said = []
    with SparkServer(tmp_path / "log") as server:
        url, keeper = server.url, Supervisor(server, said.append)
        (java,) = children(server.pid, "java")
        os.kill(java, signal.SIGKILL)
        awaited(server.failed, "the server did not see that its Java has ended")
        keeper.check()
        assert server.url == url
        require_answer(url)
    assert len(said) == 1
    assert said[0].startswith("the Spark server ended with status 1: Java ended with status -9; ")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_server_whose_java_hangs_is_restarted_under_the_same_url(tmp_path, monkeypatch, marker):
    monkeypatch.setenv("KINESIS_ASSETS_TEST", marker)
    said = []
    with SparkServer(tmp_path / "log", unresponsive_seconds=5.0) as server:
        url, keeper = server.url, Supervisor(server, said.append)
        hanging = {server.pid, *children(server.pid, "java")}
        for java in children(server.pid, "java"):
            os.kill(java, signal.SIGSTOP)
        awaited(server.failed, "the server did not see that its Java hangs")
        keeper.check()
        assert server.url == url
        require_answer(url)
        assert not hanging & processes_with(marker)
    assert said[0].startswith("the Spark server ended with status -9: Java has not responded for 5 s; ")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_server_whose_java_hangs_is_killed_when_its_supervisor_ends(tmp_path):
    with SparkServer(tmp_path / "log", seconds_to_archive=1.0) as server:
        (java,) = children(server.pid, "java")
        os.kill(java, signal.SIGSTOP)
        server._process.stdin.close()  # as if this process were killed
        failed = awaited(server.failed, "the server did not end")
        assert "ended with status -9: " in str(failed)
        awaited(lambda: not Path(f"/proc/{java}").exists(), "Java did not end")


def test_a_server_that_responds_is_alive_even_if_the_code_has_changed(server, monkeypatch):
    ended, asked = [], threading.Event()
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    monkeypatch.setattr(os, "killpg", lambda *_: ended.append(not asked.is_set()))
    watch = threading.Thread(target=_kill_if_unresponsive, args=[server.url, 6.0, 0.0, asked])
    watch.start()
    watch.join(9)
    watched = watch.is_alive()
    asked.set()
    watch.join()  # whatever it found: without `killpg` patched it would end this process
    assert (watched, ended) == (True, [False])


def test_a_port_in_use_is_reported(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=rf"^port {port}: .*; choose another port$"):
            SparkServer(tmp_path / "log", port=port).start()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_the_server_uses_the_configured_java_options(tmp_path, monkeypatch):
    option = f"-Dof.the.site={uuid4()}"
    (tmp_path / "spark-defaults.conf").write_text(f"{JAVA_OPTIONS} {option}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with SparkServer(tmp_path / "log"):
        assert processes_with(option, "cmdline")


def test_a_server_that_does_not_start_is_reported_with_its_last_output(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit; }\nexit 3\n'
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    server = SparkServer(tmp_path / "log")
    with pytest.raises(SparkServerFailed, match=r"^the Spark server ended during its start: .+; see .*/log$"):
        server.start()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_a_server_ends_with_its_supervisor_and_an_active_run_reports_it(
    start, kinesis, stream, faults, tmp_path, marker
):
    put(kinesis, stream, 300)
    with subprocess.Popen(
        [SCRIPT, "spark", "--port", "0"],
        env=os.environ | {"KINESIS_ASSETS_TEST": marker},
        stdout=subprocess.PIPE,
        text=True,
    ) as keeper:
        try:
            assert select.select([keeper.stdout], [], [], SECONDS)[0]
            (url,) = re.findall(
                r"^export SPARK_REMOTE='(sc://localhost:\d+/;token=\S+)'$", keeper.stdout.readline()
            )
            faults.page_size(1)  # reading all pages takes a minute
            run = start(url, stream)
            awaited(lambda: faults.count("GetRecords") >= 5 or run.poll() is not None, "no page was read")
            assert len(processes_with(marker)) > 2
        finally:
            keeper.kill()
        status, shards, err = ended(run)
    assert (status, shards) == (1, [])
    assert f"Error: stream {stream}: the Spark job failed, nothing was committed" in err
    assert not DeltaTable(tmp_path / stream).to_pyarrow_table().num_rows
    awaited(lambda: not processes_with(marker), "processes are left")


# A release of PySpark without the private names


WITHOUT_NAMES = """
from kinesis_assets.spark import pyspark_internals

pyspark_internals.connect_port = pyspark_internals.java_process = lambda spark: None
"""


def test_a_server_without_pysparks_private_names_responds_on_a_free_port_and_ends_whole(
    environment, tmp_path, monkeypatch, marker
):
    del environment
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_NAMES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("MARKER", marker)
    with SparkServer(tmp_path / "log") as server:
        require_answer(server.url)
        assert processes_with(marker)
    awaited(lambda: not processes_with(marker), "processes are left")
