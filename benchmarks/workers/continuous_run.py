"""A continuous run in a process of its own.

    python -m benchmarks.workers.continuous_run ENDPOINT STREAM TABLE HOME SECONDS CONSUMER [TYPED_TABLE]

CONSUMER is empty for a run without a consumer. With TYPED_TABLE, the run also updates a typed table of the
records, `{"number": 1}`.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import dagster as dg

from benchmarks.harness.single_process import REGION
from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.derived.derived_asset import derived_table
from kinesis_assets.dagster.events.metadata import QUIET
from kinesis_assets.dagster.partition_ranges import continuous_run_tags
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.dagster.stream_project import StreamProject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def typed_table(stream: str, table: str) -> dg.AssetsDefinition:
    """Return the asset of the typed table."""

    @derived_table(source=stream, table=table)
    def typed(new: DataFrame) -> DataFrame:
        from kinesis_assets.decoders import from_json  # noqa: PLC0415  # loads PySpark

        return from_json(new, "number BIGINT")

    return typed


def main(endpoint: str, stream: str, table: str, home: str, *more: str) -> None:
    """Run all shards, as the sensor would request it."""
    seconds, consumer, *typed_tables = more
    assets = [typed_table(stream, each) for each in typed_tables]
    ingestion = build_kinesis_stream(
        stream,
        table=table,
        endpoint_url=endpoint,
        region_name=REGION,
        follow_for=float(seconds),
        consumer=consumer or None,
    )
    definitions = dg.Definitions.merge(ingestion, dg.Definitions(assets=assets))
    project = StreamProject(stream, definitions)
    with dg.DagsterInstance.local_temp(home) as instance, project.open_stream() as opened:
        shards = list(opened.listed_shards().shards)
        instance.add_dynamic_partitions(StreamNames(stream).partitions_name, shards)
        with suppress(dg.DagsterExecutionInterruptedError):  # the benchmark stops it
            definitions.resolve_implicit_global_asset_job_def().execute_in_process(
                instance=instance,
                tags=continuous_run_tags(shards, float(seconds), 0.0),
                asset_selection=[StreamNames(stream).raw_key, *(asset.key for asset in assets)],
                run_config=QUIET,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
