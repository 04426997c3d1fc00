"""`kinesis-assets catch-up`, with Spark and Dagster: output, exit codes, and a killed process."""

from __future__ import annotations

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.operations.catch_up import jump
from support.shard_ids import A, B

COLUMNS = ["stream", "shard", "from", "to", "gap", "rows", "gaps_filled", "error_class", "error"]


@pytest.fixture
def settings(clocked):
    return clocked.settings


@pytest.fixture
def kinesis(clocked):
    return clocked.kinesis


@pytest.fixture
def behind(cli, stream_options, clocked, kinesis, stream):
    """A stream of two shards, each with a record that was read. The first has three others, and a new one."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)

    def put(count, key):
        entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": str(key)}] * count
        kinesis.put_records(StreamName=stream, Records=entries)

    put(1, 0)
    put(1, 2**128 - 1)
    assert cli("run", *stream_options).exit_code == 0
    clocked.clock.advance(120)
    put(3, 0)
    clocked.clock.advance(120)
    put(1, 0)


def rows_of(table):
    return table.snapshot().delta.to_pyarrow_table(columns=["sequence_number"]).num_rows


@pytest.mark.usefixtures("behind")
def test_without_apply_the_jump_is_printed_and_nothing_is_changed(cli, stream_options, table):
    version = table.snapshot().version
    done = cli("catch-up", *stream_options, "--json")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [COLUMNS] * 2
    assert done.by_shard[A]["gap"] is not None
    assert done.by_shard[B]["gap"] is None
    assert "--apply" in done.err
    assert table.snapshot().version == version


@pytest.mark.usefixtures("behind")
def test_the_skipped_records_are_added_and_the_gap_is_cleared(cli, stream_options, table):
    done = cli("catch-up", *stream_options, "--by", "ann", "--apply", "--json")
    assert done.exit_code == 0, done.err
    row = done.by_shard[A]
    assert (row["rows"], row["gaps_filled"], row["error"]) == (3, 1, None)
    assert rows_of(table) == 5
    positions = cli("positions", *stream_options, "--json").by_shard
    assert positions[A]["gaps"] == []
    assert "by ann" in positions[A]["last_seek"]
    again = cli("catch-up", *stream_options, "--apply", "--json")
    assert (again.exit_code, rows_of(table)) == (0, 5)


@pytest.mark.usefixtures("behind")
def test_an_interrupted_catch_up_is_continued_after_other_runs(cli, stream_options, stream, settings, table):
    jump(StreamClient(stream, settings), table, by="ann", apply=True)  # and the process ends
    assert cli("run", *stream_options).exit_code == 0
    assert rows_of(table) == 3
    done = cli("catch-up", *stream_options, "--apply", "--json")
    assert (done.exit_code, done.by_shard[A]["rows"]) == (0, 3)
    assert rows_of(table) == 6
