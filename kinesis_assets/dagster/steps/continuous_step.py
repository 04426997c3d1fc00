"""The step of a continuous run: until its time is over, it lands records and updates derived tables."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from kinesis_assets.dagster.checks.consumer_check import ConsumerRecord
from kinesis_assets.dagster.checks.in_run import RunChecks
from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.derived.continuous_tables import continuous_derivations, tag_of
from kinesis_assets.dagster.events.shard_events import shard_events
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.steps.mirrored_leases import MirroredLeases
from kinesis_assets.dagster.steps.run_log import RunLog
from kinesis_assets.dagster.steps.stream_totals import TotalsEvents, TotalsReport
from kinesis_assets.errors import DerivedTablesFailed
from kinesis_assets.ingest.continuous_run import ContinuousRun, RunTiming
from kinesis_assets.ingest.land import cancel_landing, land
from kinesis_assets.spark.session import cancel_tagged, wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    import dagster as dg
    from pyspark.sql import SparkSession

    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.ingest.outcome import RunResult, RunTotals
    from kinesis_assets.ingest.plan import RunPlan
    from kinesis_assets.ingest.run import Land


def run_continuously(
    context: dg.AssetExecutionContext, stream: OpenStream, plan: RunPlan, seconds: float
) -> None:
    """Land and commit records continuously, and report the events of each commit.

    The derived tables that the run includes consume the commits in another thread.

    Args:
        plan: The plan of the first iteration. Its shards are read until the end of the run.

    Raises:
        DagsterExecutionInterruptedError: The run was interrupted. What it had read by then is committed and
            reported, or dropped after `stop_timeout`.
        DerivedTablesFailed: Some derived tables are failing at the end. All shards are committed.
        LandingFailed: A Spark job failed.
        ShardsNotCommitted: Some shards are failing at the end.
    """
    # Spark sets its own handler for interrupts, so the session must start before ours is set.
    spark = stream.start_spark()
    step = context.get_step_execution_context()
    clock = stream.client.settings.timing.clock
    checks = RunChecks(step, stream, plan.listing, clock.time)
    summary = plan.listing.summary
    totals_events = TotalsEvents(context.asset_key, stream, step.instance, summary, clock.time)
    consumer = stream.settings.consumer
    record = None if consumer is None else ConsumerRecord(stream.table, consumer, clock, context.log.warning)

    def report_stream(totals: RunTotals, failed: AbstractSet[str]) -> None:
        reasons = {} if record is None else record.reasons
        report_events(step, [totals_events.event(totals, failed, by_get_records=reasons)])
        checks.report_after(totals.outcomes, failed)

    totals_report = TotalsReport(report_stream)

    def report(result: RunResult) -> None:
        report_events(step, shard_events(context.asset_key, stream.name, result))
        totals_report.add_reported(result)

    run_log = RunLog(context.log.info, clock=clock.monotonic)

    def note(result: RunResult) -> None:
        run_log.add(result)
        checks.add(result)
        totals_report.add(result)

    derivations = continuous_derivations(context, stream, spark)
    mirror = MirroredLeases(stream, plan.listing, context.log.warning)

    def note_commit() -> None:
        derivations.consume()
        mirror.note_commit()

    with _landing(context, stream, plan, spark, record) as land_ranges:
        continuous = ContinuousRun(
            land_ranges,
            stream.client,
            stream.table,
            stream.policy,
            RunTiming(seconds, stream.settings.commit_interval, stream.handover),
            report=report,
            on_commit=note_commit,
            on_iteration=note,
            by=step.run_id,
        )

        def request_stop() -> None:
            derivations.stop()
            continuous.stop()

        def give_up() -> None:
            if continuous.batch_id is not None:
                cancel_landing(spark, continuous.batch_id)
            cancel_tagged(spark, tag_of(context))

        graceful_stop = stream.graceful_stop = GracefulStop(
            stream.settings.stop_timeout, request_stop=request_stop, give_up=give_up
        )
        with graceful_stop.canceling(step):
            with totals_report, derivations, mirror, wrap_spark_errors(f"stream {stream.name}"):
                continuous.run(plan)
            if derivations.failures and not graceful_stop.stop_requested:
                # The sensor treats shards that a failed run did not report as failed.
                continuous.report_successes()
                raise DerivedTablesFailed(stream.name, derivations.failures)


def _landing(
    context: dg.AssetExecutionContext,
    stream: OpenStream,
    plan: RunPlan,
    spark: SparkSession,
    record: ConsumerRecord | None,
) -> AbstractContextManager[Land]:
    """Return how ranges are landed: by GetRecords, or by the subscriptions of the stream's consumer."""
    in_spark = partial(land, spark)
    if stream.settings.consumer is None or record is None:
        return nullcontext(in_spark)
    from kinesis_assets.ingest.fan_out import landing_by_subscriptions  # noqa: PLC0415  # few runs need it

    return landing_by_subscriptions(
        stream.client,
        stream.settings.consumer,
        plan.listing.summary,
        land=in_spark,
        warn=context.log.warning,
        note=record.note,
    )
