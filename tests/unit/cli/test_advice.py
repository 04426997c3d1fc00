"""The commands that errors advise, run as they stand: then runs continue without a loss or a duplicate."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import write_deltalake

from kinesis_assets.errors import (
    InvalidInput,
    PauseUnreadable,
    PositionsMissing,
    StreamPaused,
    TableRewritten,
)
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.run_files.pause import PAUSE_FILE
from support.prepared_streams import ingest_and_restore

pytestmark = pytest.mark.slow


@pytest.fixture
def follow(cli, bench):
    """Runs a command that a text advises, with further options, and returns what it prints.

    Unless the command has these options, it gets those of the bench's stream.
    """

    def follow(text, name, *options):
        (advised,) = set(re.findall(rf"`kinesis-assets ({name}\b[^`]*)`", text))
        words = [*shlex.split(advised), *options]
        for option, value in zip(bench.options[::2], bench.options[1::2], strict=True):
            words += [] if option in words else [option, value]
        done = cli(*words)
        assert done.exit_code == 0, done.err
        return done.out

    return follow


@pytest.fixture
def ingested(bench):
    """A stream of which record 1 is in the table, and record 2 is not."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.put(2)
    return bench


def refused(bench, error):
    """Return the message of a run that is refused."""
    with pytest.raises(error) as caught:
        bench.run()
    return str(caught.value)


def items_after_a_run(bench):
    assert bench.run().errors == {}
    return bench.items


@pytest.mark.parametrize("name", ["resume", "pause"])
def test_a_pause_that_cannot_be_read_is_deleted_or_replaced(ingested, follow, name):
    (Path(ingested.table.uri) / PAUSE_FILE).write_bytes(b"")
    follow(refused(ingested, PauseUnreadable), name, *(["--reason", "why"] if name == "pause" else []))
    if name == "pause":
        follow(refused(ingested, StreamPaused), "resume")
    assert items_after_a_run(ingested) == [1, 2]


def test_a_copy_without_positions_is_adopted(ingested, follow, tmp_path):
    rows = ingested.delta.to_pyarrow_table()
    write_deltalake(tmp_path / "copy", rows, partition_by=["arrival_date"])
    ingested.table = PositionedTable(str(tmp_path / "copy"))
    follow(refused(ingested, PositionsMissing), "adopt", "--apply")
    assert items_after_a_run(ingested) == [1, 2]


def test_a_restored_table_is_accepted_after_a_replay(bench, follow):
    ingest_and_restore(bench)
    message = refused(bench, TableRewritten)
    bench.replay()
    follow(message, "adopt")
    assert items_after_a_run(bench) == [1, 2]


def test_a_floor_in_the_future_is_lowered(ingested, follow, cli):
    ingested.amend(floor=ingested.now.date() + timedelta(days=365))
    follow(cli("doctor", *ingested.options).out, "maintain", ingested.now.date().isoformat(), "--by", "ann")
    assert "--lower-floor" not in cli("doctor", *ingested.options).out


@pytest.mark.parametrize("operation", ["seek", "replay"])
def test_the_shards_of_a_stream_are_listed_for_those_that_change_rows(ingested, follow, operation):
    arguments = {"seek": ["LATEST"], "replay": ["TRIM_HORIZON", None]}[operation]
    with pytest.raises(InvalidInput) as caught:
        getattr(ingested, operation)(*arguments, "shardId-999999999999")
    assert ingested.shard_ids[0] in follow(str(caught.value), "positions")


def test_the_shards_of_a_stream_are_listed_for_a_run(ingested, follow, cli):
    refused = cli("run", "--shard", "shardId-999999999999", *ingested.options)
    assert ingested.shard_ids[0] in follow(refused.err, "plan")


def test_the_stream_is_found_once_the_configured_profile_exists(ingested, cli, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "missing")
    assert "Correct region_name, endpoint_url or profile_name" in cli("positions", *ingested.options).err
    monkeypatch.delenv("AWS_PROFILE")
    assert ingested.shard_ids[0] in cli("positions", *ingested.options).out
