"""Line 13 of the contract: a derived table's rows and its own position in its source commit together.

`chaos/derived` kills a derivation at each of its steps, and executes random histories.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.derive import run as derive_run
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.run import Derivation
from kinesis_assets.errors import CursorConflict, LandingFailed
from support.derived import DerivedBench, identified, identities

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.pipeline import Pipeline

KILLED_DERIVATION = Path(__file__).with_name("killed_derivation.py")


@pytest.fixture
def derived(pipeline: Pipeline, spark: SparkSession, place: str) -> DerivedBench:
    """The rows of the pipeline's table, not derived yet."""
    pipeline.create(2)
    table = DerivedTable(f"{place}/derived")
    return DerivedBench(spark, table, Derivation(pipeline.table.uri, identified))


def land(pipeline: Pipeline, records: int) -> None:
    pipeline.put_many(records)
    pipeline.materialize()


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.any_spark), "after"])
def test_the_run_after_a_killed_run_leaves_each_row_exactly_once(
    pipeline: Pipeline, derived: DerivedBench, when: str
) -> None:
    land(pipeline, 100)
    derived.run()
    land(pipeline, 100)
    command = [sys.executable, str(KILLED_DERIVATION), when, pipeline.table.uri, derived.table.uri]
    killed = subprocess.run(command, check=False, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    land(pipeline, 100)
    derived.run()
    assert identities(derived) == Counter(pipeline.acknowledged)


@pytest.mark.any_spark
def test_of_two_runs_at_once_one_adds_its_rows(
    pipeline: Pipeline, derived: DerivedBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(pipeline, 100)
    derived.run()
    land(pipeline, 100)
    commit, both_have_written = derive_run.commit, threading.Barrier(2)
    conflicts: list[CursorConflict] = []

    def commit_together(*arguments: object, **named: object) -> object:
        both_have_written.wait(timeout=300)
        return commit(*arguments, **named)

    def run() -> None:
        other = DerivedBench(derived.spark, DerivedTable(derived.table.uri), derived.derivation)
        try:
            other.run()
        except CursorConflict as error:
            conflicts.append(error)

    monkeypatch.setattr(derive_run, "commit", commit_together)
    runs = [threading.Thread(target=run) for _ in range(2)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert len(conflicts) == 1
    assert identities(derived) == Counter(pipeline.acknowledged)


def test_rows_that_a_seek_deleted_and_read_again_are_in_a_rebuilt_table_once(
    pipeline: Pipeline, derived: DerivedBench
) -> None:
    land(pipeline, 100)
    derived.run()
    pipeline.seek("TRIM_HORIZON")
    land(pipeline, 100)
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert identities(derived) == Counter(pipeline.acknowledged)


@pytest.mark.any_spark
def test_a_failed_run_changes_nothing(pipeline: Pipeline, derived: DerivedBench) -> None:
    land(pipeline, 100)
    derived.run()
    version = derived.table.snapshot().delta.version()
    consumed = identities(derived)
    land(pipeline, 100)
    with pytest.raises(LandingFailed):
        derived.run(transform=lambda rows: identified(rows).where("raise_error('no') IS NULL"))
    assert derived.table.snapshot().delta.version() == version
    assert identities(derived) == consumed
    derived.run()
    assert identities(derived) == Counter(pipeline.acknowledged)
