"""Lines 2 and 13 of the contract, in continuous runs of a stream that include tables derived from it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from benchmarks.harness.waiting import SECONDS, wait_until
from contract.derivations import APPENDED, ROLLED_UP, Kind, number, number_of
from kinesis_assets import derived_table, rollup
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.derivation import Derivation
from kinesis_assets.derive.derived_table import DerivedTable
from support.continuous_runs import ContinuousRuns
from support.derived import DerivedBench
from support.formats import derived_at, derived_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from support.pipeline import Pipeline

pytestmark = pytest.mark.any_spark

Status = dg.DagsterRunStatus


@dataclass(frozen=True)
class FollowedStream:
    """A pipeline with its continuous runs.

    Attributes:
        pipeline: The stream and its table.
        instance: The instance that stores the runs.
        derived: The tables that are derived from the stream's table, with their kinds.
    """

    pipeline: Pipeline
    instance: dg.DagsterInstance
    derived: Mapping[Kind, DerivedBench]
    assets: Sequence[dg.AssetsDefinition]

    def runs(self, commit_interval: float = 0.2) -> ContinuousRuns:
        """Return runs that include the derived tables, and start an iteration at each interval in seconds."""
        raw = self.pipeline.project(follow_for=SECONDS, commit_interval=commit_interval).definitions
        definitions = dg.Definitions.merge(raw, dg.Definitions(assets=self.assets))
        names = [asset.key.to_user_string() for asset in self.assets]
        return ContinuousRuns(StreamProject(self.pipeline.stream, definitions), self.instance, names)

    def assert_exactly_once(self) -> None:
        """The table and the tables derived from it contain every acknowledged record once."""
        self.pipeline.assert_exactly_once()
        for kind, derived in self.derived.items():
            kind.assert_exact(derived, self.pipeline.acknowledged)


@pytest.fixture
def followed(
    pipeline: Pipeline, spark: SparkSession, instance: dg.DagsterInstance, place: str
) -> FollowedStream:
    """A stream of two shards, and two tables that are derived from its table."""
    pipeline.create(2)
    derived = {
        kind: DerivedBench(spark, derived_at(f"{place}/{kind}"), kind.derivation(pipeline.table.uri))
        for kind in (APPENDED, ROLLED_UP)
    }
    appended, rolled_up = (each.table.uri for each in derived.values())
    assets = [
        derived_table(source=pipeline.stream, table=appended, **derived_settings(appended))(
            APPENDED.transform
        ),
        rollup(source=pipeline.stream, table=rolled_up, by=["shard_id"], **derived_settings(rolled_up))(
            ROLLED_UP.transform
        ),
    ]
    return FollowedStream(pipeline, instance, derived, assets)


def finish(pipeline: Pipeline, *shards: str) -> None:
    """Split shards. A continuous run ends when all of its shards are finished."""
    for shard_id in shards:
        pipeline.split(shard_id)


@pytest.mark.any_format
def test_records_that_arrive_during_a_run_are_in_all_tables_exactly_once(followed: FollowedStream) -> None:
    pipeline, runs = followed.pipeline, followed.runs()
    shards = pipeline.shard_ids
    pipeline.put_many(100)
    join = runs.start_continuously(*shards, seconds=SECONDS)
    wait_until(lambda: len(runs.rows()) == 100)
    pipeline.put_many(100)
    wait_until(lambda: len(runs.rows()) == 200)
    finish(pipeline, *shards)
    assert join().status is Status.SUCCESS
    followed.assert_exactly_once()


def test_each_table_of_a_run_has_its_time_zone_and_the_session_keeps_its_own(
    pipeline: Pipeline, spark: SparkSession, instance: dg.DagsterInstance, place: str
) -> None:
    def hours(rows: DataFrame) -> DataFrame:
        return rows.select(number().alias("number"), F.hour(F.timestamp_seconds(F.lit(0))).alias("hour"))

    def table_in(time_zone: str) -> DerivedBench:
        def transform(rows: DataFrame) -> DataFrame:
            return hours(rows)

        transform.__name__ = time_zone.replace("/", "_")
        uri = f"{place}/{transform.__name__}"
        assets.append(derived_table(source=pipeline.stream, table=uri, time_zone=time_zone)(transform))
        return DerivedBench(spark, DerivedTable(uri), Derivation(pipeline.table.uri, hours))

    pipeline.create(1)
    assets: list[dg.AssetsDefinition] = []
    utc, tokyo = table_in("UTC"), table_in("Asia/Tokyo")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    seen = []
    try:
        runs = FollowedStream(pipeline, instance, {}, assets).runs()
        join = runs.start_continuously(*pipeline.shard_ids, seconds=SECONDS)
        for expected in (100, 200):
            pipeline.put_many(100)
            wait_until(lambda: len(runs.rows()) == expected)  # noqa: B023  # called at once
            seen.append(spark.sql("SELECT hour(timestamp_seconds(0))").collect()[0][0])
        finish(pipeline, *pipeline.shard_ids)
        assert join().status is Status.SUCCESS
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    numbers = sorted(map(number_of, pipeline.acknowledged))
    assert sorted(utc.values("number", "hour")) == [(each, 0) for each in numbers]
    assert sorted(tokyo.values("number", "hour")) == [(each, 9) for each in numbers]
    assert seen == [16, 16]


@pytest.mark.any_format
def test_the_run_after_a_stopped_run_leaves_each_record_exactly_once(
    followed: FollowedStream, faults: Any
) -> None:
    pipeline = followed.pipeline
    shards = pipeline.shard_ids
    pipeline.put_many(100)
    pipeline.run()
    pipeline.put_many(200)
    faults.page_size(1)
    faults.before("GetRecords", lambda: os.kill(os.getpid(), signal.SIGTERM), after=10, times=1)
    faults.throttle("GetRecords", after=20)  # it cannot read on before it is stopped, in its first iteration
    run = followed.runs(commit_interval=SECONDS).run_continuously(*shards, seconds=SECONDS)
    assert run.status is Status.CANCELED
    assert 100 < len(pipeline.stored) <= 120
    pipeline.assert_rows_equal_positions()
    faults.clear()
    finish(pipeline, *shards)
    run = followed.runs().run_continuously(*shards, seconds=SECONDS)
    assert run.status is Status.SUCCESS
    followed.assert_exactly_once()
