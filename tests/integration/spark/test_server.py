"""A Spark that is kept: `SparkServer`, `kinesis-assets spark`, and the runs that attach to it."""

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
    """What a look gives, as soon as it gives something."""
    deadline = time.monotonic() + SECONDS
    while not (found := check()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)  # between two looks
    return found


def processes_with(marker, told="environ"):
    """The processes that have a marker in their environment, or another file that tells of them."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (process / told).read_bytes():
                found.add(int(process.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or is another user's
    return found


@pytest.fixture
def marker():
    """In the environment of all that a test starts of a server; what is left of it in the end is killed."""
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
    """Starts a run of a stream into a table of its name, on a server."""

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


def test_runs_side_by_side_land_on_one_server(server, start, kinesis, stream, tmp_path):
    streams = [f"{stream}-{number}" for number in range(2)]
    for name in streams:
        put(kinesis, name, 100, shards=3)
    runs = [start(server.url, name) for name in streams]
    for run in runs:
        status, shards, err = ended(run)
        assert (status, [shard["state"] for shard in shards]) == (0, ["committed"] * 3), err
    assert [rows(tmp_path / name) for name in streams] == [list(range(100))] * 2


def test_a_run_that_is_told_to_stop_commits_what_the_server_has_read(
    server, start, kinesis, stream, faults, tmp_path
):
    put(kinesis, stream, 300)
    faults.page_size(1)  # a minute of pages
    run = start(server.url, stream)
    awaited(lambda: faults.count("GetRecords") >= 5 or run.poll() is not None, "no page was read")
    run.send_signal(signal.SIGTERM)
    status, (shard,), err = ended(run)
    assert status == 1
    assert f"stream {stream}: the run was canceled" in err
    assert (shard["state"], 5 <= shard["rows"] < 300) == ("committed", True)
    assert rows(tmp_path / stream) == list(range(shard["rows"]))


def test_a_command_on_the_server_prints_nothing_of_sparks_own(server, settings, kinesis, stream, tmp_path):
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
    """What a process says that runs a script with SPARK_REMOTE, as JSON."""
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


def test_a_resource_attaches_whatever_its_master_is_and_its_session_ends_with_it(server):
    assert on_the_server(server.url, "sessions") == {"tasks": 2, "other": True, "before": 2, "after": 1}


def test_a_landing_on_the_server_can_be_ended_from_another_thread(server):
    told = on_the_server(server.url, "interrupted")
    assert told["error"].startswith("LandingFailed: stream any: the Spark job failed, nothing was committed")
    assert told["seconds"] < 30


def test_workers_outlive_sessions(server):
    first, second = (on_the_server(server.url, "workers")["workers"] for _ in range(2))
    assert first == second


# The server


def test_without_its_token_the_server_answers_nobody(server):
    with pytest.raises(LandingFailed, match=r"no Spark Connect server responds at sc://localhost:\d+, "):
        require_answer(server.url.split(";")[0])


def test_what_does_not_answer_is_told_before_anything_is_landed(start, kinesis, stream, tmp_path):
    put(kinesis, stream, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    status, shards, err = ended(start(f"sc://localhost:{port}/;token=secret", stream))
    assert (status, shards) == (1, [])
    assert f"Error: no Spark Connect server responds at sc://localhost:{port}, " in err
    assert "`kinesis-assets spark`" in err
    assert "secret" not in err
    assert not list((tmp_path / stream).rglob("*.parquet"))


def test_a_server_with_other_code_of_the_package_is_told_before_anything_is_asked_of_it(server, monkeypatch):
    require_answer(server.url)
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    with pytest.raises(
        LandingFailed, match=r"other code .* \(server \w{12}, run 0123456789ab\).* start it again"
    ) as told:
        require_answer(server.url)
    assert "token" not in str(told.value)


def test_a_server_that_does_not_tell_its_code_is_taken_as_it_is(server, monkeypatch):
    monkeypatch.setattr(connect, "CODE_SETTING", "spark.kinesis_assets.unknown")
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    require_answer(server.url)


def children(pid, command):
    """The processes that a process has started, of those that run a command."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, fields = (process / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if name == command and int(fields.split()[1]) == pid:
            found.append(int(process.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_server_whose_java_was_killed_is_started_anew_under_the_same_url(tmp_path):
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
def test_a_server_whose_java_hangs_is_started_anew_under_the_same_url(tmp_path, monkeypatch, marker):
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
    assert len(said) == 1
    assert said[0].startswith("the Spark server ended with status -9: Java has not responded for 5 s; ")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_server_whose_java_hangs_when_its_keeper_ends_is_killed(tmp_path):
    with SparkServer(tmp_path / "log", seconds_to_archive=1.0) as server:
        (java,) = children(server.pid, "java")
        os.kill(java, signal.SIGSTOP)
        server._process.stdin.close()  # as where this process is killed
        failed = awaited(server.failed, "the server did not end")
        assert "ended with status -9: " in str(failed)
        awaited(lambda: not Path(f"/proc/{java}").exists(), "Java did not end")


def test_a_server_that_answers_is_not_silent_whatever_code_there_is_now(server, monkeypatch):
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


def test_a_taken_port_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInput, match=rf"^port {port}: .*; choose another port$"):
            SparkServer(tmp_path / "log", port=port).start()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks for processes in /proc")
def test_the_java_options_of_the_site_are_the_servers_too(tmp_path, monkeypatch):
    option = f"-Dof.the.site={uuid4()}"
    (tmp_path / "spark-defaults.conf").write_text(f"{JAVA_OPTIONS} {option}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    with SparkServer(tmp_path / "log"):
        assert processes_with(option, "cmdline")


def test_a_server_that_does_not_come_up_is_told_with_what_it_said_last(tmp_path, monkeypatch):
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
def test_a_server_ends_with_who_kept_it_and_a_run_in_the_middle_says_so(
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
            faults.page_size(1)  # a minute of pages
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
