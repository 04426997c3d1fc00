"""Fixtures of the command line's tests: a stream with records, and a Dagster instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commits.commit import freeze

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.raw_table import PositionedTable
    from support.command_line import RunCommand


@pytest.fixture
def cli(cli: RunCommand, spark: SparkSession) -> RunCommand:
    """Runs `kinesis-assets` in this process. The session exists, so that no command starts another one."""
    del spark
    return cli


@pytest.fixture
def sequence_numbers(kinesis: Any, stream: str) -> dict[str, str]:
    """The sequence numbers by shard of a stream with two shards, each with a record of three bytes."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": str(key)} for key in (0, 2**128 - 1)]
    response = kinesis.put_records(StreamName=stream, Records=entries)
    return {record["ShardId"]: record["SequenceNumber"] for record in response["Records"]}


@pytest.fixture
def empty_table(kinesis: Any, stream: str, settings: ClientSettings, table: PositionedTable) -> None:
    """A stream and its table without rows."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    listing = StreamClient(stream, settings).listing()
    freeze(table, listing, {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards})


@pytest.fixture
def fail(faults):
    """Makes the reads of a shard fail."""

    def fail(shard_id: str) -> None:
        faults.fail(status=400, code="AccessDeniedException", shard_id=shard_id)

    return fail


@pytest.fixture
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an instance that all commands share."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    return home
