"""Line 13 of the contract: a derived table's rows and its own position in its source commit together.

`chaos/derived` kills a derivation at each of its steps, and executes random histories.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from benchmarks.harness.waiting import SECONDS
from contract.derivations import APPENDED, KEYS, KINDS, ROLLED_UP, UPSERTED, Kind, number, number_of
from kinesis_assets.derive import run as derive_run
from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.derive.policy import MAX_BYTES, OnDeleted
from kinesis_assets.errors import CursorConflict, LandingFailed
from support.derived import DerivedBench
from support.formats import derived_at, source_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.pipeline import Pipeline

pytestmark = pytest.mark.any_format

KILLED_DERIVATION = Path(__file__).with_name("killed_derivation.py")


one_kind_on_clusters = pytest.mark.parametrize(
    "kind", [pytest.param(APPENDED, marks=pytest.mark.any_spark), UPSERTED, ROLLED_UP], ids=str
)


@pytest.fixture
def kind() -> Kind:
    """The kind of the derived table, unless the test has several."""
    return APPENDED


@pytest.fixture
def derived(pipeline: Pipeline, spark: SparkSession, place: str, kind: Kind) -> DerivedBench:
    """The rows of the pipeline's table, not derived yet."""
    pipeline.create(2)
    table = derived_at(f"{place}/derived")
    derivation = replace(kind.derivation(pipeline.table.uri), source_format=source_format(pipeline.table))
    return DerivedBench(spark, table, derivation)


def land(pipeline: Pipeline, records: int) -> None:
    pipeline.put_many(records)
    pipeline.materialize()


@pytest.mark.parametrize(
    ("kind", "when"),
    [
        (APPENDED, "before"),
        pytest.param(APPENDED, "after", marks=pytest.mark.thorough),
        pytest.param(UPSERTED, "before", marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_the_run_after_a_killed_run_leaves_each_row_exactly_once(
    pipeline: Pipeline, derived: DerivedBench, kind: Kind, when: str
) -> None:
    land(pipeline, 100)
    derived.run()
    land(pipeline, 100)
    tables = [pipeline.table.uri, derived.table.uri]
    command = [sys.executable, str(KILLED_DERIVATION), when, kind.name, *tables]
    killed = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    land(pipeline, 100)
    derived.run()
    kind.assert_exact(derived, pipeline.acknowledged)


@one_kind_on_clusters
def test_of_two_runs_at_once_one_adds_its_rows(
    pipeline: Pipeline, derived: DerivedBench, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(pipeline, 100)
    derived.run()
    land(pipeline, 100)
    commit, both_have_written = derive_run.commit, threading.Barrier(2)
    conflicts: list[CursorConflict] = []

    def commit_together(*arguments: object, **named: object) -> object:
        both_have_written.wait(timeout=SECONDS)
        return commit(*arguments, **named)

    def run() -> None:
        other = DerivedBench(derived.spark, derived_at(derived.table.uri), derived.derivation)
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
    kind.assert_exact(derived, pipeline.acknowledged)


def test_rows_that_a_seek_deleted_and_read_again_are_in_a_rebuilt_table_once(
    pipeline: Pipeline, derived: DerivedBench, kind: Kind
) -> None:
    land(pipeline, 100)
    derived.run()
    pipeline.seek("TRIM_HORIZON")
    land(pipeline, 100)
    derived.run(on_deleted=OnDeleted.REBUILD)
    kind.assert_exact(derived, pipeline.acknowledged)


@one_kind_on_clusters
def test_a_failed_run_changes_nothing(pipeline: Pipeline, derived: DerivedBench, kind: Kind) -> None:
    land(pipeline, 100)
    derived.run()
    version = derived.table.snapshot().version
    consumed = list(pipeline.acknowledged)
    land(pipeline, 1)  # of more, a run finds the one that fails in many jobs
    with pytest.raises(LandingFailed):
        derived.run(transform=lambda rows: kind.transform(rows).where("raise_error('no') IS NULL"))
    assert derived.table.snapshot().version == version
    kind.assert_exact(derived, consumed)
    derived.run()
    kind.assert_exact(derived, pipeline.acknowledged)


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_repeated_run_adds_nothing(pipeline: Pipeline, derived: DerivedBench, kind: Kind) -> None:
    for _ in range(2):
        land(pipeline, 100)
        derived.run()
        assert derived.run() == []
        kind.assert_exact(derived, pipeline.acknowledged)


def versions(rows: DataFrame) -> DataFrame:
    """Return the number of each record and its key, all at one time."""
    return rows.select((number() % KEYS).alias("key"), F.lit(0).alias("at"), number().alias("number"))


@pytest.mark.parametrize(
    "max_bytes",
    [
        pytest.param(1, marks=pytest.mark.any_spark),
        pytest.param(MAX_BYTES, marks=pytest.mark.thorough),
    ],
)
def test_of_equal_rows_the_one_with_the_greatest_sequence_number_of_the_last_commit_stays(
    pipeline: Pipeline, derived: DerivedBench, max_bytes: int
) -> None:
    derived.derivation = replace(
        derived.derivation, transform=versions, mode=Upsert(("key",), ("at",)), max_bytes=max_bytes
    )
    land(pipeline, 100)
    derived.run()
    committed = len(pipeline.acknowledged)
    land(pipeline, 5)
    land(pipeline, 100)
    derived.run()
    last = pipeline.acknowledged[committed + 5 :]
    expected = {
        number_of(each) % KEYS: number_of(each) for each in sorted(last, key=lambda each: int(each[1]))
    }
    assert derived.values("key", "number") == sorted(expected.items(), key=repr)


@pytest.mark.any_spark
def test_the_time_zone_of_the_session_changes_no_row(
    pipeline: Pipeline, derived: DerivedBench, spark: SparkSession
) -> None:
    def days(rows: DataFrame) -> DataFrame:
        at = F.timestamp_seconds(number() * 3600)
        day, hour, text = F.to_date(at), F.hour(at), at.cast("string")
        return rows.select(
            number().alias("number"), at.alias("at"), day.alias("day"), hour.alias("hour"), text.alias("text")
        )

    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    try:
        land(pipeline, 50)
        derived.run(transform=days, partition_by=("day",), mode=Upsert(("number",), ("at",), "hour(at) = 7"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    moments = [(n, datetime.fromtimestamp(n * 3600, UTC)) for n in map(number_of, pipeline.acknowledged)]
    rows = [(n, at, at.date(), at.hour, f"{at:%Y-%m-%d %H:%M:%S}") for n, at in moments if at.hour != 7]
    assert sorted(derived.values("number", "at", "day", "hour", "text")) == sorted(rows)
