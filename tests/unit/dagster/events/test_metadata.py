"""The keys of events and their exact values are public, and each kind of event uses the same ones."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest

from kinesis_assets.cli.operations import REPLAY_FIELDS
from kinesis_assets.cli.run import SHARD_FIELDS
from kinesis_assets.dagster.events.metadata import (
    EXACT,
    commit_metadata,
    event_metadata,
    exact_values,
    is_failure,
    replay_metadata,
    shard_events,
    totals_metadata,
)
from kinesis_assets.errors import DataLost, ParentUnfinished, PositionConflict, ShardThrottled
from kinesis_assets.ingest.outcome import RunResult, RunTotals, ShardOutcome, ShardState, StreamState
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.replay.outcome import ReplayOutcome, ReplayResult, ReplayState
from kinesis_assets.table.positions.range_stats import RangeStats
from kinesis_assets.table.stored_table import TableTotals
from support.run_results import reading_facts

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
    "from": "TRIM_HORIZON",
    "through": "AFTER_SEQUENCE_NUMBER:9:1",
    "bytes": 30,
    "first_sequence_number": "7",
    "last_sequence_number": "9",
    "checksum": str(1 << 40),
}
NOTHING_READ = {"from": "TRIM_HORIZON", "through": "TRIM_HORIZON"}
ARRIVED = datetime(2026, 2, 1, 12, tzinfo=UTC), datetime(2026, 2, 1, 13, tzinfo=UTC)


def of_run(**outcome):
    """The metadata of a shard after a run, as plain values."""
    result = RunResult(batch_id=1 << 60, outcomes={}, version=4, seconds=0.0301)
    return values(event_metadata("orders", ShardOutcome(shard_id=A, **outcome), result))


def of_replay(**outcome):
    """The metadata of a shard after a replay, as plain values."""
    result = ReplayResult(batch_id=1 << 60, outcomes={}, version=4, seconds=0.0301)
    return values(replay_metadata("orders", ReplayOutcome(shard_id=A, **outcome), result))


def values(metadata):
    return {name: value.value for name, value in metadata.items()}


FAILED = {
    "state": ShardState.FAILED,
    "stats": STATS,
    "files": 2,
    "facts": reading_facts(
        bad_records=1,
        outside_hash_range=2,
        first_arrival=ARRIVED[0],
        last_arrival=ARRIVED[1],
        gaps=(GAP, GAP),
    ),
    "lag_ms": 5500,
    "time_to_loss_ms": 5_400_000,
    "error": ERROR,
}


def test_people_see_each_fact_of_a_run_once_with_its_unit():
    metadata = of_run(**FAILED)
    del metadata[EXACT]
    assert metadata == {
        "state": "failed",
        "error": f"{A}: lost",
        "error class": "DataLost",
        "rows": 3,
        "size (MB)": 0.00003,
        "lag (s)": 5.5,
        "time to loss (h)": 1.5,
        "first arrival": ARRIVED[0].timestamp(),
        "last arrival": ARRIVED[1].timestamp(),
        "speed (MB/s)": 0.001,
        "bad records": 1,
        "outside hash range": 2,
        "gaps": f"{GAP}; {GAP}",
    }


def test_an_event_has_ten_entries_if_nothing_is_wrong():
    facts = reading_facts(first_arrival=ARRIVED[0], last_arrival=ARRIVED[1])
    well = of_run(state=ShardState.COMMITTED, stats=STATS, facts=facts, lag_ms=0, time_to_loss_ms=6)
    assert [*well] == [
        "state",
        "rows",
        "size (MB)",
        "lag (s)",
        "time to loss (h)",
        "first arrival",
        "last arrival",
        "speed (MB/s)",
        "bad records",
        "exact",
    ]


def test_exact_values_of_a_run():
    assert of_run(**FAILED)[EXACT] == RANGE | {
        "outside_hash_range": 2,
        "lag_ms": 5500,
        "time_to_loss_ms": 5_400_000,
        "files": 2,
        "seconds": 0.03,
        "table_version": 4,
        "batch_id": str(1 << 60),
    }


def test_exact_values_of_a_run_that_read_nothing():
    of_shard = {
        "stream": "orders",
        "bytes": 0,
        "outside_hash_range": 0,
        "files": 0,
        "seconds": 0.03,
        "table_version": 4,
        "batch_id": str(1 << 60),
    }
    assert of_run(state=ShardState.COMMITTED)[EXACT] == of_shard
    unread = of_run(state=ShardState.COMMITTED, stats=RangeStats.unread(START))
    assert unread[EXACT] == of_shard | NOTHING_READ


def test_keys_of_a_replay():
    metadata = of_replay(state=ReplayState.FAILED, stats=STATS, gaps_filled=2, error=ERROR)
    assert metadata.pop(EXACT) == RANGE | {
        "seconds": 0.03,
        "table_version": 4,
        "batch_id": str(1 << 60),
    }
    assert metadata == {
        "state": "failed",
        "error": f"{A}: lost",
        "error class": "DataLost",
        "rows": 3,
        "size (MB)": 0.00003,
        "speed (MB/s)": 0.001,
        "gaps filled": 2,
    }


def test_exact_values_of_a_replay_that_added_nothing():
    of_shard = {"stream": "orders", "bytes": 0, "seconds": 0.03, "table_version": 4}
    assert of_replay(state=ReplayState.WHOLE)[EXACT] == of_shard
    unread = of_replay(state=ReplayState.WHOLE, stats=RangeStats.unread(START))
    assert unread[EXACT] == of_shard | NOTHING_READ


def test_keys_of_an_event_that_was_missing():
    metadata = values(commit_metadata("orders", "committed", STATS, 1 << 60))
    assert metadata.pop(EXACT) == RANGE | {"batch_id": str(1 << 60)}
    assert metadata == {"state": "committed", "rows": 3, "size (MB)": 0.00003}


def test_code_reads_all_facts_of_an_event_by_one_kind_of_names():
    facts = {"rows": 3, "bad records": 1, "lag (s)": 5.5, EXACT: {"lag_ms": 5500, "batch_id": "7"}}
    event = dg.AssetMaterialization("orders", partition=A, metadata=facts)
    assert exact_values(event) == {"shard": A, "rows": 3, "bad_records": 1, "lag_ms": 5500, "batch_id": "7"}


def test_code_reads_the_events_of_earlier_versions_alike():
    facts = {"rows": 3, "bad_records": 1, "lag (s)": 5.5, "lag_ms": 5500, "batch_id": "7"}
    event = dg.AssetMaterialization("orders", partition=A, metadata=facts)
    assert exact_values(event) == {"shard": A, "rows": 3, "bad_records": 1, "lag_ms": 5500, "batch_id": "7"}


def test_the_command_run_prints_facts_of_the_event():
    result = RunResult(batch_id=1 << 60, outcomes={}, version=4, seconds=0.0301)
    metadata = event_metadata("orders", ShardOutcome(shard_id=A, **FAILED), result)
    event = dg.AssetObservation("orders", partition=A, metadata=metadata)
    assert set(SHARD_FIELDS) <= exact_values(event).keys()


def test_the_command_replay_prints_facts_of_the_event():
    result = ReplayResult(batch_id=1 << 60, outcomes={}, version=4, seconds=0.0301)
    outcome = ReplayOutcome(A, ReplayState.FAILED, STATS, error=ERROR)
    event = dg.AssetObservation("orders", partition=A, metadata=replay_metadata("orders", outcome, result))
    assert set(REPLAY_FIELDS) <= exact_values(event).keys()


def test_keys_of_the_totals_of_a_run():
    totals = RunTotals()
    behind = ShardOutcome(
        A, ShardState.COMMITTED, STATS, facts=reading_facts(bad_records=2, last_arrival=ARRIVED[0])
    )
    failed = ShardOutcome(
        "b", ShardState.FAILED, STATS, facts=reading_facts(last_arrival=ARRIVED[1]), error=ERROR
    )
    totals.add(RunResult(1, {A: behind, "b": failed}, seconds=0.0301))
    state = StreamState(open=2, behind=1, failed=1, lag_ms=1500, unknown_lags=0, time_to_loss_ms=7_200_000)
    table = TableTotals(rows=70, bytes=900, files=2)
    assert values(totals_metadata(totals, state, table)) == {
        "total rows": 6,
        "total size (MB)": 0.00006,
        "worst lag (s)": 1.5,
        "least time to loss (h)": 2.0,
        "newest arrival": ARRIVED[1].timestamp(),
        "open shards": 2,
        "shards behind": 1,
        "failed shards": 1,
        "total bad records": 2,
        "total speed (MB/s)": 0.002,
        "duration (s)": 0.03,
        "dagster/row_count": 70,
        "dagster/size_bytes": 900,
    }


def test_the_totals_of_a_table_that_cannot_be_read_are_omitted():
    metadata = values(totals_metadata(RunTotals(), None, None))
    assert metadata.keys() == {"total rows", "total size (MB)", "total bad records", "duration (s)"}


def test_the_totals_say_how_many_lags_are_unknown():
    state = StreamState(open=2, behind=2, failed=0, lag_ms=None, unknown_lags=2, time_to_loss_ms=None)
    metadata = values(totals_metadata(RunTotals(), state, None))
    assert metadata["shards with unknown lag"] == 2
    assert "worst lag (s)" not in metadata


@pytest.mark.parametrize(
    ("state", "stats", "error", "fails"),
    [
        (ShardState.FAILED, None, ERROR, True),
        (ShardState.FAILED, STATS, ERROR, True),
        (ShardState.FAILED, None, ShardThrottled(A, "throttled"), True),
        (ShardState.FAILED, STATS, ShardThrottled(A, "throttled"), False),
        (ShardState.WAITING, None, ParentUnfinished(A, "waits"), False),
        (ShardState.CONFLICT, None, PositionConflict(A, "moved"), False),
    ],
)
def test_the_event_of_a_shard_shows_whether_it_failed(state, stats, error, fails):
    outcome = ShardOutcome(A, state, stats=stats, error=error)
    (event,) = shard_events(dg.AssetKey("orders"), "orders", RunResult(1, {A: outcome}))
    assert is_failure(event) is fails
