"""Fixtures of the command line's tests: a stream with records, and a Dagster instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def sequence_numbers(kinesis: Any, stream: str) -> dict[str, str]:
    """The sequence numbers by shard of a stream with two shards, each with a record of three bytes."""
    kinesis.create_stream(StreamName=stream, ShardCount=2)
    entries = [{"Data": b"abc", "PartitionKey": "k", "ExplicitHashKey": str(key)} for key in (0, 2**128 - 1)]
    answer = kinesis.put_records(StreamName=stream, Records=entries)
    return {record["ShardId"]: record["SequenceNumber"] for record in answer["Records"]}


@pytest.fixture
def fail(faults):
    """Makes the reads of a shard fail."""

    def fail(shard_id: str) -> None:
        faults.fail(status=400, code="AccessDeniedException", shard_id=shard_id)

    return fail


@pytest.fixture
def dagster_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for an instance that all commands share."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
