"""The asset checks of derived tables: in runs, in ticks of the sensor, and executed in the UI."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.harness.waiting import wait_until
from kinesis_assets import derived_table, rollup
from kinesis_assets.dagster.settings.check_settings import SCANNING, DerivedChecks
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.decoders import from_json
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.rebuild import rebuild
from support.continuous_runs import ContinuousRuns
from support.daemon import Daemon, Status
from support.dagster_runs import execute

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from kinesis_assets.dagster.stream import OpenStream

pytestmark = [pytest.mark.any_format, pytest.mark.usefixtures("spark")]

A = "shardId-000000000000"
ALL = {name for name, _ in DerivedChecks().defined} - {"unmatched_records", "catalog"}
"""Those of a table that is no router and is not registered in the Data Catalog."""
FREE = ALL - SCANNING
DAY = 86_400.0


class Clicks:
    """A stream with a table of clicks, of which each has a key, and a roll-up of it."""

    def __init__(self, make_project: Any, kinesis: Any, stream: str, folder: Path, **fields: Any) -> None:
        self.stream = stream
        self.path = str(folder / "clicks")
        self._kinesis = kinesis

        @derived_table(source=stream, table=self.path, key=["id"], order_by=["id"])
        def clicks(new: DataFrame) -> DataFrame:
            return from_json(new, "id INT")

        @rollup(source=stream, upstream="clicks", table=str(folder / "ids"), by=["id"])
        def ids(rows: DataFrame) -> DataFrame:
            return rows.groupBy("id").count()

        derived = dg.Definitions(assets=[clicks, ids])
        self.definitions = dg.Definitions.merge(make_project(**fields).definitions, derived)
        self.project = StreamProject(stream, self.definitions)

    def create(self) -> None:
        self._kinesis.create_stream(StreamName=self.stream, ShardCount=1)

    def put(self, *payloads: bytes) -> None:
        records = [{"Data": data, "PartitionKey": "k"} for data in payloads]
        self._kinesis.put_records(StreamName=self.stream, Records=records)

    def materialize(self, instance: dg.DagsterInstance, *names: str, checks: bool = False) -> str:
        """Materialize tables as the automation does, or with their checks as the UI does."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        keys = {dg.AssetKey(name) for name in names}
        job = job.get_subset(asset_selection=keys, asset_check_selection=None if checks else set())
        return job.execute_in_process(instance=instance).run_id

    def rebuild(self, instance: dg.DagsterInstance) -> None:
        """Derive the rows of the clicks again, as the command does."""
        table = DerivedTable(self.path)
        newest = table.snapshot().newest
        assert newest is not None
        with self.project.open_stream() as opened:
            source = open_source(opened.table.uri, format=opened.raw_format)
        rebuild(table, source, newest.definition, (), by="ann", apply=True)
        self.materialize(instance, "clicks")

    def execute_checks(self, instance: dg.DagsterInstance, *names: str) -> dict[str, bool]:
        """Execute checks of the clicks as the UI does, and return whether each passed."""
        keys = {dg.AssetCheckKey(dg.AssetKey("clicks"), name) for name in names}
        job = self.definitions.resolve_implicit_global_asset_job_def()
        result = job.get_subset(asset_check_selection=keys).execute_in_process(instance=instance)
        assert result.get_asset_materialization_events() == []
        return {each.check_name: each.passed for each in result.get_asset_check_evaluations()}


@pytest.fixture
def clicks(make_project, kinesis, stream, tmp_path) -> Clicks:
    return Clicks(make_project, kinesis, stream, tmp_path)


def executions(instance: dg.DagsterInstance, asset: str = "clicks") -> dict[str, Any]:
    keys = [dg.AssetCheckKey(dg.AssetKey(asset), name) for name in ALL]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {key.name: record for key, record in found.items()}


def is_evaluated(record: Any) -> bool:
    """Return whether an execution has a result, and is not only planned."""
    return isinstance(record.evaluation, dg.AssetCheckEvaluation)


def failed(instance: dg.DagsterInstance) -> set[str]:
    """Return the names of the checks of the clicks that Dagster shows as failed."""
    return {name for name, record in executions(instance).items() if not record.evaluation.passed}


@pytest.fixture
def consumed(clicks, instance) -> Clicks:
    """The table of clicks, which has consumed three."""
    clicks.create()
    clicks.put(b'{"id": 1}', b'{"id": 2}', b'{"id": 2}')
    execute(clicks.project, instance, A)
    clicks.materialize(instance, "clicks")
    return clicks


@pytest.fixture
def rolled_up(consumed, instance) -> Clicks:
    """The same, and its roll-up."""
    consumed.materialize(instance, "ids")
    return consumed


@pytest.mark.usefixtures("rolled_up")
def test_a_run_reports_the_checks_that_read_no_rows(instance):
    (record,) = instance.fetch_materializations(dg.AssetKey("clicks"), limit=1).records
    found = executions(instance)
    assert found.keys() == FREE
    assert {each.run_id for each in found.values()} == {record.run_id}
    assert failed(instance) == set()
    assert found["bad_records"].evaluation.metadata["records"].value == 3
    assert executions(instance, "ids").keys() == FREE - {"bad_records"}


def test_a_run_with_the_checks_skips_the_scan(clicks, instance):
    clicks.create()
    clicks.put(b'{"id": 1}')
    execute(clicks.project, instance, A)
    run_id = clicks.materialize(instance, "clicks", checks=True)
    found = executions(instance)
    assert {name for name, record in found.items() if is_evaluated(record)} == FREE
    assert {record.run_id for record in found.values()} == {run_id}
    assert instance.get_run_by_id(run_id).status is Status.SUCCESS


