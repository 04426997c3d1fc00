"""Without Java, commands that need Spark report so in one line and write nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import single_line_error
from support.mentions import assert_mentions


@pytest.fixture(autouse=True)
def no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


def files_of(table) -> set[Path]:
    return {path for path in Path(table.uri).rglob("*") if path.is_file()}


def test_a_run_without_java_writes_nothing(script, stream_options, kinesis, stream, table):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    done = script("run", *stream_options)
    assert done.exit_code == 1
    assert_mentions(single_line_error(done.err), "Java 17", "JAVA_HOME")
    assert not Path(table.uri).exists()


@pytest.mark.usefixtures("empty_table")
def test_a_replay_without_java_writes_nothing(script, stream_options, table):
    before = files_of(table)
    done = script("replay", *stream_options, "--from", "TRIM_HORIZON")
    assert done.exit_code == 1
    assert_mentions(single_line_error(done.err), "Java 17", "JAVA_HOME")
    assert files_of(table) == before
