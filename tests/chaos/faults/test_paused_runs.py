"""A run pauses right before its commit, and resumes after other runs have committed."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chaos.faults.site.fault_points import Fault
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE
from kinesis_assets.table.maintenance.run import maintain

if TYPE_CHECKING:
    from chaos.faults.bench import FaultBench

pytestmark = pytest.mark.any_format

TOO_OLD = MAX_ATTEMPT_AGE / timedelta(hours=1)
"""An attempt that is stopped for so many hours is too old to commit."""

BEFORE_COMMIT = ["commit", "try to commit", "commit request"]


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_an_overtaken_run_loses_that_shard_and_commits_the_other(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    first, second = bench.listed()
    paused = bench.start(Fault("", point, action="stop"))
    paused.wait_until_stopped()
    bench.put_many(20)
    winner = bench.run([first])
    assert winner.errors == {}
    paused.signal(signal.SIGCONT)
    facts = paused.wait().report["shards"]
    assert facts[first]["state"] == "conflict"
    assert facts[first]["rows"] == 0
    assert facts[first]["error"].startswith("PositionConflict")
    assert str(winner.batch_id) in facts[first]["error"]
    assert facts[second]["state"] == "committed"
    bench.assert_rows_equal_positions()
    bench.assert_next_run_recovers()


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_a_run_overtaken_on_every_shard_adds_nothing(bench: FaultBench, point: str) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    paused = bench.start(Fault("", point, action="stop"))
    paused.wait_until_stopped()
    bench.run()
    before = bench.version
    paused.signal(signal.SIGCONT)
    report = paused.wait().report
    assert {fact["state"] for fact in report["shards"].values()} == {"conflict"}
    assert report["version"] is None
    assert bench.version == before
    bench.assert_exactly_once()
    bench.assert_next_run_recovers()


def test_a_first_run_paused_before_its_freeze_continues_from_another_runs_freeze(bench: FaultBench) -> None:
    bench.create(2)
    bench.put_many(100)
    paused = bench.start(Fault("", "commit request", action="stop"))
    paused.wait_until_stopped()
    bench.run()
    paused.signal(signal.SIGCONT)
    assert {fact["state"] for fact in paused.wait().report["shards"].values()} == {"committed"}
    bench.assert_exactly_once()


@pytest.mark.parametrize("vacuumed", [False, True], ids=["its files exist", "its files were vacuumed"])
def test_a_run_that_is_too_old_is_refused_although_it_was_not_overtaken(
    bench: FaultBench, vacuumed: bool
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    paused = bench.start(Fault("", "commit", action="stop"), hours_stopped=TOO_OLD)
    paused.wait_until_stopped()
    landed = list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))
    assert landed
    for file in landed if vacuumed else ():
        file.unlink()
    before = bench.version
    paused.signal(signal.SIGCONT)
    assert paused.wait().code == 1
    assert "AttemptExpired" in paused.err
    assert bench.version == before
    bench.assert_next_run_recovers()


def test_a_run_whose_files_were_deleted_is_refused_at_any_age(bench: FaultBench) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    paused = bench.start(Fault("", "commit", action="stop"))
    paused.wait_until_stopped()
    for file in Path(bench.table.uri).glob("arrival_date=*/*.parquet"):
        file.unlink()
    paused.signal(signal.SIGCONT)
    assert paused.wait().code == 1
    assert "DataFileInvalid" in paused.err
    bench.assert_next_run_recovers()


def test_a_run_paused_after_its_checks_during_a_vacuum_commits_no_deleted_file(
    bench: FaultBench,
) -> None:
    bench.create(2)
    bench.run()
    bench.put_many(100)
    table = bench.table
    stream = StreamSummary(bench.positions.identity, datetime.now(UTC), retention_hours=24)
    list(maintain(table, stream))  # what it sets once is set
    paused = bench.start(Fault("", "commit request", action="stop"))
    paused.wait_until_stopped()
    landed = list(Path(bench.table.uri).glob("arrival_date=*/*.parquet"))
    assert landed
    long_ago = time.time() - timedelta(days=8).total_seconds()
    for file in landed:
        os.utime(file, (long_ago, long_ago))
    list(maintain(table, stream))
    assert not any(file.exists() for file in landed)
    paused.signal(signal.SIGCONT)
    paused.wait()
    bench.assert_next_run_recovers()
