"""Terminate, as the UI asks for it: a real web server, and a run worker that it starts and stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.names import raw_key, shard_partitions

SHARD = "shardId-000000000000"
SECONDS = 90
DEFINITIONS = """
from kinesis_assets import build_kinesis_stream
defs = build_kinesis_stream({stream!r}, table={table!r}, endpoint_url={endpoint!r})
"""
SETTINGS = """
telemetry: {enabled: false}
run_coordinator: # runs start at once, without a daemon
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
LAUNCH = """mutation ($params: ExecutionParams!) {
    launchPipelineExecution(executionParams: $params) {
        __typename ... on LaunchRunSuccess {run {runId}} ... on Error {message}
    }}"""
TERMINATE = "mutation ($run: String!) {terminateRun(runId: $run) {__typename}}"


def awaited(look, what):
    """What a look gives, as soon as it gives something."""
    deadline = time.monotonic() + SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.2)  # between two looks
    return found


class Web:
    """The web server's GraphQL."""

    def __init__(self, port):
        self._url = f"http://127.0.0.1:{port}/graphql"

    def ask(self, query, **variables):
        content = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(  # noqa: S310  # the test's own web server
            self._url, content, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            told = json.loads(answer.read())
        assert "errors" not in told, told
        return told["data"]

    def answers(self):
        try:
            return self.ask("{version}")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(SETTINGS)
    return home


@pytest.fixture
def web(tmp_path, home, stream, settings):
    """A web server on the definitions of the test's stream."""
    code = tmp_path / "definitions_of_the_test.py"
    place = {"stream": stream, "table": str(tmp_path / "table"), "endpoint": settings.endpoint_url}
    code.write_text(DEFINITIONS.format(**place))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "dagster_webserver", "-f", str(code), "-h", "127.0.0.1", "-p", str(port)],
            env=os.environ | {"DAGSTER_HOME": str(home)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as process,
    ):
        web = Web(port)
        try:
            awaited(web.answers, "the web server does not answer")
            yield web
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_terminate_commits_what_was_read_and_the_run_is_canceled(web, home, stream, source, faults, tmp_path):
    source.create(1)
    numbers = source.put(SHARD, 300)
    faults.page_size(1)  # a minute of pages
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.add_dynamic_partitions(str(shard_partitions(stream).name), [SHARD])
        location = "definitions_of_the_test.py"
        (launched,) = web.ask(
            LAUNCH,
            params={
                "selector": {
                    "repositoryLocationName": location,
                    "repositoryName": "__repository__",
                    "jobName": "__ASSET_JOB",
                    "assetSelection": [{"path": raw_key(stream).path}],
                },
                "runConfigData": {},
                "executionMetadata": {"tags": [{"key": "dagster/partition", "value": SHARD}]},
            },
        ).values()
        assert "run" in launched, launched
        run_id = launched["run"]["runId"]

        def reads():
            run = instance.get_run_by_id(run_id)
            assert not run.is_finished, [str(entry.user_message) for entry in instance.all_logs(run_id)]
            return faults.count("GetRecords") > 5

        awaited(reads, "nothing is read")

        assert web.ask(TERMINATE, run=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"

        awaited(lambda: instance.get_run_by_id(run_id).is_finished, "the run does not end")
        assert instance.get_run_by_id(run_id).status is dg.DagsterRunStatus.CANCELED
        of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
        (record,) = instance.get_records_for_run(run_id, of_type=of_type).records
        told = record.event_log_entry.asset_materialization
    rows = told.metadata["rows"].value
    assert (told.partition, 5 < rows < 300) == (SHARD, True)
    found = DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["sequence_number"])
    assert sorted(found["sequence_number"].to_pylist(), key=int) == numbers[:rows]
