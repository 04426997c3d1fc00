"""A Spark server that several runs and jobs share."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.harness.waiting import SECONDS, wait_until
from benchmarks.servers.spark_cluster import QUICK_START
from integration.spark.server.processes import processes_with, result_of
from integration.spark.server.sockets import assert_authenticates, outside, process_tree
from kinesis_assets.errors import LandingFailed
from kinesis_assets.spark import connect, server_process
from kinesis_assets.spark.connect import has_package, server_code_version
from kinesis_assets.spark.local_settings import JAVA_OPTIONS
from kinesis_assets.spark.server import SparkServer
from kinesis_assets.spark.server_process import _kill_if_unresponsive
from support.mentions import assert_mentions
from support.tables import numbers, put_numbers

TESTS = Path(__file__).parents[3]
reads_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")


SCHEMA_ID = "b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63"

SITE_OPTION = f"-Dof.the.site={uuid4()}"
"""A Java option that an administrator of this machine has configured."""


@pytest.fixture(scope="module")
def server(environment, tmp_path_factory):
    """The server of all tests, on a machine with a configuration of Spark."""
    del environment
    folder = tmp_path_factory.mktemp("server")
    # Options of the site replace those of the package, without which Java would take minutes.
    (folder / "spark-defaults.conf").write_text(f"{JAVA_OPTIONS} {SITE_OPTION} {QUICK_START}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        patch.delenv("SPARK_LOCAL_IP", raising=False)
        server = SparkServer(folder / "log", preload=["kinesis_assets.operations.replay.task"])
        server.start()
    yield server
    server.stop()


def test_concurrent_runs_share_a_server_and_print_nothing_of_spark(server, start, kinesis, stream, tmp_path):
    streams = [f"{stream}-{number}" for number in range(2)]
    for name in streams:
        put_numbers(kinesis, name, 100, shards=3)
    spark_config = ["--set", "spark_config={spark.ui.enabled: 'false'}"]
    runs = [
        start(server.url, name, *options) for name, options in zip(streams, ([], spark_config), strict=True)
    ]
    for run in runs:
        status, shards, err = result_of(run)
        assert (status, [shard["state"] for shard in shards], err) == (0, ["committed"] * 3, "")
    assert [numbers(tmp_path / name) for name in streams] == [list(range(100))] * 2


def test_a_stopped_run_commits_what_the_server_has_read(server, start, kinesis, stream, faults, tmp_path):
    put_numbers(kinesis, stream, 300)
    faults.page_size(1)  # reading all pages takes a minute
    run = start(server.url, stream)
    wait_until(lambda: faults.count("GetRecords") >= 5, run)
    run.send_signal(signal.SIGTERM)
    status, (shard,), err = result_of(run)
    assert status == 1
    assert_mentions(err, f"stream {stream}: ", "canceled")
    assert (shard["state"], 5 <= shard["rows"] < 300) == ("committed", True)
    assert numbers(tmp_path / stream) == list(range(shard["rows"]))


# Jobs of one process that connects to the server


@pytest.fixture(scope="module")
def jobs(server, clocked_service, tmp_path_factory):
    """The results of jobs_on_server.py. Its stream has three records before `until`, and one after it."""
    folder, stream, clock = tmp_path_factory.mktemp("jobs"), "stream-of-jobs", clocked_service.clock
    put_numbers(clocked_service.kinesis, stream, 3, shards=2)
    clock.advance(1)
    until = datetime.fromtimestamp(clock.seconds, UTC).isoformat()
    clocked_service.kinesis.put_record(StreamName=stream, Data=b"3", PartitionKey="k")
    clock.advance(10)
    endpoint = str(clocked_service.settings.endpoint_url)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("jobs_on_server.py"), folder, stream, endpoint, until],
        env=os.environ
        | {"SPARK_REMOTE": server.url, "PYTHONPATH": str(TESTS)}
        | {"http_proxy": "http://127.0.0.1:9"},  # which is not used for the server
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.thorough
def test_a_resource_connects_with_any_master_and_ends_its_session(jobs):
    assert jobs["sessions"] == {"tasks": 2, "different": True, "before": 2, "after": 1}


def test_a_job_can_be_interrupted_from_another_thread(jobs):
    assert jobs["error"].startswith("LandingFailed: stream any: ")


def test_workers_outlive_sessions(jobs):
    first, second = jobs["workers"]
    assert first == second


def test_the_data_source_reads_a_range(jobs):
    assert jobs["read"] == [0, 1, 2]


def test_a_run_commits_every_record(jobs):
    assert (sum(jobs["committed"].values()), len(jobs["committed"])) == (4, 2)
    assert jobs["rows"] == 4


def test_a_derived_table_is_written_by_a_function_in_python(jobs):
    assert jobs["derived"]["rows"] == [0, 1]


def test_settings_of_a_derived_table_that_the_server_refuses_leave_no_table(jobs):
    column, filter_, function, condition = jobs["derived"]["errors"]
    for each in (column, filter_):
        assert_mentions(each, "transformation", "[UNRESOLVED_COLUMN")
    assert_mentions(function, "DataFrame", "builtins.list")
    assert_mentions(condition, "delete_where", "[UNRESOLVED_COLUMN")
    assert not jobs["derived"]["created"]


def test_decoders_return_values_and_errors(jobs):
    assert jobs["decoded"] == [
        [1, SCHEMA_ID, None],
        [None, SCHEMA_ID, "glue: Expected `int | null`, got `str` - at `$.order_id`"],
        [None, None, "glue: no header: the record has 5 bytes, a header has 18"],
        [None, None, "gzip: Truncated compressed stream"],
    ]


# The server


@reads_proc
def test_the_server_uses_the_configured_java_options(server):
    del server
    assert processes_with(SITE_OPTION, "cmdline")


@reads_proc
def test_the_server_listens_on_loopback_only(server):
    assert outside(server.pid) == set()


def test_the_server_authenticates_clients(jobs):
    assert_authenticates(jobs["driver_port"])


@reads_proc
def test_no_command_line_of_the_server_contains_its_token(server):
    token = server.url.partition(";token=")[2]
    assert token
    shown = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in process_tree(server.pid)]
    assert not [line for line in shown if token.encode() in line]


def test_the_server_rejects_clients_without_its_token(server):
    with pytest.raises(LandingFailed, match=r"sc://localhost:\d+, "):
        has_package(server.url.split(";")[0])


def test_a_server_has_the_package_of_this_code_only(server, monkeypatch):
    assert has_package(server.url)
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    assert not has_package(server.url)


def test_a_server_that_responds_is_alive_even_if_the_code_has_changed(server, monkeypatch):
    killed_before_stop, responses, stop = [], [], threading.Event()

    def ask_patiently(url, _):
        """Give the server of a slow machine the time that it needs to respond."""
        responses.append(server_code_version(url, SECONDS))
        return responses[-1]

    monkeypatch.setattr(server_process, "server_code_version", ask_patiently)
    monkeypatch.setattr(connect, "code_hash", lambda: "0123456789ab")
    monkeypatch.setattr(os, "killpg", lambda *_: killed_before_stop.append(not stop.is_set()))
    # The server is asked every 0.1 s, and killed after 0.6 s without a valid response.
    watch = threading.Thread(target=_kill_if_unresponsive, args=[server.url, 0.6, 0.0, stop])
    watch.start()
    wait_until(lambda: len(responses) >= 20 or not watch.is_alive())
    watching = watch.is_alive()
    stop.set()
    watch.join()  # before `killpg` is the real one again, which would end this process
    assert (watching, killed_before_stop) == (True, [False])


def test_an_unresponsive_server_is_reported_before_anything_is_read(
    cli, stream_options, kinesis, stream, tmp_path, monkeypatch
):
    put_numbers(kinesis, stream, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("SPARK_REMOTE", f"sc://localhost:{port}/;token=secret")
    done = cli("run", *stream_options, "--json")
    assert (done.exit_code, done.out) == (1, "")
    assert_mentions(done.err, f"Error: stream {stream}: ", f"sc://localhost:{port}", "`kinesis-assets spark`")
    assert "secret" not in done.err
    assert not list(tmp_path.rglob("*.parquet"))
