"""Runs of Dagster that land records in an Iceberg table with Spark, and operations on it."""

from __future__ import annotations

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets import derived_table
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.stream_names import StreamNames
from support.formats import raw_table_in, settings_of, table_of


@pytest.fixture(params=["sql", "glue"])
def iceberg(request, pipeline, tmp_path):
    """The settings of the stream's Iceberg table in a catalog, which the pipeline uses from now on."""
    name = StreamNames.of(pipeline.stream).raw_key.path[-1]
    named = "".join(each if each.isalnum() else "_" for each in name.lower())
    uri = str(tmp_path / "orders")
    if request.param == "sql":
        pipeline.table = table_of("iceberg", uri, name=named)
    else:
        pipeline.table = raw_table_in(request.getfixturevalue("glue_catalog"), uri, name=named)
    return settings_of(pipeline.table)


def test_runs_land_each_record_once_and_a_replay_adds_what_was_lost(pipeline, iceberg):
    pipeline.create(2)
    for item in range(20):
        pipeline.put(item)
    events = pipeline.materialize(**iceberg)
    assert sum(event["rows"] for event in events.values()) == 20
    pipeline.assert_exactly_once()
    pipeline.put(20)
    pipeline.materialize(**iceberg)
    pipeline.assert_exactly_once()
    pipeline.lose(3, 4)
    pipeline.replay()
    pipeline.assert_exactly_once()
    pipeline.assert_rows_equal_positions()


def test_an_asset_consumes_each_row_once_and_its_checks_pass(pipeline, iceberg, tmp_path):
    @derived_table(source=pipeline.stream, table=str(tmp_path / "numbers"))
    def numbers(rows):
        return rows.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number", "arrival_date")

    assets = dg.Definitions(assets=[numbers])
    definitions = dg.Definitions.merge(pipeline.project(**iceberg).definitions, assets)
    project = StreamProject(pipeline.stream, definitions)
    shards = pipeline.create(2)
    for items in ((0, 1, 2), (3,)):
        for item in items:
            pipeline.put(item)
        list(project.materialize(pipeline.instance, shards))
        project.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=pipeline.instance, asset_selection=[dg.AssetKey("numbers")]
        )
    rows = DeltaTable(str(tmp_path / "numbers")).to_pyarrow_table().to_pylist()
    arrivals = [(int(row["data"]), row["approximate_arrival_timestamp"].date()) for row in pipeline.rows]
    assert sorted((row["number"], row["arrival_date"]) for row in rows) == sorted(arrivals)
    assert len(rows) == 4
    keys = [dg.AssetCheckKey(dg.AssetKey("numbers"), name) for name in ("continuity", "lag")]
    found = pipeline.instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert [found[key].evaluation.passed for key in keys] == [True, True]
