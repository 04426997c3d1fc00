"""Commands that cannot do what they are asked to report so in one line before they start Spark."""

from __future__ import annotations

import errno
import os

import pytest

from kinesis_assets.dagster import stream_project
from kinesis_assets.table.run_files import heartbeat
from kinesis_assets.table.store import chain, suitability
from support.command_line import single_line_error

WRITING = {
    "run": ["run"],
    "seek": ["seek", "--to", "AT_TIMESTAMP:2026-01-01T00:00:00Z", "--all-shards", "--apply"],
    "replay": ["replay", "--from", "TRIM_HORIZON"],
    "maintain": ["maintain"],
}


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test if a command starts a Spark session."""

    def begin(_) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(stream_project, "start_session_in_background", begin)


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every write to a table fail, as on a read-only file system."""

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(suitability, "write_new", refuse)
    monkeypatch.setattr(heartbeat, "write_new", refuse)
    monkeypatch.setattr(chain, "write_new", refuse)


@pytest.mark.usefixtures("empty_table", "no_session", "read_only")
@pytest.mark.parametrize("command", WRITING)
def test_a_read_only_table_is_reported_before_spark_is_started(cli, stream_options, command):
    name, *options = WRITING[command]
    done = cli(name, *stream_options, *options)
    assert done.exit_code == 1
    assert "read-only" in single_line_error(done.err)


@pytest.mark.usefixtures("empty_table", "read_only")
@pytest.mark.parametrize(
    "arguments", [["positions"], ["maintain", "--dry-run"], WRITING["seek"][:-1]], ids=lambda each: each[0]
)
def test_commands_that_only_read_succeed_on_a_read_only_table(cli, stream_options, arguments):
    name, *options = arguments
    assert cli(name, *stream_options, *options).exit_code == 0


@pytest.mark.usefixtures("no_session")
def test_a_replay_of_a_missing_table_is_reported_before_spark_is_started(
    cli, stream_options, kinesis, stream, tmp_path
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    done = cli("replay", *stream_options, "--from", "TRIM_HORIZON")
    assert done.exit_code == 1
    assert str(tmp_path / "table") in single_line_error(done.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("empty_table", "no_session")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--from", "TRIM_HORIZON", "--shard", "shardId-7"], "has no shard 'shardId-7'"),
        (["--from", "2126-01-01T00:00:00Z"], "later than the service's clock"),
        (["--from", "49"], "Use a sequence number of this shard"),
    ],
)
def test_a_range_that_the_stream_does_not_have_is_refused_before_spark_is_started(
    cli, stream_options, arguments, reason
):
    done = cli("replay", *stream_options, *arguments)
    assert done.exit_code == 2
    assert reason in single_line_error(done.err)


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("below", ["", "table"])
def test_a_file_in_place_of_a_table_is_reported_before_spark_is_started(
    cli, kinesis, stream, settings, tmp_path, below
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    (tmp_path / "file").write_text("no table")
    place = ["--table", str(tmp_path / "file" / below), "--endpoint-url", str(settings.endpoint_url)]
    done = cli("run", "--stream", stream, *place)
    assert done.exit_code == 1
    assert "a file" in single_line_error(done.err)
