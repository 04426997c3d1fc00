"""The metadata keys of a shard's event are public, and each kind of event uses the same ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kinesis_assets.cli.replay import REPLAY_FIELDS
from kinesis_assets.cli.run import SHARD_FIELDS
from kinesis_assets.dagster.metadata import commit_metadata, event_metadata, replay_metadata
from kinesis_assets.errors import DataLost
from kinesis_assets.ingest.outcome import RunResult, ShardOutcome, ShardState
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.replay.outcome import ReplayOutcome, ReplayResult, ReplayState
from kinesis_assets.table.range_stats import RangeStats

A = "shardId-000000000000"
START = Position.parse("TRIM_HORIZON")
STATS = RangeStats(
    start=START,
    through=Position.after("9", 1),
    first_sequence_number="7",
    last_sequence_number="9",
    rows=3,
    bytes=30,
    checksum=1 << 40,
)
GAP = Gap(after=START, since=None, next_sequence_number="7", until=datetime(2026, 2, 2, tzinfo=UTC))
ERROR = DataLost(A, "lost")
RANGE = {
    "stream": "orders",
    "shard": A,
    "from": "TRIM_HORIZON",
    "through": "AFTER_SEQUENCE_NUMBER:9:1",
    "rows": 3,
    "bytes": 30,
    "first_sequence_number": "7",
    "last_sequence_number": "9",
    "checksum": str(1 << 40),
}
NOTHING_READ = {"from": "TRIM_HORIZON", "through": "TRIM_HORIZON", "rows": 0, "bytes": 0}


def of_run(**outcome):
    """The metadata of a shard after a run, as plain values."""
    result = RunResult(batch_id=1 << 60, outcomes={}, version=4, seconds=1.23456)
    return values(event_metadata("orders", ShardOutcome(shard_id=A, **outcome), result))


def of_replay(**outcome):
    """The metadata of a shard after a replay, as plain values."""
    result = ReplayResult(batch_id=1 << 60, outcomes={}, version=4, seconds=1.23456)
    return values(replay_metadata("orders", ReplayOutcome(shard_id=A, **outcome), result))


def values(metadata):
    return {name: value.value for name, value in metadata.items()}


def test_keys_of_a_run():
    outcome = {
        "state": ShardState.FAILED,
        "stats": STATS,
        "files": 2,
        "bad_records": 1,
        "outside_hash_range": 2,
        "lag_ms": 5,
        "time_to_loss_ms": 6,
        "gaps": [GAP, GAP],
        "error": ERROR,
    }
    assert of_run(**outcome) == RANGE | {
        "state": "failed",
        "bad_records": 1,
        "outside_hash_range": 2,
        "lag_ms": 5,
        "time_to_loss_ms": 6,
        "files": 2,
        "seconds": 1.235,
        "table_version": 4,
        "batch_id": str(1 << 60),
        "gaps": f"{GAP}; {GAP}",
        "error_class": "DataLost",
        "error": f"{A}: lost",
    }


def test_keys_of_a_run_that_read_nothing():
    of_shard = {
        "stream": "orders",
        "shard": A,
        "state": "committed",
        "rows": 0,
        "bytes": 0,
        "bad_records": 0,
        "outside_hash_range": 0,
        "files": 0,
        "seconds": 1.235,
        "table_version": 4,
        "batch_id": str(1 << 60),
    }
    assert of_run(state=ShardState.COMMITTED) == of_shard
    assert of_run(state=ShardState.COMMITTED, stats=RangeStats.unread(START)) == of_shard | NOTHING_READ


def test_keys_of_a_replay():
    outcome = {"state": ReplayState.FAILED, "stats": STATS, "gaps_filled": 2, "error": ERROR}
    assert of_replay(**outcome) == RANGE | {
        "state": "failed",
        "gaps_filled": 2,
        "seconds": 1.235,
        "table_version": 4,
        "batch_id": str(1 << 60),
        "error_class": "DataLost",
        "error": f"{A}: lost",
    }


def test_keys_of_a_replay_that_added_nothing():
    of_shard = {
        "stream": "orders",
        "shard": A,
        "state": "whole",
        "rows": 0,
        "bytes": 0,
        "seconds": 1.235,
        "table_version": 4,
    }
    assert of_replay(state=ReplayState.WHOLE) == of_shard
    assert of_replay(state=ReplayState.WHOLE, stats=RangeStats.unread(START)) == of_shard | NOTHING_READ


def test_keys_of_an_event_that_was_missing():
    metadata = commit_metadata("orders", A, "committed", STATS, 1 << 60)
    assert values(metadata) == RANGE | {"state": "committed", "batch_id": str(1 << 60)}


@pytest.mark.parametrize(
    ("fields", "of_shard"),
    [
        (
            SHARD_FIELDS,
            of_run(
                state=ShardState.FAILED, stats=STATS, lag_ms=5, time_to_loss_ms=6, gaps=[GAP], error=ERROR
            ),
        ),
        (REPLAY_FIELDS, of_replay(state=ReplayState.FAILED, stats=STATS, error=ERROR)),
    ],
    ids=["run", "replay"],
)
def test_commands_print_facts_of_the_event(fields, of_shard):
    assert set(fields) <= of_shard.keys()
