"""Derived tables in continuous runs: they consume each commit while the run goes on reading."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import wait_until
from kinesis_assets import derived_table, rollup
from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.partition_ranges import range_tags
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.steps import continuous_step
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.spark.local_settings import CHECKED
from kinesis_assets.table.store.storage import TableFolder
from support.continuous_runs import MATERIALIZATION, ContinuousRuns
from support.daemon import Daemon, Status
from support.dagster_components import dagsters_own_warnings
from support.routed_project import RoutedProject
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

A, B = (f"shardId-{number:012d}" for number in range(2))
NUMBERS, COUNTS = dg.AssetKey("numbers"), dg.AssetKey("counts")
OBSERVATION = dg.DagsterEventType.ASSET_OBSERVATION


class Tables:
    """Two derived tables: the number in each record, and how often each number came.

    Attributes:
        broken: While this file exists, the first table's transformation fails.
        wide: While this file exists, its numbers have a wider type.
    """

    def __init__(self, stream: str, folder: Path) -> None:
        self.broken, self.wide = folder / "broken", folder / "wide"
        self._paths = {name: str(folder / name) for name in ("numbers", "counts")}

        @derived_table(source=stream, table=self._paths["numbers"])
        def numbers(new: DataFrame) -> DataFrame:
            if self.broken.exists():
                raise ValueError("the transformation is broken")
            number = "BIGINT" if self.wide.exists() else "INT"
            return new.selectExpr(f"CAST(CAST(data AS STRING) AS {number}) AS number")

        @rollup(source=stream, upstream="numbers", table=self._paths["counts"], by=["number"])
        def counts(rows: DataFrame) -> DataFrame:
            return rows.groupBy("number").count()

        self.definitions = dg.Definitions(assets=[numbers, counts])

    @property
    def folders(self) -> list[str]:
        """The URIs of the tables' folders."""
        return [TableFolder.at(path).uri for path in self._paths.values()]

    def type_of_numbers(self, name: str) -> pa.DataType:
        return DeltaTable(self._paths[name]).to_pyarrow_table(columns=["number"]).schema.field("number").type

    def rows(self, name: str) -> list[tuple[int, ...]]:
        """Return the rows of a table, without their batch id, in order."""
        if not DeltaTable.is_deltatable(self._paths[name]):
            return []
        columns = {"numbers": ["number"], "counts": ["number", "count"]}[name]
        rows = DeltaTable(self._paths[name]).to_pyarrow_table(columns=columns).to_pylist()
        return sorted(tuple(row[column] for column in columns) for row in rows)


@pytest.fixture
def tables(stream: str, tmp_path: Path) -> Tables:
    return Tables(stream, tmp_path)


@pytest.fixture
def make_runs(make_project, instance, stream, tables) -> Callable[..., ContinuousRuns]:
    """Builds runs that include both derived tables."""

    def make(**fields: object) -> ContinuousRuns:
        settings = {"follow_for": 2.0, "commit_interval": 0.2} | fields
        definitions = dg.Definitions.merge(make_project(**settings).definitions, tables.definitions)
        return ContinuousRuns(StreamProject(stream, definitions), instance, ["numbers", "counts"])

    return make


def materialized(runs: ContinuousRuns, run: dg.DagsterRun, key: dg.AssetKey) -> list[int]:
    """Return the rows of each materialization of a derived table, but for those without rows."""
    events = [event for event in runs.asset_events(run, MATERIALIZATION) if event.asset_key == key]
    rows = [event.metadata["rows"].value for event in events]
    return [each for each in rows if isinstance(each, int) and each]


