"""The maintenance job of a stream: its schedule, its steps and its events."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from dagster._core.definitions.job_base import RepoBackedJob
from dagster._core.execution.execute_in_process import core_execute_in_process
from deltalake import DeltaTable

from kinesis_assets import build_kinesis_stream, derived_table, new_rows
from kinesis_assets.dagster.jobs.maintenance import STEPS, run_maintenance
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.derive import derived_source
from kinesis_assets.errors import (
    CommitFailed,
    InvalidInput,
    MaintenanceFailed,
    TableMissing,
    TableRewritten,
    TableUnsuitable,
)
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.commits.commit import freeze
from kinesis_assets.table.maintenance import run as raw_maintenance
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.steps import DEFAULT_LIMITS
from support.attempts import Attempt
from support.plain_derived import PlainDerived
from support.stream_names import raw_key

pytestmark = pytest.mark.slow  # Dagster executes jobs


@pytest.fixture
def empty_table(project, source):
    """A stream and its table without rows."""
    source.create(1)
    with project.open_stream() as opened:
        listing = opened.client.listing()
        starts = {shard.shard_id: Position(PositionKind.TRIM_HORIZON) for shard in listing.shards}
        freeze(opened.table, listing, starts)
        return opened.table, listing.summary.identity


def observed(instance, key):
    """Return the steps of the only observation of an asset."""
    (record,) = instance.fetch_observations(key, limit=9).records
    return record.asset_observation.metadata[STEPS].value


def schedules_of(**fields):
    definitions = build_kinesis_stream("page-views.v2", table="views", **fields)
    return definitions.get_repository_def().schedule_defs


def test_it_runs_once_a_day_by_default():
    (schedule,) = schedules_of()
    minute, *rest = str(schedule.cron_schedule).split()
    assert int(minute) in range(60)
    assert (rest, schedule.execution_timezone) == (["3", "*", "*", "*"], "UTC")
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    assert schedule.job_name == StreamNames("page-views.v2").job("maintenance")


def test_streams_are_not_maintained_in_the_same_minute_and_each_always_in_its_own():
    def minutes():
        streams = [build_kinesis_stream(f"clicks-{number}", table="clicks") for number in range(20)]
        (crons,) = zip(*(each.get_repository_def().schedule_defs for each in streams), strict=True)
        return [str(each.cron_schedule).split()[0] for each in crons]

    assert len(set(minutes())) > 10
    assert minutes() == minutes()


def test_the_schedule_can_be_changed_or_disabled():
    (schedule,) = schedules_of(maintenance_schedule="0 * * * *")
    assert schedule.cron_schedule == "0 * * * *"
    (spread,) = schedules_of(maintenance_schedule="H */6 * * *")
    (default,) = schedules_of()
    assert str(spread.cron_schedule).split() == [str(default.cron_schedule).split()[0], "*/6", "*", "*", "*"]
    assert not schedules_of(maintenance_schedule=None)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"maintenance_schedule": "at night"}, "maintenance_schedule.*'at night'.*cron"),
        ({"maintenance_schedule": "H night"}, "maintenance_schedule.*'H night'.*cron"),
        ({"retention_days": 0}, r"retention_days.*\b1\b.*\b0\b"),
        ({"retention_days": 36_501}, r"retention_days.*\b36500\b.*\b36501\b"),
    ],
)
def test_invalid_settings_are_refused(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        build_kinesis_stream("clicks", table="clicks", **wrong)


def test_its_steps_are_recorded_as_an_observation_of_the_raw_table(project, stream, instance, empty_table):
    table, identity = empty_table
    steps = list(run_maintenance(project.definitions, StreamNames(stream), instance, dry_run=False))
    assert [step["step"] for step in steps] == ["checkpoint"]
    assert {step.pop("asset") for step in steps} == {raw_key(stream).to_user_string()}
    assert observed(instance, raw_key(stream)) == steps
    assert table.snapshot().amendment(identity) is None


def test_its_observation_of_the_raw_table_has_the_rows_that_the_asset_page_shows(
    project, stream, instance, empty_table
):
    del empty_table
    list(run_maintenance(project.definitions, StreamNames(stream), instance, dry_run=False))
    (record,) = instance.fetch_observations(raw_key(stream), limit=9).records
    assert record.asset_observation.metadata["dagster/row_count"].value == 0


def test_the_retention_is_committed_with_the_run_id(make_project, stream, instance, empty_table):
    table, identity = empty_table
    project = make_project(retention_days=30)
    (step, _) = run_maintenance(project.definitions, StreamNames(stream), instance, dry_run=False)
    assert step["step"] == "expire"
    amendment = table.snapshot().amendment(identity)
    (run,) = instance.get_runs()
    assert amendment.by == run.run_id
    assert step["of"] == f"before {amendment.floor}"


def test_it_succeeds_before_the_first_run(project, stream, instance, source):
    source.create(1)
    assert list(run_maintenance(project.definitions, StreamNames(stream), instance, dry_run=False)) == []
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.SUCCESS


@pytest.mark.usefixtures("empty_table")
def test_steps_before_a_failure_are_recorded(make_project, stream, instance, monkeypatch):
    def fails(operations):
        raise CommitFailed("t", f"{type(operations).__name__} failed")

    monkeypatch.setattr(DeltaOperations, "checkpoint", fails)
    steps = run_maintenance(
        make_project(retention_days=30).definitions, StreamNames(stream), instance, dry_run=False
    )
    assert next(steps)["step"] == "expire"
    with pytest.raises(CommitFailed, match="DeltaOperations failed"):
        next(steps)
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE


# Derived tables


def table_of(name, source, path, **settings):
    """Return the asset of a derived table."""

    def transform(new):
        return new

    transform.__name__ = name
    return derived_table(source=source, table=str(path), **settings)(transform)


@pytest.fixture
def orders(tmp_path):
    """A derived table with enough small files."""
    orders = PlainDerived(tmp_path / "orders")
    for number in range(DEFAULT_LIMITS.small_files):
        orders.append((number, number, "a"))
    return orders


@pytest.fixture
def copies(tmp_path, orders):
    """A table that is derived from these orders."""
    copies = PlainDerived(tmp_path / "copies", orders.id)
    for number in range(DEFAULT_LIMITS.small_files):
        copies.append((number, number, "b"))
    return copies


@pytest.fixture
def with_derived(project, stream, empty_table, orders, copies, tmp_path):
    """The definitions of the stream, of these tables, and of one that does not exist yet."""
    del empty_table
    assets = [
        table_of("orders", stream, orders.table.uri),
        table_of("copies", stream, copies.table.uri, upstream="orders"),
        table_of("new", stream, tmp_path / "new"),
    ]
    return dg.Definitions.merge(project.definitions, dg.Definitions(assets=assets))


def test_the_derived_tables_of_the_stream_are_maintained_too(with_derived, stream, instance, orders, copies):
    steps = list(run_maintenance(with_derived, StreamNames(stream), instance, dry_run=False))
    assert [(step["asset"], step["step"], step["of"]) for step in steps] == [
        (raw_key(stream).to_user_string(), "checkpoint", "_delta_log"),
        ("copies", "compact", "part=b"),
        ("copies", "checkpoint", "_delta_log"),
        ("orders", "compact", "part=a"),
        ("orders", "checkpoint", "_delta_log"),
    ]
    assert (len(orders.active), len(copies.active)) == (1, 1)


def test_the_steps_of_a_derived_table_are_recorded_as_an_observation_of_its_asset(
    with_derived, stream, instance
):
    steps = list(run_maintenance(with_derived, StreamNames(stream), instance, dry_run=False))
    of_orders = [{**step, "asset": None} for step in steps if step["asset"] == "orders"]
    assert [{**step, "asset": None} for step in observed(instance, dg.AssetKey("orders"))] == of_orders


def test_a_dry_run_changes_no_derived_table(with_derived, stream, instance, orders):
    steps = list(run_maintenance(with_derived, StreamNames(stream), instance, dry_run=True))
    assert {step["asset"] for step in steps} == {"orders", "copies"}
    assert {step["state"] for step in steps} == {"planned"}
    assert len(orders.active) == DEFAULT_LIMITS.small_files


def test_derived_tables_of_another_stream_are_left_alone(with_derived, stream, instance, tmp_path):
    """The code location also has an asset of another kind."""
    other = PlainDerived(tmp_path / "other")

    @dg.op
    def one() -> int:
        return 1

    @dg.graph_asset
    def of_a_graph() -> int:
        return one()

    definitions = dg.Definitions.merge(
        with_derived,
        build_kinesis_stream("another", table=str(tmp_path / "another")),
        dg.Definitions(assets=[table_of("other", "another", other.table.uri), of_a_graph]),
    )
    steps = list(run_maintenance(definitions, StreamNames(stream), instance, dry_run=False))
    assert "other" not in {step["asset"] for step in steps}
    assert other.table.snapshot().delta.version() == 0


def test_a_derived_table_without_an_automation_condition_is_maintained(
    project, stream, instance, empty_table, orders
):
    del empty_table
    asset = table_of("orders", stream, orders.table.uri)
    asset = asset.map_asset_specs(lambda spec: spec.replace_attributes(automation_condition=None))
    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[asset]))
    steps = list(run_maintenance(definitions, StreamNames(stream), instance, dry_run=False))
    assert "compact" in {step["step"] for step in steps if step["asset"] == "orders"}


def test_the_rows_of_a_derived_table_expire_by_its_own_settings(
    project, stream, instance, empty_table, orders
):
    del empty_table
    asset = table_of("orders", stream, orders.table.uri, retention_days=30, retention_column="value")
    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(assets=[asset]))
    with pytest.raises(TableUnsuitable, match="retention_column: value"):
        list(run_maintenance(definitions, StreamNames(stream), instance, dry_run=False))


def test_a_table_that_fails_does_not_stop_the_others(with_derived, stream, instance, orders, copies):
    DeltaTable(copies.table.uri).restore(2)
    steps = run_maintenance(with_derived, StreamNames(stream), instance, dry_run=False)
    with pytest.raises(TableRewritten, match=re.escape(copies.table.uri)):
        list(steps)
    assert len(orders.active) == 1
    (run,) = instance.get_runs()
    assert run.status is dg.DagsterRunStatus.FAILURE


def test_a_raw_table_that_fails_does_not_stop_derived_tables(
    with_derived, stream, instance, orders, copies, monkeypatch
):
    def fails(*_, **__):
        raise CommitFailed("raw", "failed")

    monkeypatch.setattr(raw_maintenance, "claim", fails)
    with pytest.raises(CommitFailed, match="raw"):
        list(run_maintenance(with_derived, StreamNames(stream), instance, dry_run=False))
    assert (len(orders.active), len(copies.active)) == (1, 1)


def test_the_job_names_all_tables_that_failed(with_derived, stream, instance, orders, copies):
    for derived in (orders, copies):
        DeltaTable(derived.table.uri).restore(2)
    with pytest.raises(MaintenanceFailed, match="2 tables") as failed:
        list(run_maintenance(with_derived, StreamNames(stream), instance, dry_run=False))
    assert all(
        text in str(failed.value) for text in ("orders: ", "copies: ", orders.table.uri, copies.table.uri)
    )


def test_the_job_of_a_code_location_finds_its_derived_tables(with_derived, stream, instance, orders):
    definitions = dg.Definitions.merge(with_derived, dg.Definitions(executor=dg.in_process_executor))
    job = RepoBackedJob(StreamNames(stream).job("maintenance"), definitions.get_repository_def())
    core_execute_in_process({}, job, instance, output_capturing_enabled=False, raise_on_error=True)
    assert [step["step"] for step in observed(instance, dg.AssetKey("orders"))] == ["compact", "checkpoint"]
    assert len(orders.active) == 1


def test_a_job_that_is_executed_without_its_code_location_maintains_the_raw_table(
    with_derived, stream, instance, orders
):
    with_derived.resolve_job_def(StreamNames(stream).job("maintenance")).execute_in_process(instance=instance)
    assert [step["step"] for step in observed(instance, raw_key(stream))] == ["checkpoint"]
    assert len(orders.active) == DEFAULT_LIMITS.small_files


@pytest.fixture
def expired(make_project, stream, instance, empty_table, tmp_path):
    """Run the maintenance of old rows that a derived table has not consumed, and return its expiry."""
    table, identity = empty_table
    orders = PlainDerived(tmp_path / "orders", table.snapshot().delta.metadata().id)
    orders.append(cursor=new_rows(table.uri).cursor)
    positions = table.snapshot().positions(identity)
    arrived = datetime.now(UTC) - timedelta(days=33)
    Attempt(table, positions, dict.fromkeys(positions.shards, 2), arrived=arrived.timestamp()).commit()
    assets = dg.Definitions(assets=[table_of("orders", stream, orders.table.uri)])

    def expired(**settings):
        project = make_project(retention_days=30, **settings)
        definitions = dg.Definitions.merge(project.definitions, assets)
        steps = list(run_maintenance(definitions, StreamNames(stream), instance, dry_run=False))
        return [(step["state"], step["rows"]) for step in steps if step["step"] == "expire"]

    return expired


def test_it_waits_for_a_derived_table_that_has_not_consumed_rows(expired):
    assert expired() == [("done", 0), ("left", 0)]
    assert expired(keep_unconsumed_days=1) == [("done", 2), ("left", 0)]


def test_it_keeps_rows_if_the_raw_table_seems_to_be_missing_when_they_are_compared(expired, monkeypatch):
    """A catalog of Iceberg tables, or a proxy in front of it, may answer once that there is no such table."""

    def missing(table):
        raise TableMissing(table.uri, "404")

    monkeypatch.setattr(derived_source, "RawSource", missing)
    assert expired() == [("done", 0), ("left", 0)]
