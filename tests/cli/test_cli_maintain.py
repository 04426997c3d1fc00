"""`kinesis-assets maintain`: what it prints, and how it ends."""

from __future__ import annotations

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commit import freeze

COLUMNS = ["stream", "step", "of", "state", "rows", "files", "bytes", "reason"]


@pytest.fixture
def made(kinesis, stream, settings, table):
    """The stream and its table, without a row."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    listing = StreamClient(stream, settings).listing()
    starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
    freeze(table, listing, starts)
    return listing.summary.identity


def test_it_prints_a_json_line_a_step(cli, of_stream, stream, made, table):
    done = cli("maintain", *of_stream, "--retention-days", "30", "--json")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [COLUMNS] * 2
    floor = table.snapshot().past(made).floor
    assert [(line["step"], line["of"], line["state"]) for line in done.lines] == [
        ("expire", f"before {floor}", "done"),
        ("checkpoint", "_delta_log", "done"),
    ]
    assert {line["stream"] for line in done.lines} == {stream}


def test_without_json_it_is_a_table_with_a_header(cli, of_stream, made):
    del made
    header, row = (line.split() for line in cli("maintain", *of_stream).out.splitlines())
    assert header == COLUMNS[1:]
    assert row[:3] == ["checkpoint", "_delta_log", "done"]


def test_a_dry_run_tells_and_changes_nothing(cli, of_stream, made, table):
    done = cli("maintain", *of_stream, "--retention-days", "30", "--dry-run", "--json")
    assert done.exit_code == 0
    assert [(line["step"], line["state"]) for line in done.lines] == [("expire", "planned")]
    assert table.snapshot().past(made) is None


def test_no_table_is_an_error_of_one_line_and_makes_none(cli, of_stream, kinesis, stream, tmp_path):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    done = cli("maintain", *of_stream)
    assert done.exit_code == 1
    (line,) = done.err.splitlines()
    assert "there is no table" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("days", ["0", "-1", "many"])
def test_days_that_cannot_be_meant_are_bad_input(cli, of_stream, days):
    assert cli("maintain", *of_stream, "--retention-days", days).exit_code == 2


def test_retention_of_a_stream_with_a_yaml_is_set_there(cli):
    done = cli("maintain", "--stream", "orders", "--retention-days", "30")
    assert done.exit_code == 2
    assert "--retention-days: only with --table" in done.err