@pytest.mark.usefixtures("spark")
class TestRuns:
    def test_raw_and_derived_tables_move_while_the_run_goes_on(self, source, make_runs, tables):
        source.create(2)
        source.put(A, 2)
        runs = make_runs()
        join = runs.start_continuously(A, B, seconds=300)
        wait_until(lambda: tables.rows("counts") == [(0, 1), (1, 1)])
        source.put(B, 1)
        wait_until(lambda: tables.rows("counts") == [(0, 2), (1, 1)])
        for shard_id in (A, B):
            source.split(shard_id)  # the run ends when all its shards are finished
        run = join()
        assert run.status is Status.SUCCESS
        assert tables.rows("numbers") == [(0,), (0,), (1,)]
        assert materialized(runs, run, NUMBERS) == [2, 1]
        assert materialized(runs, run, COUNTS) == [2, 1]

    @pytest.mark.thorough
    def test_columns_grow_while_the_run_goes_on(self, source, make_runs, tables):
        source.create(1)
        source.put(A, 2)
        runs = make_runs()
        join = runs.start_continuously(A, seconds=300)
        wait_until(lambda: tables.rows("counts") == [(0, 1), (1, 1)])
        tables.wide.touch()
        source.put(A, 3)
        wait_until(lambda: tables.rows("counts") == [(0, 2), (1, 2), (2, 1)])
        source.split(A)
        assert join().status is Status.SUCCESS
        assert [tables.type_of_numbers(name) for name in ("numbers", "counts")] == [pa.int64()] * 2
        assert tables.rows("numbers") == [(0,), (0,), (1,), (1,), (2,)]

    @dagsters_own_warnings
    def test_a_router_and_its_tables_move_while_the_run_goes_on(
        self, source, kinesis, stream, make_project, instance, tmp_path
    ):
        routed = RoutedProject(kinesis, stream, tmp_path)
        definitions = make_project(follow_for=2.0, commit_interval=0.2).definitions
        project = StreamProject(stream, dg.Definitions.merge(definitions, routed.definitions))
        runs = ContinuousRuns(project, instance, routed.names)
        source.create(1)
        routed.put("placed", "paid", "placed", "other")
        join = runs.start_continuously(A, seconds=300)
        wait_until(lambda: routed.numbers == {"placed": [0, 2], "paid": [1]})
        routed.put("paid", "other", "paid")
        wait_until(lambda: routed.numbers == {"placed": [0, 2], "paid": [1, 4, 6]})
        source.split(A)
        run = join()
        assert run.status is Status.SUCCESS
        assert routed.numbers == {"placed": [0, 2], "paid": [1, 4, 6]}
        rows = [materialized(runs, run, dg.AssetKey(name)) for name in routed.names]
        assert list(map(sum, rows)) == [7, 2, 3]

    def test_unknown_executors_are_checked_for_each_table(self, spark, source, make_runs, tables, request):
        spark.conf.set(CHECKED, "")  # as if the session was on a cluster
        request.addfinalizer(lambda: spark.conf.unset(CHECKED))
        source.create(1)
        source.put(A, 1)
        source.split(A)
        run = make_runs().run_continuously(A, seconds=300)
        assert run.status is Status.SUCCESS
        assert tables.rows("counts") == [(0, 1)]
        assert spark.conf.get(CHECKED).splitlines() == tables.folders

    def test_rows_that_no_run_has_consumed_are_consumed_at_the_start(self, source, make_runs, tables):
        source.create(1)
        source.put(A, 3)
        runs = make_runs()
        runs.add(A)
        ContinuousRuns(runs.project, runs.instance).run(range_tags([A]))
        join = runs.start_continuously(A, seconds=300)
        wait_until(lambda: tables.rows("counts") == [(0, 1), (1, 1), (2, 1)])
        source.split(A)
        assert join().status is Status.SUCCESS

    def test_a_failing_table_fails_the_run_at_its_end_and_all_shards_are_materialized(
        self, source, make_runs, tables, instance
    ):
        source.create(2)
        source.put(A, 2)
        tables.broken.touch()
        runs = make_runs()
        run = runs.run_continuously(A, B, seconds=2.0)
        assert run.status is Status.FAILURE
        assert instance.get_materialized_partitions(raw_key(source.name)) == {A, B}
        (failed,) = [event for event in runs.asset_events(run, OBSERVATION) if event.asset_key == NUMBERS]
        assert "the transformation is broken" in str(failed.metadata["error"].value)
        daemon = Daemon(runs.project, instance)
        daemon.tick()
        failing = Cursor.parse(daemon.cursor).failing_tables["numbers"]
        assert (failing.runs, failing.run_id) == (1, run.run_id)
        assert "the transformation is broken" in failing.reason
        tables.broken.unlink()
        assert runs.run_continuously(A, B, seconds=1.0).status is Status.SUCCESS
        assert tables.rows("counts") == [(0, 1), (1, 1)]

    def test_a_table_that_fails_beside_a_shard_counts_as_failing(
        self, source, faults, make_runs, tables, instance
    ):
        source.create(2)
        source.put(A, 2)
        tables.broken.touch()
        faults.fail(status=400, code="AccessDeniedException", shard_id=B)
        runs = make_runs()
        run = runs.run_continuously(A, B, seconds=2.0)
        assert run.status is Status.FAILURE
        daemon = Daemon(runs.project, instance)
        daemon.tick()
        cursor = Cursor.parse(daemon.cursor)
        assert cursor.backoff.shards.keys() == {B}
        failing = cursor.failing_tables["numbers"]
        assert (failing.runs, failing.run_id) == (1, run.run_id)
        assert "the transformation is broken" in failing.reason

    def test_a_table_that_fails_for_a_while_does_not_fail_the_run(self, source, make_runs, tables):
        source.create(1)
        source.put(A, 2)
        tables.broken.touch()
        runs = make_runs()
        join = runs.start_continuously(A, seconds=300)
        (run,) = wait_until(runs.with_started_step)
        wait_until(lambda: runs.asset_events(run, OBSERVATION))
        tables.broken.unlink()
        wait_until(lambda: tables.rows("counts") == [(0, 1), (1, 1)])
        source.split(A)
        assert join().status is Status.SUCCESS

    def test_a_commit_whose_event_could_not_be_stored_is_reported_by_the_next_attempt(
        self, source, make_runs, tables, monkeypatch
    ):
        source.create(1)
        source.put(A, 2)
        refused = []

        def refuse_first(step, events):
            events = list(events)
            for event in events:
                rows = event.metadata.get("rows")  # an observation of the failure has none
                if event.asset_key == NUMBERS and rows is not None and rows.value and not refused:
                    refused.append(event)
                    raise OSError("the database does not respond")
            report_events(step, events)

        monkeypatch.setattr(continuous_step, "report_events", refuse_first)
        runs = make_runs()
        join = runs.start_continuously(A, seconds=300)
        wait_until(lambda: tables.rows("counts") == [(0, 1), (1, 1)])
        source.put(A, 1)
        wait_until(lambda: tables.rows("counts") == [(0, 2), (1, 1)])
        source.split(A)
        run = join()
        assert run.status is Status.SUCCESS
        assert len(refused) == 1
        assert materialized(runs, run, NUMBERS) == [2, 1]

    def test_a_stop_cancels_the_run_and_the_next_one_consumes_the_rest(self, source, make_runs, tables):
        source.create(1)
        source.put(A, 3)
        runs = make_runs()

        def stop() -> None:
            wait_until(lambda: tables.rows("numbers"))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=stop).start()
        assert runs.run_continuously(A, seconds=300).status is Status.CANCELED
        source.put(A, 1)
        assert runs.run_continuously(A, seconds=1.0).status is Status.SUCCESS
        assert tables.rows("numbers") == [(0,), (0,), (1,), (2,)]
        assert tables.rows("counts") == [(0, 2), (1, 1), (2, 1)]

    def test_a_run_without_the_derived_tables_leaves_them(self, source, make_runs, tables):
        source.create(1)
        source.put(A, 3)
        runs = make_runs()
        raw_only = ContinuousRuns(runs.project, runs.instance)
        assert raw_only.run_continuously(A, seconds=1.0).status is Status.SUCCESS
        assert (len(runs.rows()), tables.rows("numbers")) == (3, [])

    @pytest.mark.thorough
    def test_a_run_that_is_not_continuous_moves_them_in_steps_of_their_own(self, source, make_runs, tables):
        source.create(1)
        source.put(A, 2)
        runs = make_runs()
        runs.add(A)
        run = runs.run(range_tags([A]))
        assert run.status is Status.SUCCESS
        assert (materialized(runs, run, NUMBERS), materialized(runs, run, COUNTS)) == ([2], [2])
        assert tables.rows("counts") == [(0, 1), (1, 1)]

    def test_while_the_next_run_takes_over_each_row_is_derived_once(
        self, source, make_runs, tables, instance
    ):
        runs = make_runs(follow_for=600.0, sensor_interval_seconds=600)
        source.create(1)
        source.put(A, 1)
        first = runs.start_continuously(A, seconds=300)
        wait_until(lambda: instance.get_materialized_partitions(raw_key(source.name)))
        second = runs.start_continuously(A, seconds=600)
        wait_until(lambda: len(runs.with_started_step()) == 2)
        put = 1
        waiting = threading.Thread(target=first, daemon=True)
        waiting.start()

        def put_until_first_ends() -> bool:
            nonlocal put
            source.put(A, 1)
            put += 1
            return not waiting.is_alive()

        wait_until(put_until_first_ends)
        wait_until(lambda: tables.rows("counts") == [(0, put)])
        source.split(A)
        assert [first().status, second().status] == [Status.SUCCESS, Status.SUCCESS]
        assert tables.rows("numbers") == [(0,)] * put


