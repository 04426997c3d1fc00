"""Runs register the tables that they have committed, and succeed if they cannot. Glue and S3 are moto's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets import derived_table
from kinesis_assets.dagster.stream_project import StreamProject
from support.catalog_tables import Database
from support.dagster_runs import execute
from support.shard_ids import A

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import DataFrame

    from support.fixtures.dagster import MakeProject, Source


def project_of(project: StreamProject, table: str, database: str, *columns: str) -> StreamProject:
    """Return a stream with the derived table `orders`, which is registered."""

    @derived_table(source=project.stream, table=table, catalog={"database": database})
    def orders(new: DataFrame) -> DataFrame:
        return new.selectExpr(*columns)

    assets = dg.Definitions(assets=[orders])
    return StreamProject(project.stream, dg.Definitions.merge(project.definitions, assets))


def materialize(project: StreamProject, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    job = project.definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("orders")])


def is_registered(instance: dg.DagsterInstance, key: dg.AssetKey) -> bool:
    """Whether the check of a table is green."""
    storage = instance.event_log_storage
    (record,) = storage.get_asset_check_execution_history(dg.AssetCheckKey(key, "catalog"), limit=1)
    assert record.evaluation is not None
    return record.evaluation.passed


def test_runs_register_their_tables_and_columns_that_are_added_later(
    make_project: MakeProject,
    source: Source,
    instance: dg.DagsterInstance,
    moto_lake: str,
    moto: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Database(moto)
    source.create(1)
    source.put(A, 2)
    project = make_project(table=f"{moto_lake}/raw", catalog={"database": database.name, "name": "raw"})
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:9")
    failed = execute(project, instance, A)
    assert failed.success
    assert not is_registered(instance, project.names.raw_key)
    observed = [
        entry.get_dagster_event().asset_observation_data.asset_observation.description
        for entry in instance.all_logs(failed.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION)
    ]
    assert [f"cannot be registered as {database.name}.raw: GetTable failed" in each for each in observed] == [
        True
    ]

    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", moto)
    number = "CAST(CAST(data AS STRING) AS INT) AS number"
    first = project_of(project, f"{moto_lake}/orders", database.name, number)
    assert materialize(first, instance).success
    assert is_registered(instance, dg.AssetKey("orders"))
    assert database.columns("orders") == {"number": "int", "_batch_id": "bigint"}
    source.put(A, 1)
    execute(project, instance, A)
    price = "named_struct('amount', CAST(1 AS DECIMAL(10, 2)), 'notes', map('a', array(X'01'))) AS price"
    second = project_of(project, f"{moto_lake}/orders", database.name, number, price)
    assert materialize(second, instance).success
    assert is_registered(instance, dg.AssetKey("orders"))
    assert database.columns("orders") == {
        "number": "int",
        "_batch_id": "bigint",
        "price": "struct<amount:decimal(10,2),notes:map<string,array<binary>>>",
    }
