"""The step of a bounded run: it executes one plan in one commit (`ingest/run.py`), and reports its events."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checks.in_run import RunChecks
from kinesis_assets.dagster.dagster_internals import add_asset_metadata, report_events, separate_event_times
from kinesis_assets.dagster.events.metadata import event_metadata, shard_events
from kinesis_assets.dagster.graceful_stop import NOTHING_READ, GracefulStop
from kinesis_assets.dagster.steps.mirrored_leases import lease_mirror_of
from kinesis_assets.dagster.steps.run_log import LandingLog, RunLog
from kinesis_assets.dagster.steps.stream_totals import TotalsEvents
from kinesis_assets.errors import ShardsNotCommitted
from kinesis_assets.ingest.land import cancel_landing, land
from kinesis_assets.ingest.outcome import RunTotals, shards_with_news
from kinesis_assets.ingest.run import execute_run
from kinesis_assets.spark.session import wrap_spark_errors
from kinesis_assets.table.run_files.task_files import ProgressFiles, StopMarker

if TYPE_CHECKING:
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.ingest.plan import RunPlan


def run_reporting_all(context: dg.OutputContext, stream: OpenStream, plan: RunPlan) -> None:
    """Run a plan with `execute_run`, and add the metadata of each shard to the materializations of an output.

    Dagster reports a materialization for each partition of the run afterwards. The totals have to follow
    them, see `OpenStream.finish_reports`.

    Raises:
        DagsterExecutionInterruptedError: The run was interrupted. What it had read by then is committed and
            reported, or dropped after `stop_timeout`.
        LandingFailed: The Spark job failed.
        ShardsNotCommitted: Some of the run's shards are neither committed nor finished. The others are
            materialized.
    """
    step = context.step_context
    separate_event_times(step)
    result = _execute(step, context.asset_key, stream, plan)
    metadata = {
        shard_id: event_metadata(stream.name, outcome, result)
        for shard_id, outcome in result.outcomes.items()
    }
    add_asset_metadata(step, context.asset_key, metadata)
    stream.unfinished_reports = partial(_report_stream, step, context.asset_key, stream, plan, result)


def run_reporting_news(context: dg.AssetExecutionContext, stream: OpenStream, plan: RunPlan) -> None:
    """Run a plan with `execute_run`, and report only the shards with news, see `shards_with_news`.

    Call this in the asset's body, which then must not return an output: for an output, Dagster reports a
    materialization of each partition of the run.

    Raises what `run_reporting_all` raises.
    """
    step = context.get_step_execution_context()
    result = _execute(step, context.asset_key, stream, plan)
    if news := shards_with_news(plan, result):
        report_events(step, shard_events(context.asset_key, stream.name, result.only(news)))
        _report_stream(step, context.asset_key, stream, plan, result)


def _execute(step: dg.StepExecutionContext, key: dg.AssetKey, stream: OpenStream, plan: RunPlan) -> RunResult:
    """Run a plan with `execute_run`. If it fails or is stopped, report each shard and the stream.

    Raises what `run_reporting_all` raises.
    """
    # Spark sets its own handler for interrupts, so the session must start before ours is set.
    spark = stream.start_spark()
    graceful_stop = stream.graceful_stop = GracefulStop(
        stream.settings.stop_timeout,
        request_stop=StopMarker(stream.table.folder, plan.batch_id).set,
        give_up=partial(cancel_landing, spark, plan.batch_id),
    )

    def report_all(result: RunResult) -> None:
        if result.outcomes:
            report_events(step, shard_events(key, stream.name, result))
            _report_stream(step, key, stream, plan, result)

    progress = ProgressFiles(stream.table.folder, plan.batch_id)
    mirror = lease_mirror_of(stream, plan.listing, step.log.warning)
    with graceful_stop.canceling(step):
        with (
            mirror or nullcontext(),
            LandingLog(RunLog(step.log.info), progress),
            wrap_spark_errors(f"stream {stream.name}"),
        ):
            result = execute_run(
                partial(land, spark),
                stream.client,
                stream.table,
                plan,
                by=step.run_id,
                tip_refresh=stream.tip_refresh,
            )
            if mirror is not None:
                mirror.note_commit()
        if graceful_stop.stop_requested:
            report_all(result.only_read())
            if not result.only_read().outcomes:
                raise dg.DagsterExecutionInterruptedError(NOTHING_READ)
    if result.errors:
        # Dagster would report all partitions of the run as materialized, or none.
        report_all(result)
        raise ShardsNotCommitted(stream.name, result.errors)
    return result


def _report_stream(
    step: dg.StepExecutionContext, key: dg.AssetKey, stream: OpenStream, plan: RunPlan, result: RunResult
) -> None:
    """Report the totals, and the checks, one of which counts them. The shards were reported before."""
    totals = RunTotals.of(result)
    event = TotalsEvents(key, stream, step.instance, plan.listing.summary).event(totals, totals.failed)
    report_events(step, [event])
    checks = RunChecks(step, stream, plan.listing)
    checks.add(result)
    checks.report_after(result.outcomes, totals.failed)