class TestSensor:
    """Which runs include the derived tables."""

    @pytest.fixture
    def daemon(self, source, make_runs, instance) -> Daemon:
        source.create(2)
        return Daemon(make_runs(follow_for=600.0, sensor_interval_seconds=30).project, instance)

    def selections(self, daemon: Daemon) -> list[set[dg.AssetKey]]:
        return [set(request.asset_selection or ()) for request in daemon.tick().run_requests or ()]

    def start_run(self, daemon: Daemon, request: dg.RunRequest) -> dg.DagsterRun:
        """Record the start of a run that was requested."""
        job = daemon.project.definitions.resolve_implicit_global_asset_job_def()
        run = daemon.instance.create_run_for_job(
            job,
            tags=dict(request.tags),
            status=Status.NOT_STARTED,
            asset_selection=frozenset(request.asset_selection or ()),
        )
        begin = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
        daemon.instance.report_dagster_event(begin, run.run_id)
        return run

    def test_a_continuous_run_includes_them(self, daemon):
        assert self.selections(daemon) == [{raw_key(daemon.project.stream), NUMBERS, COUNTS}]

    def test_only_one_run_of_a_tick_includes_them(self, daemon, source):
        daemon.add_partitions(A, "shardId-000000000009", B)  # two ranges, since there is no such shard
        assert self.selections(daemon) == [
            {raw_key(source.name), NUMBERS, COUNTS},
            {raw_key(source.name)},
        ]

    def test_a_run_over_other_shards_does_not_include_them_while_one_does(self, daemon, source):
        (request,) = daemon.tick().run_requests
        self.start_run(daemon, request)
        source.split(A)
        daemon.finish(A)
        assert self.selections(daemon) == [{raw_key(source.name)}]

    def test_the_run_that_takes_over_includes_them(self, daemon, source):
        (request,) = daemon.tick().run_requests
        self.start_run(daemon, request)
        later = time.time() + 545
        daemon.clock, daemon.derived = lambda: later, [NUMBERS, COUNTS]
        assert self.selections(daemon) == [{raw_key(source.name), NUMBERS, COUNTS}]

    def test_the_next_run_includes_them_if_the_one_that_did_has_ended(self, daemon, source):
        (request,) = daemon.tick().run_requests
        daemon.end(self.start_run(daemon, request), Status.CANCELED)
        assert self.selections(daemon) == [{raw_key(source.name), NUMBERS, COUNTS}]

    def test_a_stream_without_continuous_runs_requests_only_the_raw_asset(self, source, make_runs, instance):
        source.create(1)
        daemon = Daemon(make_runs(follow_for=None).project, instance)
        assert self.selections(daemon) == [{raw_key(source.name)}]
