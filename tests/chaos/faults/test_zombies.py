"""A run that stands still right before its commit, and goes on when the world has gone on without it."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from chaos.faults.site.fault_points import Fault
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.maintenance.run import maintain

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench

BEFORE_COMMIT = ["commit", "try to commit", "commit request"]


def versions(bench: FaultBench) -> int:
    return DeltaTable(bench.table.uri).version()


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_an_overtaken_run_is_rejected_for_that_shard_and_keeps_the_other(
    bench: FaultBench, point: str
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    first, second = bench.listed()
    zombie = bench.begin(Fault("", point, action="stop"))
    zombie.await_stopped()
    bench.put_many(20)
    winner = bench.run([first])
    assert winner.errors == {}
    zombie.signal(signal.SIGCONT)
    facts = zombie.wait().told["shards"]
    assert facts[first]["state"] == "conflict"
    assert facts[first]["rows"] == 0
    assert facts[first]["error"].startswith("PositionConflict")
    assert str(winner.batch_id) in facts[first]["error"]
    assert facts[second]["state"] == "committed"
    bench.assert_rows_equal_positions()
    bench.assert_next_run_mends_all()


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_a_run_overtaken_on_every_shard_adds_nothing(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    zombie = bench.begin(Fault("", point, action="stop"))
    zombie.await_stopped()
    bench.run()
    before = versions(bench)
    zombie.signal(signal.SIGCONT)
    told = zombie.wait().told
    assert {fact["state"] for fact in told["shards"].values()} == {"conflict"}
    assert told["version"] is None
    assert versions(bench) == before
    bench.assert_exactly_once()
    bench.assert_next_run_mends_all()


def test_a_first_run_that_stood_before_its_freeze_goes_on_from_another_runs_freeze(bench: FaultBench) -> None:
    bench.create(2)
    bench.put_many(100)
    zombie = bench.begin(Fault("", "commit request", action="stop"))
    zombie.await_stopped()
    bench.run()
    zombie.signal(signal.SIGCONT)
    assert {fact["state"] for fact in zombie.wait().told["shards"].values()} == {"committed"}
    bench.assert_exactly_once()


def test_a_run_as_old_as_a_vacuum_is_refused_though_it_was_not_overtaken(bench: FaultBench) -> None:
    """Here the age is a second, not days."""
    bench.create(2)
    bench.run()
    bench.put_many(100)
    zombie = bench.begin(Fault("", "commit", action="stop"), oldest=1)
    zombie.await_stopped()
    landed = list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))
    assert landed
    for file in landed:  # as a vacuum would
        file.unlink()
    before = versions(bench)
    time.sleep(1)  # the age itself
    zombie.signal(signal.SIGCONT)
    assert zombie.wait().code == 1
    assert "AttemptExpired" in zombie.err
    assert versions(bench) == before
    bench.assert_next_run_mends_all()


def test_a_run_too_old_is_refused_though_its_files_are_still_there(bench: FaultBench) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    zombie = bench.begin(Fault("", "commit", action="stop"), oldest=1)
    zombie.await_stopped()
    before = versions(bench)
    time.sleep(1)  # the age itself
    zombie.signal(signal.SIGCONT)
    assert zombie.wait().code == 1
    assert "AttemptExpired" in zombie.err
    assert versions(bench) == before
    bench.assert_next_run_mends_all()


def test_a_run_whose_files_are_gone_is_refused_at_any_age(bench: FaultBench) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    zombie = bench.begin(Fault("", "commit", action="stop"))
    zombie.await_stopped()
    for file in Path(bench.table.uri).glob("arrival_date=*/*.parquet"):
        file.unlink()
    zombie.signal(signal.SIGCONT)
    assert zombie.wait().code == 1
    assert "DataFileInvalid" in zombie.err
    bench.assert_next_run_mends_all()


def test_a_run_that_stood_behind_its_checks_through_a_vacuum_commits_no_file_that_is_gone(
    bench: FaultBench,
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    table = bench.table
    stream = StreamSummary(bench.positions.identity, datetime.now(UTC), retention_hours=24)
    list(maintain(table, stream))  # what it sets once is set
    zombie = bench.begin(Fault("", "commit request", action="stop"))
    zombie.await_stopped()
    landed = list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))
    assert landed
    long_ago = time.time() - timedelta(days=8).total_seconds()
    for file in landed:
        os.utime(file, (long_ago, long_ago))
    list(maintain(table, stream))
    assert not any(file.exists() for file in landed)
    zombie.signal(signal.SIGCONT)
    zombie.wait()
    bench.assert_next_run_mends_all()
