"""Terminate a run as the UI does: a web server starts and stops a run worker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.names import raw_key, shard_partitions
from support.waiting import wait_until
from support.webserver import Webserver

SHARD = "shardId-000000000000"
DEFINITIONS = """
from kinesis_assets import build_kinesis_stream
defs = build_kinesis_stream({stream!r}, table={table!r}, endpoint_url={endpoint!r})
"""
SETTINGS = """
telemetry: {enabled: false}
run_coordinator: # starts runs without a daemon
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
LAUNCH = """mutation ($params: ExecutionParams!) {
    launchPipelineExecution(executionParams: $params) {
        __typename ... on LaunchRunSuccess {run {runId}} ... on Error {message}
    }}"""
TERMINATE = "mutation ($run: String!) {terminateRun(runId: $run) {__typename}}"


@pytest.fixture
def home(tmp_path):
    """The folder of the instance."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(SETTINGS)
    return home


@pytest.fixture
def web(tmp_path, home, stream, settings):
    """A web server that serves the definitions of the test's stream."""
    code = tmp_path / "definitions_of_the_test.py"
    values = {"stream": stream, "table": str(tmp_path / "table"), "endpoint": settings.endpoint_url}
    code.write_text(DEFINITIONS.format(**values))
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
        web = Webserver(port)
        try:
            wait_until(web.version, process)
            yield web
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_terminate_commits_what_was_read_and_cancels_the_run(web, home, stream, source, faults, tmp_path):
    source.create(1)
    numbers = source.put(SHARD, 300)
    faults.page_size(1)  # reading all pages takes a minute
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.add_dynamic_partitions(str(shard_partitions(stream).name), [SHARD])
        location = "definitions_of_the_test.py"
        (launched,) = web.query(
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

        def is_reading():
            run = instance.get_run_by_id(run_id)
            assert not run.is_finished, [str(entry.user_message) for entry in instance.all_logs(run_id)]
            return faults.count("GetRecords") > 5

        wait_until(is_reading)

        assert web.query(TERMINATE, run=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"

        wait_until(lambda: instance.get_run_by_id(run_id).is_finished)
        assert instance.get_run_by_id(run_id).status is dg.DagsterRunStatus.CANCELED
        of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
        (record,) = instance.get_records_for_run(run_id, of_type=of_type).records
        event = record.event_log_entry.asset_materialization
    rows = event.metadata["rows"].value
    assert (event.partition, 5 < rows < 300) == (SHARD, True)
    found = DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["sequence_number"])
    assert sorted(found["sequence_number"].to_pylist(), key=int) == numbers[:rows]
