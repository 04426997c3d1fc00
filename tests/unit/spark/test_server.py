"""The settings of a Spark server."""

from __future__ import annotations

import os

import pytest

from kinesis_assets.demo import dev
from kinesis_assets.spark import connect, local_settings, server
from kinesis_assets.spark.local_settings import WORKER_DAEMON
from kinesis_assets.spark.server import SparkServer


@pytest.mark.parametrize(
    ("limit", "usual"),
    [
        (server.SECONDS_TO_START, 15.0),
        (server.UNRESPONSIVE_SECONDS, 1.0),
        (connect.SECONDS_TO_ANSWER, 1.0),
        (local_settings._SECONDS, 1.0),
        (dev._STOP_SECONDS, 5.0),
    ],
)
def test_a_limit_on_this_machine_is_minutes_away_from_what_is_usual(limit, usual):
    assert limit >= max(120.0, 30 * usual)


def test_workers_import_this_package_only_in_tasks_because_sessions_may_bring_another_version(tmp_path):
    assert WORKER_DAEMON not in SparkServer(tmp_path / "log")._settings()


def test_a_server_whose_log_cannot_be_written_leaves_no_open_file(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\"'\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    server = SparkServer(tmp_path)
    next_file = os.dup(0)
    os.close(next_file)
    with pytest.raises(IsADirectoryError):
        server.start()
    assert os.dup(0) == next_file
    os.close(next_file)
