"""Runs of Dagster that land records in an Iceberg table with Spark, and operations on it."""

from __future__ import annotations

from functools import partial

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets import KinesisTableComponent, derived_table, rollup
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.derive.derived_table import DerivedTable
from support.dagster_components import dagsters_own_warnings, loaded
from support.formats import (
    derived_iceberg,
    derived_in,
    derived_rows,
    derived_settings_in,
    raw_table_in,
    settings_of,
    table_of,
)


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


@pytest.fixture
def format_of(request, iceberg, tmp_path):
    """Returns the format of a derived table with a name, in a catalog of the type of the raw table's."""
    if iceberg["catalog"]["type"] == "sql":
        return lambda name: derived_iceberg(str(tmp_path / name))
    return partial(derived_in, request.getfixturevalue("glue_catalog"))


@dagsters_own_warnings
def test_typed_tables_in_iceberg_have_each_record_once_and_their_checks_pass(
    pipeline, iceberg, format_of, tmp_path
):
    attributes = {"name": "typed", "source": pipeline.stream, "table": str(tmp_path / "typed")}
    attributes |= derived_settings_in(format_of("typed"))
    of_counts = derived_settings_in(format_of("counts"))
    _, table = loaded(
        KinesisTableComponent, format="json", schema="id BIGINT", on_bad_record="separate", **attributes
    )

    @rollup(source=pipeline.stream, upstream="typed", table=str(tmp_path / "counts"), by=["id"], **of_counts)
    def counts(rows):
        return rows.groupBy("id").count()

    definitions = dg.Definitions.merge(
        pipeline.project(**iceberg).definitions, table, dg.Definitions(assets=[counts])
    )
    project = StreamProject(pipeline.stream, definitions)
    job = project.definitions.resolve_implicit_global_asset_job_def()
    shards = pipeline.create(2)
    names = ["typed", "typed_errors", "counts"]
    for payloads in ((b'{"id": 1}', b"{}x"), (b'{"id": 1}', b'{"id": 2}', b"x")):
        for payload in payloads:
            pipeline.put(payload)
        list(project.materialize(pipeline.instance, shards))
        keys = [dg.AssetKey(name) for name in names]
        assert job.execute_in_process(instance=pipeline.instance, asset_selection=keys).success
    tables = {name: DerivedTable(str(tmp_path / name), format=format_of(name)) for name in names}
    rows = {name: derived_rows(table).to_pylist() for name, table in tables.items()}
    assert sorted(row["id"] for row in rows["typed"]) == [1, 1, 2]
    assert sorted(row["data"] for row in rows["typed_errors"]) == [b"x", b"{}x"]
    assert {(row["id"], row["count"]) for row in rows["counts"]} == {(1, 2), (2, 1)}
    found = pipeline.instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(dg.AssetKey(name), check) for name in names for check in ("continuity", "lag")]
    )
    assert {each.evaluation.passed for each in found.values()} == {True}


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
