"""Runs report the asset checks, and executing the checks in the UI computes them."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.dagster.partition_ranges import range_tags
from kinesis_assets.dagster.settings.check_settings import SCANNING
from kinesis_assets.errors import LandingFailed
from support.dagster_runs import execute
from support.raw_checks import CHECKS
from support.stream_names import raw_key
from support.two_shards import FIRST

pytestmark = pytest.mark.usefixtures("spark")

ALL = {name for name, _ in CHECKS.defined}


def executions(project, instance):
    keys = [dg.AssetCheckKey(raw_key(project.stream), name) for name in ALL]
    storage = instance.event_log_storage
    return {key.name: record for key, record in storage.get_latest_asset_check_execution_by_key(keys).items()}


def run_checks(project, instance, *names):
    """Execute checks as the UI does, and return whether each passed."""
    keys = {dg.AssetCheckKey(raw_key(project.stream), name) for name in names}
    job = project.definitions.resolve_implicit_global_asset_job_def()
    result = job.get_subset(asset_check_selection=keys).execute_in_process(instance=instance)
    return {each.check_name: each.passed for each in result.get_asset_check_evaluations()}


@pytest.fixture
def ingested(source, project, instance):
    """The project of a stream with five records that a run has written."""
    source.create(1)
    source.put(FIRST, 5)
    [*project.materialize(instance, [FIRST])]
    return project


def test_a_run_reports_the_checks_that_read_no_rows(ingested, instance):
    found = executions(ingested, instance)
    assert found.keys() == ALL - SCANNING
    (record,) = instance.fetch_materializations(raw_key(ingested.stream), limit=1).records
    assert {each.run_id for each in found.values()} == {record.run_id}
    assert all(each.evaluation.passed for each in found.values())
    assert found["bad_records"].evaluation.metadata["records"].value == 5


def test_a_run_without_the_sensor_evaluates_the_checks_again(ingested, instance, source):
    with ingested.open_stream() as opened:
        add_a_file(opened)
    source.put(FIRST, 1)
    [*ingested.materialize(instance, [FIRST])]
    small = executions(ingested, instance)["compaction_debt"].evaluation.metadata["small files"].value
    assert small == 3


def add_a_file(opened):
    """Write the rows of the table to it once more, as another program might."""
    table = DeltaTable(opened.table.folder.uri)
    rows = table.to_pyarrow_table()
    write_deltalake(table, rows.filter(pc.is_valid(rows["shard_id"])), mode="append")


def test_the_checks_can_be_executed(ingested, instance):
    assert run_checks(ingested, instance, *ALL) == dict.fromkeys(ALL, True)


def test_one_check_can_be_executed(ingested, instance):
    assert run_checks(ingested, instance, "continuity") == {"continuity": True}


def test_duplicates_are_found_by_a_scan(ingested, instance):
    with ingested.open_stream() as opened:
        add_a_file(opened)
    assert run_checks(ingested, instance, "no_duplicates") == {"no_duplicates": False}
    found = executions(ingested, instance)["no_duplicates"].evaluation
    assert found.metadata["duplicated records"].value == 5


def test_the_error_card_of_a_scan_that_fails_starts_with_its_sentence(ingested, instance):
    with ingested.open_stream() as opened:
        for file in Path(opened.table.folder.uri.removeprefix("file://")).rglob("*.parquet"):
            file.unlink()
    with pytest.raises(LandingFailed) as caught:
        run_checks(ingested, instance, "no_duplicates")
    assert isinstance(caught.value, dg.Failure)


def test_a_run_that_materializes_rows_skips_the_scan(source, project, instance):
    source.create(1)
    source.put(FIRST, 5)
    result = execute(project, instance, FIRST)  # as the UI does, with all checks
    assert result.success
    assert {each.check_name for each in result.get_asset_check_evaluations()} == ALL - SCANNING


def test_a_named_job_over_the_assets_skips_the_scan(ingested, instance):
    assert executed_by_a_job(ingested, instance, dg.AssetSelection.all()) == ALL - SCANNING


def test_a_named_job_runs_the_scan_that_it_selects(ingested, instance):
    scan = dg.AssetSelection.checks(dg.AssetCheckKey(raw_key(ingested.stream), "no_duplicates"))
    assert executed_by_a_job(ingested, instance, scan) == SCANNING


def test_a_named_job_over_an_asset_runs_the_only_check_that_it_selects(ingested, instance):
    raw = raw_key(ingested.stream)
    scan = dg.AssetSelection.checks(dg.AssetCheckKey(raw, "no_duplicates"))
    selection = dg.AssetSelection.assets(raw).without_checks() | scan
    assert executed_by_a_job(ingested, instance, selection) == SCANNING


def executed_by_a_job(project, instance, selection):
    """Return the names of the checks that a job of the user's own evaluates, whose runs have no selection."""
    job = dg.define_asset_job("nightly", selection)
    definitions = dg.Definitions.merge(project.definitions, dg.Definitions(jobs=[job]))
    result = definitions.resolve_job_def("nightly").execute_in_process(
        instance=instance, tags=range_tags([FIRST])
    )
    assert not result.dagster_run.asset_selection
    return {each.check_name for each in result.get_asset_check_evaluations()}
