"""A typed table of a YAML as a Dagster asset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets import KinesisTableComponent, derived_table
from kinesis_assets.cli.operations import redrive
from kinesis_assets.dagster.jobs.derived_jobs import build_redrive_job
from kinesis_assets.dagster.stream_names import op_key
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.decoders import from_json
from support.dagster_components import dagsters_own_warnings, loaded
from support.dagster_runs import execute, failure_message, plain
from support.mentions import assert_mentions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.any_format

A = "shardId-000000000000"


@pytest.fixture
def orders(project: StreamProject, stream: str, tmp_path: Path):
    """Builds the definitions of the stream with a typed table of its records."""

    def orders(**settings: Any) -> StreamProject:
        attributes = {"name": "orders", "source": stream, "table": str(tmp_path / "orders"), "format": "json"}
        _, table = loaded(KinesisTableComponent, {"order.json": ORDER}, **attributes | settings)
        return StreamProject(stream, dg.Definitions.merge(project.definitions, table))

    return orders


ORDER = '{"properties": {"id": {"type": "integer"}}, "required": ["id"]}'


def materialize(
    project: StreamProject, instance: dg.DagsterInstance, *names: str, raise_on_error: bool = True
) -> dg.ExecuteInProcessResult:
    return project.definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        asset_selection=[dg.AssetKey(name) for name in names],
        raise_on_error=raise_on_error,
    )


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_the_tables_of_a_yaml_are_materialized(orders, kinesis, source, stream, instance, tmp_path):
    project = orders(schema="order.json", on_bad_record="separate", select=["id", "shard_id"])
    source.create(1)
    for data in (b'{"id": 1}', b"{}"):
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey="k")
    execute(project, instance, A)
    materialize(project, instance, "orders", "orders_errors")
    good, bad = (DeltaTable(str(tmp_path / name)).to_pyarrow_table() for name in ("orders", "orders_errors"))
    assert good.select(["id", "shard_id"]).to_pylist() == [{"id": 1, "shard_id": A}]
    assert bad.select(["shard_id", "data", "error"]).to_pylist() == [
        {"shard_id": A, "data": b"{}", "error": "json: Object missing required field `id`"}
    ]


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_the_event_has_the_number_of_bad_records(orders, kinesis, source, stream, instance):
    project = orders(schema="id BIGINT")
    source.create(1)
    for data in (b'{"id": 1}', b"{", b"}"):
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey="k")
    execute(project, instance, A)
    result = materialize(project, instance, "orders")
    (event,) = result.asset_materializations_for_node("orders")
    facts = plain(event.metadata)
    assert (facts["rows"], facts["bad records"], facts["exact"]["commits"]) == (3, 2, 1)


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_refused_records_fail_the_run_with_an_error_of_one_line(orders, source, instance):
    project = orders(schema="id BIGINT", max_bad_share=0.5)
    source.create(1)
    source.put(A, 2)
    execute(project, instance, A)
    result = materialize(project, instance, "orders", raise_on_error=False)
    assert not result.success
    message = failure_message(instance, result)
    assert_mentions(message, "BadRecordsRefused", "2 of 2 records", "max_bad_share", "0.5")


def redriven(
    project: StreamProject, instance: dg.DagsterInstance, asset: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the job that decodes bad records again, and return the metadata of its events."""
    names, assets = project.names, project.definitions.get_repository_def().assets_defs_by_key
    node = op_key(names.job("redrive"))
    result = build_redrive_job(names, assets).execute_in_process(
        instance=instance,
        resources=dict(project.definitions.resources or {}),
        run_config={"ops": {node: {"config": {"asset": asset, "apply": True}}}},
    )
    (event,) = result.asset_materializations_for_node(node)
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    return plain(event.metadata), plain(output.step_output_data.metadata)


@pytest.mark.usefixtures("spark")
def test_bad_records_of_a_function_are_redriven_whatever_their_limit_but_not_rows_that_it_made_bad(
    project, kinesis, source, stream, instance, tmp_path
):
    path = str(tmp_path / "visits")

    def with_visits(kind: str, max_bad_share: float) -> StreamProject:
        @derived_table(source=stream, table=path, max_bad_share=max_bad_share)
        def visits(new):
            rows = from_json(new, f"id INT, amount {kind}").withColumn("amount", F.expr("string(amount)"))
            return rows.withColumn("error", F.expr("IF(id < 0, 'negative', error)"))

        return StreamProject(stream, dg.Definitions.merge(project.definitions, dg.Definitions([visits])))

    source.create(1)
    for data in (b'{"id": 1, "amount": 1}', b'{"id": -2, "amount": 2}', b'{"id": 3, "amount": 3.5}', b"{"):
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey="k")
    first = with_visits("INT", 0.75)
    execute(first, instance, A)
    materialize(first, instance, "visits")
    metadata, _ = redriven(with_visits("DOUBLE", 0.0), instance, "visits")
    assert (metadata["records redriven"], metadata["bad records left"]) == (1, 1)
    rows = DeltaTable(path).to_pyarrow_table().select(["id", "amount", "data"]).to_pylist()
    assert sorted((tuple(row.values()) for row in rows), key=repr) == [
        (-2, "2", None),
        (1, "1", None),
        (3, "3.5", None),
        (None, None, b"{"),
    ]


@dagsters_own_warnings
@pytest.mark.usefixtures("spark")
def test_the_command_plans_and_the_job_redrives_and_the_table_of_errors_follows(
    orders, kinesis, source, stream, instance, tmp_path, monkeypatch
):
    settings = {"on_bad_record": "separate", "select": ["CAST(id AS STRING) AS id"]}
    project = orders(schema="id BIGINT", **settings)
    source.create(1)
    for data in (b'{"id": 1}', b'{"id": "two"}', b"{"):
        kinesis.put_record(StreamName=stream, Data=data, PartitionKey="k")
    execute(project, instance, A)
    materialize(project, instance, "orders", "orders_errors")

    corrected = orders(schema="id STRING", **settings)
    monkeypatch.setattr(StreamProject, "of_folder", lambda *_: corrected)
    done = CliRunner().invoke(redrive, ["--stream", stream, "--asset", "orders", "--by", "ann", "--json"])
    facts = json.loads(done.stdout)
    assert (facts["bad_records"], facts["decoded"], facts["still_bad"], facts["applied"]) == (2, 1, 1, False)
    assert facts["reasons"][0].startswith("1 x json: ")

    metadata, output = redriven(corrected, instance, "orders")
    assert (metadata["rows"], metadata["records redriven"], metadata["bad records left"]) == (1, 1, 1)
    assert output["reasons"].startswith("1 x json: ")
    materialize(corrected, instance, "orders_errors")
    good, bad = (DeltaTable(str(tmp_path / name)).to_pyarrow_table() for name in ("orders", "orders_errors"))
    assert sorted(good["id"].to_pylist()) == ["1", "two"]
    assert bad["data"].to_pylist() == [b"{"]
