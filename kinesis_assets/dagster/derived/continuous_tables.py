"""The derived tables of a continuous run: they consume its commits while it goes on reading."""

from __future__ import annotations

from functools import partial
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checked_table import CheckedTable
from kinesis_assets.dagster.checks.in_run import DerivedRunChecks
from kinesis_assets.dagster.consumption import Consumption, consumption_of
from kinesis_assets.dagster.dagster_internals import definition_of, report_event
from kinesis_assets.dagster.derived.derived_events import RunningTotals, metadata_after, report_missing_events
from kinesis_assets.derive.continuous import ContinuousDerivations
from kinesis_assets.errors import reason_of
from kinesis_assets.spark.session import tagged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kinesis_assets.dagster.events.missing_events import ComparisonProgress
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.derive.commit_entry import DerivedCommit


def continuous_derivations(
    context: dg.AssetExecutionContext, stream: OpenStream, spark: SparkSession
) -> ContinuousDerivations:
    """Return the derivations of a stream's derived tables that a run includes.

    Each commit is reported as a materialization of the table's asset, and each new error as an observation.
    The checks of the table are reported after commits.

    Args:
        spark: The session. The jobs have the tag `tag_of` of the run.
    """
    tables = tables_of(context, stream.names)
    unreported = set(tables)  # tables with commits that may have no event
    progress: dict[dg.AssetKey, ComparisonProgress] = {}
    totals = {key: RunningTotals(each.open_table(stream)) for key, each in tables.items()}
    checks = {key: _checks_of(context, stream, key, each) for key, each in tables.items()}

    def commits(key: dg.AssetKey, consumption: Consumption) -> Iterator[DerivedCommit]:
        if key in unreported:
            progress[key] = report_missing_events(context, stream, key, consumption.open_table(stream))
            unreported.discard(key)
        with tagged(spark, tag_of(context)):
            for commit in consumption.commits(context, key, spark):
                unreported.add(key)
                yield commit  # the caller reports it before it continues
                if progress[key].through == commit.commit_id:  # no other run has committed before it
                    unreported.discard(key)

    def report(name: str, commit: DerivedCommit) -> None:
        key = dg.AssetKey.from_user_string(name)
        metadata, after = metadata_after(progress[key], [commit], totals[key].after(commit))
        report_event(context, dg.AssetMaterialization(key, metadata=metadata))
        progress[key] = after
        checks[key].report()

    def report_failure(name: str, error: Exception) -> None:
        context.log.error("%s could not consume its source, and tries again: %s", name, reason_of(error))
        key = dg.AssetKey.from_user_string(name)
        facts = {"error": str(error), "error class": type(error).__name__}
        event = dg.AssetObservation(key, description=str(error), metadata=facts)
        report_event(context, event)

    return ContinuousDerivations(
        {key.to_user_string(): partial(commits, key, each) for key, each in tables.items()},
        report=report,
        report_failure=report_failure,
    )


def _checks_of(
    context: dg.AssetExecutionContext, stream: OpenStream, key: dg.AssetKey, consumption: Consumption
) -> DerivedRunChecks:
    upstream = definition_of(context, consumption.upstream)
    table = CheckedTable.of(key, consumption, upstream, stream)
    return DerivedRunChecks(context.get_step_execution_context(), table, stream)


def tables_of(context: dg.AssetExecutionContext, stream: StreamNames) -> dict[dg.AssetKey, Consumption]:
    """Return the derived tables of a stream that a run includes, each one after its source."""
    keys = context.run.asset_selection or ()
    found = {key: consumption_of(definition_of(context, key)) for key in keys}
    tables = {key: each for key, each in found.items() if each is not None and each.stream == stream}
    order = TopologicalSorter({key: [each.upstream] for key, each in tables.items()}).static_order()
    return {key: tables[key] for key in order if key in tables}


def tag_of(context: dg.AssetExecutionContext) -> str:
    """Return the tag of the Spark jobs of a run's derived tables."""
    return f"kinesis-derived-{context.run.run_id}"
