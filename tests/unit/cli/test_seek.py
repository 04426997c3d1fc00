"""Output, effect and exit codes of `kinesis-assets seek`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from benchmarks.harness.waiting import wait_for_next_second
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from kinesis_assets.kinesis.stream import StreamIdentity
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.ownership import application
from kinesis_assets.table.positions.amendments import ClearedGap, next_amendment
from support.shard_ids import A, B

pytestmark = pytest.mark.slow

FIELDS = ["stream", "shard", "direction", "from", "to", "rows_removed", "gap", "applied"]


@pytest.fixture
def numbers(kinesis, stream, settings, tmp_path) -> list[str]:
    """The sequence numbers of three records in the table, all of the first of two shards."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": "0"}] * 3
    response = kinesis.put_records(StreamName=stream, Records=entries)
    project = StreamProject.from_settings(
        stream, table=str(tmp_path / "table"), endpoint_url=settings.endpoint_url
    )
    with project.open_stream() as opened:
        client, table = opened.client, opened.table
        plan = plan_run(client, table, asked=[A, B], policy=ReadPolicy())
        execute_run(land_group, client, table, plan)
    return [record["SequenceNumber"] for record in response["Records"]]


def test_without_apply_it_prints_the_rows_to_delete_and_changes_nothing(cli, stream_options, numbers, stream):
    before = cli("positions", *stream_options, "--json").out
    to = f"AFTER_SEQUENCE_NUMBER:{numbers[0]}"
    done = cli("seek", *stream_options, "--to", to, "--shard", A, "--json")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [FIELDS]
    assert done.by_shard[A] == {
        "stream": stream,
        "shard": A,
        "direction": "back",
        "from": f"AFTER_SEQUENCE_NUMBER:{numbers[2]}",
        "to": to,
        "rows_removed": 2,
        "gap": None,
        "applied": False,
    }
    assert "--apply" in done.err
    assert cli("positions", *stream_options, "--json").out == before


def test_positions_show_who_set_them_last(cli, stream_options, numbers):
    to = f"AFTER_SEQUENCE_NUMBER:{numbers[0]}"
    done = cli("seek", *stream_options, "--to", to, "--shard", A, "--by", "ann", "--apply", "--json")
    assert done.exit_code == 0, done.err
    assert done.by_shard[A]["applied"]
    positions = cli("positions", *stream_options, "--json").by_shard
    assert positions[A]["position"] == to
    assert re.search(r"by ann: from .* to .*, 2 rows deleted", positions[A]["last_seek"])
    assert positions[B]["last_seek"] is None


def test_positions_omit_a_gap_that_a_replay_has_filled(cli, stream_options, numbers, table):
    del numbers
    wait_for_next_second()
    assert cli("seek", *stream_options, "--to", "LATEST", "--shard", A, "--apply").exit_code == 0
    assert len(cli("positions", *stream_options, "--json").by_shard[A]["gaps"]) == 1
    snapshot = table.snapshot()
    (owner,) = snapshot.owners
    identity = StreamIdentity(owner, datetime(2026, 1, 1, tzinfo=UTC))
    commit_id = snapshot.delta.transaction_version(application(identity.arn))
    positions = snapshot.table.chain.positions_at(commit_id)
    cleared = {A: tuple(ClearedGap.of(gap) for gap in positions.shards[A].gaps)}
    amendment = next_amendment(
        None, batch_id=new_id(), at=positions.identity.created, by=None, cleared=cleared
    )
    snapshot.commit([], identity=positions.identity, amendment=amendment)
    assert cli("positions", *stream_options, "--json").by_shard[A]["gaps"] == []


@pytest.mark.usefixtures("numbers")
def test_the_default_author_is_the_user_of_the_machine(cli, stream_options, monkeypatch):
    monkeypatch.setenv("LOGNAME", "o'hara")
    assert cli("seek", *stream_options, "--to", "TRIM_HORIZON", "--all-shards", "--apply").exit_code == 0
    assert "by o'hara" in cli("positions", *stream_options, "--json").by_shard[A]["last_seek"]


@pytest.mark.usefixtures("numbers")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--to", "TRIM_HORIZON"],
        ["--to", "TRIM_HORIZON", "--shard", A, "--all-shards"],
        ["--to", "AFTER_SEQUENCE_NUMBER:1' OR '1'='1", "--shard", A],
        ["--to", "TRIM_HORIZON", "--shard", "shardId-0' OR '1'='1"],
        ["--to", "AT_SEQUENCE_NUMBER:12345", "--shard", A],
        ["--shard", A],
    ],
    ids=["no shard", "both", "no position", "no such shard", "a refused number", "nowhere"],
)
def test_bad_input_exits_with_2(cli, stream_options, arguments):
    done = cli("seek", *stream_options, *arguments, "--apply")
    assert done.exit_code == 2
    assert "Error: " in done.err


def test_a_refused_seek_is_reported_in_one_line(cli, stream_options, numbers, kinesis, stream):
    del numbers
    kinesis.merge_shards(StreamName=stream, ShardToMerge=A, AdjacentShardToMerge=B)
    project = ["--to", "LATEST", "--shard", "shardId-000000000002"]
    assert cli("seek", *stream_options, *project).exit_code == 0  # not planned yet, but listed
    done = cli("seek", *stream_options, "--to", "LATEST", "--shard", "shardId-000000000009")
    assert (done.exit_code, done.out) == (2, "")
    assert re.fullmatch(r"Error: .+\n", done.err)
