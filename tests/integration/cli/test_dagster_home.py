"""An unusable DAGSTER_HOME is bad input, reported in one line before anything is read or written."""

from __future__ import annotations

import sqlite3

import dagster as dg
import pytest

from support.command_line import single_line_error


@pytest.fixture
def run_refused(cli, stream_options, kinesis, stream, dagster_home, faults, tmp_path):
    """Runs a stream, asserts that this is refused as bad input, and returns the error."""
    del dagster_home

    def run_refused() -> str:
        kinesis.create_stream(StreamName=stream, ShardCount=1)
        done = cli("run", *stream_options)
        assert (done.exit_code, done.out) == (2, "")
        assert faults.count("GetRecords") == 0
        assert not (tmp_path / "table").exists()

        return single_line_error(done.err)

    return run_refused


def test_a_file_is_refused(run_refused, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "file"))
    assert "DAGSTER_HOME" in run_refused()


def test_a_missing_folder_is_refused(run_refused, tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    assert "DAGSTER_HOME" in run_refused()


def test_a_folder_that_cannot_be_written_to_is_refused(run_refused, dagster_home):
    (dagster_home / "history").touch()  # the folder's mode would not stop root
    assert f"DAGSTER_HOME is {dagster_home}" in run_refused()


def test_a_damaged_database_is_refused(run_refused, dagster_home):
    (dagster_home / "history").mkdir()
    (dagster_home / "history" / "runs.db").write_bytes(b"no database" * 1_000)
    assert "file is not a database" in run_refused()


def test_a_database_without_its_tables_is_refused(run_refused, dagster_home):
    with dg.DagsterInstance.get():
        pass
    with sqlite3.connect(dagster_home / "history" / "runs.db") as database:
        database.execute("DROP TABLE runs")
    assert f"DAGSTER_HOME is {dagster_home}: " in run_refused()