def test_a_named_job_over_a_table_runs_the_only_check_that_it_selects(consumed, instance):
    table = dg.AssetSelection.assets("clicks").without_checks()
    scan = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("clicks"), "no_duplicates"))
    jobs = dg.Definitions(jobs=[dg.define_asset_job("nightly", table | scan)])
    job = dg.Definitions.merge(consumed.definitions, jobs).resolve_job_def("nightly")
    result = job.execute_in_process(instance=instance)
    assert len(result.get_asset_materialization_events()) == 1
    assert {each.check_name for each in result.get_asset_check_evaluations()} == SCANNING


def test_bad_records_turn_the_check_red_and_good_ones_turn_it_green(consumed, instance):
    consumed.put(b"{")
    execute(consumed.project, instance, A)
    consumed.materialize(instance, "clicks")
    assert failed(instance) == {"bad_records"}
    consumed.put(*[b'{"id": 3}'] * 200)
    execute(consumed.project, instance, A)
    consumed.materialize(instance, "clicks")
    assert failed(instance) == set()


def test_the_sensor_turns_the_lag_red_without_a_run_and_a_run_turns_it_green(consumed, instance):
    daemon = Daemon(consumed.project, instance)
    daemon.tick()  # it finds the tables in the definitions
    assert failed(instance) == set()
    consumed.put(b'{"id": 3}')
    execute(consumed.project, instance, A)
    daemon.checked = checked_by(consumed, daemon.opened)
    daemon.clock = lambda: time.time() + DAY
    runs = len(instance.get_runs())
    daemon.tick()
    assert failed(instance) == {"lag"}
    assert len(instance.get_runs()) == runs
    consumed.materialize(instance, "clicks")
    assert failed(instance) == set()
    daemon.tick()
    assert failed(instance) == set()


def checked_by(clicks: Clicks, opened: OpenStream):
    from kinesis_assets.dagster.derived_tables import checked_tables  # noqa: PLC0415

    assets = clicks.definitions.get_repository_def().assets_defs_by_key
    return checked_tables(assets, opened)


def test_the_sensor_reports_the_checks_of_all_tables_of_the_stream(rolled_up, instance):
    instance.report_runless_asset_event(dg.AssetMaterialization("clicks"))
    instance.report_runless_asset_event(dg.AssetMaterialization("ids"))
    events = Daemon(rolled_up.project, instance).tick().asset_events
    found = {
        (event.asset_key.to_user_string(), event.check_name)
        for event in events
        if isinstance(event, dg.AssetCheckEvaluation) and len(event.asset_key.path) == 1
    }
    assert found == {
        *(("clicks", name) for name in FREE),
        *(("ids", name) for name in FREE - {"bad_records"}),
    }


def test_the_checks_can_be_executed_without_a_materialization(consumed, instance):
    assert consumed.execute_checks(instance, *ALL) == dict.fromkeys(ALL, True)


def test_one_check_can_be_executed(consumed, instance):
    assert consumed.execute_checks(instance, "continuity") == {"continuity": True}


def test_keys_that_are_there_twice_are_found_by_a_scan(consumed, instance):
    consumed.put(b"{", b"}")  # two rows without a key
    execute(consumed.project, instance, A)
    consumed.materialize(instance, "clicks")
    assert consumed.execute_checks(instance, "no_duplicates") == {"no_duplicates": True}
    table = DeltaTable(consumed.path)
    write_deltalake(table, table.to_pyarrow_table(), mode="append")  # as another program might
    assert consumed.execute_checks(instance, "no_duplicates") == {"no_duplicates": False}
    found = executions(instance)["no_duplicates"].evaluation
    assert (found.metadata["rows"].value, found.metadata["duplicated keys"].value) == (4, 2)
    assert "run `kinesis-assets rebuild`" in found.description
    consumed.rebuild(instance)
    assert consumed.execute_checks(instance, "no_duplicates") == {"no_duplicates": True}


def test_a_result_of_the_scan_stays_after_a_run(consumed, instance):
    consumed.execute_checks(instance, "no_duplicates")
    before = executions(instance)["no_duplicates"].run_id
    consumed.materialize(instance, "clicks")
    assert executions(instance)["no_duplicates"].run_id == before


def test_a_continuous_run_reports_the_checks(make_project, kinesis, stream, tmp_path, instance, source):
    clicks = Clicks(make_project, kinesis, stream, tmp_path, follow_for=2.0, commit_interval=0.2)
    clicks.create()
    clicks.put(b'{"id": 1}')
    runs = ContinuousRuns(clicks.project, instance, ["clicks", "ids"])
    join = runs.start_continuously(A, seconds=300)
    (run,) = wait_until(runs.with_started_step)
    for asset in ("clicks", "ids"):
        wait_until(lambda asset=asset: evaluated_in(instance, run, asset) >= {"lag", "continuity"})
    assert instance.get_run_by_id(run.run_id).status is Status.STARTED
    source.split(A)  # the run ends when all its shards are finished
    assert join().status is Status.SUCCESS


def evaluated_in(instance: dg.DagsterInstance, run: dg.DagsterRun, asset: str) -> set[str]:
    """Return the names of the checks that a run has evaluated and that passed."""
    return {
        name
        for name, record in executions(instance, asset).items()
        if record.run_id == run.run_id and is_evaluated(record) and record.evaluation.passed
    }
