"""Commands on a table that they may not write to: one line at once, and no Spark for it."""

from __future__ import annotations

import errno
import os

import pytest

from kinesis_assets.dagster import in_process
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table import heartbeat, positions_chain
from kinesis_assets.table import table as table_module
from kinesis_assets.table.commit import freeze
from support.command_line import single_line_error

WRITING = {
    "run": ["run"],
    "seek": ["seek", "--to", "AT_TIMESTAMP:2026-01-01T00:00:00Z", "--all-shards", "--apply"],
    "replay": ["replay", "--from", "TRIM_HORIZON"],
    "maintain": ["maintain"],
}


@pytest.fixture
def made(kinesis, stream, settings, table) -> None:
    """The stream and its table, without a row."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    listing = StreamClient(stream, settings).listing()
    starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
    freeze(table, listing, starts)


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that starts a session fails, though it is started in the background."""

    def begin(_) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr(in_process, "start_session_in_background", begin)


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written to any table from here on."""

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(table_module, "write_new", refuse)
    monkeypatch.setattr(heartbeat, "write_new", refuse)
    monkeypatch.setattr(positions_chain, "write_new", refuse)


@pytest.mark.usefixtures("made", "no_session", "refused")
@pytest.mark.parametrize("command", WRITING)
def test_it_is_one_line_before_spark_is_started(cli, stream_options, command):
    name, *options = WRITING[command]
    done = cli(name, *stream_options, *options)
    assert done.exit_code == 1
    assert "cannot be written to: read-only file system" in single_line_error(done.err)


@pytest.mark.usefixtures("made", "refused")
@pytest.mark.parametrize(
    "arguments", [["positions"], ["maintain", "--dry-run"], WRITING["seek"][:-1]], ids=lambda each: each[0]
)
def test_what_only_reads_goes_on(cli, stream_options, arguments):
    name, *options = arguments
    assert cli(name, *stream_options, *options).exit_code == 0


@pytest.mark.usefixtures("no_session")
def test_a_replay_of_a_table_that_is_not_there_says_so_before_spark_is_started(
    cli, stream_options, kinesis, stream, tmp_path
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    done = cli("replay", *stream_options, "--from", "TRIM_HORIZON")
    assert done.exit_code == 1
    assert "there is no table" in single_line_error(done.err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("below", ["", "table"])
def test_a_table_where_a_file_is_says_so_before_spark_is_started(
    cli, kinesis, stream, settings, tmp_path, below
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    (tmp_path / "file").write_text("no table")
    place = ["--table", str(tmp_path / "file" / below), "--endpoint-url", str(settings.endpoint_url)]
    done = cli("run", "--stream", stream, *place)
    assert done.exit_code == 1
    assert "a file" in single_line_error(done.err)
