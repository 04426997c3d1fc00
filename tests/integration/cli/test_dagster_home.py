"""A DAGSTER_HOME that cannot be used: one line, and nothing is read or written."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

import dagster as dg
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an instance's settings."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    return home


@pytest.fixture
def bad(script, stream_options, kinesis, stream, home, faults, tmp_path):
    """Runs a stream; the line by which that is refused as bad input."""
    del home

    def bad() -> str:
        kinesis.create_stream(StreamName=stream, ShardCount=1)
        done = script("run", *stream_options)
        assert (done.exit_code, done.out) == (2, "")
        assert re.fullmatch(r"Error: .+\n", done.err), done.err
        assert faults.count("GetRecords") == 0
        assert not (tmp_path / "table").exists()
        return done.err

    return bad


def test_a_file(bad, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "file"))
    assert "DAGSTER_HOME" in bad()


def test_a_folder_that_is_not_there(bad, tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    assert "DAGSTER_HOME" in bad()


def test_a_folder_in_which_nothing_can_be_made(bad, home):
    (home / "history").touch()  # whom a folder's mode stops depends on who runs the tests
    assert f"DAGSTER_HOME is {home}" in bad()


def test_a_file_that_is_no_database(bad, home):
    (home / "history").mkdir()
    (home / "history" / "runs.db").write_bytes(b"no database" * 1_000)
    assert "file is not a database" in bad()


def test_a_database_that_fails_at_its_first_use(bad, home):
    with dg.DagsterInstance.get():
        pass
    with sqlite3.connect(home / "history" / "runs.db") as database:
        database.execute("DROP TABLE runs")
    assert f"DAGSTER_HOME is {home}: " in bad()
