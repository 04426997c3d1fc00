"""Output, effect and exit codes of `kinesis-assets adopt`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.ingest.plan import ReadPolicy, plan_run
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.ingest.task import land_group
from support.shard_ids import A, B

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.command_line import RunCommand

pytestmark = pytest.mark.slow

FIELDS = ["stream", "shard", "version", "state", "rows", "position", "applied"]


@pytest.fixture
def run(kinesis: Any, stream: str, settings: Any, tmp_path: Path) -> Callable[[], str]:
    """Puts a record into the first of two shards, reads it, and returns its sequence number."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    project = StreamProject.from_settings(
        stream, table=str(tmp_path / "table"), endpoint_url=settings.endpoint_url
    )

    def run() -> str:
        response = kinesis.put_record(StreamName=stream, Data=b"a", PartitionKey="k", ExplicitHashKey="0")
        with project.open_stream() as opened:
            client, table = opened.client, opened.table
            plan = plan_run(client, table, asked=[A, B], policy=ReadPolicy())
            execute_run(land_group, client, table, plan)
        return str(response["SequenceNumber"])

    return run


@pytest.fixture
def copy_options(stream_options: list[str], run: Callable[[], str], tmp_path: Path) -> list[str]:
    """The options that name a copy of the table with one row."""
    run()
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table()
    write_deltalake(tmp_path / "copy", rows, partition_by=["arrival_date"])
    return [
        str(tmp_path / "copy") if option == str(tmp_path / "table") else option for option in stream_options
    ]


def test_the_plan_of_a_copy_is_printed_and_changes_nothing(cli: RunCommand, copy_options, stream, tmp_path):
    done = cli("adopt", *copy_options, "--json")
    assert done.exit_code == 0, done.err
    assert [list(line) for line in done.lines] == [FIELDS, FIELDS]
    (number,) = DeltaTable(tmp_path / "copy").to_pyarrow_table()["sequence_number"].to_pylist()
    assert done.by_shard[A] == {
        "stream": stream,
        "shard": A,
        "version": None,
        "state": "adopted",
        "rows": 1,
        "position": f"AFTER_SEQUENCE_NUMBER:{number}",
        "applied": False,
    }
    assert (done.by_shard[B]["state"], done.by_shard[B]["position"]) == ("unread", "TRIM_HORIZON")
    assert "--apply" in done.err
    assert DeltaTable(tmp_path / "copy").version() == 0


def test_an_applied_plan_is_in_the_table(cli: RunCommand, copy_options):
    done = cli("adopt", *copy_options, "--by", "ann", "--apply", "--json")
    assert done.exit_code == 0, done.err
    assert all(line["applied"] for line in done.lines)
    positions = cli("positions", *copy_options, "--json").by_shard
    assert {shard: row["position"] for shard, row in positions.items()} == {
        shard: row["position"] for shard, row in done.by_shard.items()
    }


def test_a_restore_is_printed_and_accepted(cli: RunCommand, stream_options, run, tmp_path):
    run()
    before = DeltaTable(tmp_path / "table").version()
    run()
    DeltaTable(tmp_path / "table").restore(before)
    done = cli("adopt", *stream_options, "--apply", "--json")
    assert done.exit_code == 0, done.err
    (line,) = done.lines
    assert (line["version"], line["applied"]) == (before + 2, True)
    assert re.fullmatch(rf"version {before + 2} \(RESTORE, .+Z\)", line["state"])
    assert cli("adopt", *stream_options).exit_code == 2


def test_nothing_to_adopt_is_bad_input(cli: RunCommand, stream_options, run):
    run()
    done = cli("adopt", *stream_options, "--apply")
    assert (done.exit_code, done.out) == (2, "")
    assert re.fullmatch(r"Error: .+\n", done.err)
