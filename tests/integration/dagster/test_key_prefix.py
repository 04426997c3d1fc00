"""Two streams of one name in one code location: runs of each, and of a table that is derived from one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets import build_kinesis_stream, derived_table
from kinesis_assets.dagster.stream_project import StreamProject
from support.shard_ids import A, B
from support.tables import numbers, put_numbers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@pytest.mark.usefixtures("spark")
def test_each_run_reads_its_stream_into_its_table(stream, settings, kinesis, clocked, instance, tmp_path):
    put_numbers(kinesis, stream, 1)
    put_numbers(clocked.kinesis, stream, 9, shards=2)
    endpoints = {"eu": settings.endpoint_url, "us": clocked.settings.endpoint_url}

    @derived_table(source=f"us/{stream}", table=str(tmp_path / "derived"))
    def derived(new: DataFrame) -> DataFrame:
        return new.selectExpr("CAST(CAST(data AS STRING) AS INT) AS number")

    definitions = dg.Definitions.merge(
        *(
            build_kinesis_stream(stream, table=str(tmp_path / name), endpoint_url=url, key_prefix=name)
            for name, url in endpoints.items()
        ),
        dg.Definitions(assets=[derived]),
    )
    eu, us = (StreamProject(stream, definitions, (name,)) for name in endpoints)

    assert [facts["rows"] for facts in eu.materialize(instance, [A])] == [1]
    assert sum(facts["rows"] for facts in us.materialize(instance, [A, B])) == 9
    job = definitions.resolve_implicit_global_asset_job_def()
    job.execute_in_process(instance=instance, asset_selection=[derived.key])

    assert numbers(str(tmp_path / "eu")) == [0]
    assert numbers(str(tmp_path / "us")) == [*range(9)]
    assert DeltaTable(tmp_path / "derived").to_pyarrow_table().num_rows == 9
    assert instance.get_materialized_partitions(eu.names.raw_key) == {A}
    assert instance.get_materialized_partitions(us.names.raw_key) == {A, B}
