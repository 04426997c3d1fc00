"""The step of a continuous run: until its time is over, it lands records and updates derived tables."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from functools import partial
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checks.in_run import DerivedRunChecks, RunChecks
from kinesis_assets.dagster.checks.recorded_checks import ConsumerRecord
from kinesis_assets.dagster.dagster_internals import definition_of, report_events
from kinesis_assets.dagster.derived.derived_events import RunningTotals, metadata_after, report_missing_events
from kinesis_assets.dagster.derived_tables import CheckedTable, Consumption, derived_tables
from kinesis_assets.dagster.events.metadata import shard_events
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.steps.mirrored_leases import lease_mirror_of
from kinesis_assets.dagster.steps.run_log import RunLog
from kinesis_assets.dagster.steps.stream_totals import TotalsEvents, TotalsReport
from kinesis_assets.derive.continuous import ContinuousDerivations
from kinesis_assets.errors import DerivedTablesFailed, ShardsNotCommitted, reason_of
from kinesis_assets.ingest.continuous_run import ContinuousRun, RunTiming
from kinesis_assets.ingest.land import cancel_landing, land
from kinesis_assets.spark.session import cancel_tagged, tagged, wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from kinesis_assets.dagster.events.missing_events import ComparisonProgress
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.derive.commit_entry import DerivedCommit
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
        ShardsNotCommitted: Some shards are failing at the end, and maybe some derived tables.
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

    derivations = _derivations(context, stream, spark)
    mirror = lease_mirror_of(stream, plan.listing, context.log.warning)

    def note_commit() -> None:
        derivations.consume()
        if mirror is not None:
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
            cancel_tagged(spark, _tag_of(context))

        graceful_stop = stream.graceful_stop = GracefulStop(
            stream.settings.stop_timeout, request_stop=request_stop, give_up=give_up
        )
        with graceful_stop.canceling(step):
            with (
                _failed_tables_named(stream, derivations),
                totals_report,
                derivations,
                mirror or nullcontext(),
                wrap_spark_errors(f"stream {stream.name}"),
            ):
                continuous.run(plan)
            if derivations.failures and not graceful_stop.stop_requested:
                # The sensor treats shards that a failed run did not report as failed.
                continuous.report_successes()
                raise DerivedTablesFailed(stream.name, derivations.failures)


@contextmanager
def _failed_tables_named(stream: OpenStream, derivations: ContinuousDerivations) -> Iterator[None]:
    """Add the derived tables that failed to the error of the shards that did."""
    try:
        yield
    except ShardsNotCommitted as error:
        raise ShardsNotCommitted(stream.name, error.errors, derivations.failures) from None


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


def _derivations(
    context: dg.AssetExecutionContext, stream: OpenStream, spark: SparkSession
) -> ContinuousDerivations:
    """Return the derivations of a stream's derived tables that a run includes.

    Each commit is reported as a materialization of the table's asset, and each new error as an observation.
    The checks of the table are reported after commits. The jobs have the tag `_tag_of` of the run.
    """
    step = context.get_step_execution_context()
    tables = _tables_of(context, stream.names)
    unreported = set(tables)  # tables with commits that may have no event
    progress: dict[dg.AssetKey, ComparisonProgress] = {}
    stored = {key: each.open_table(stream) for key, each in tables.items()}
    totals = {key: RunningTotals(table) for key, table in stored.items()}
    checks: dict[dg.AssetKey, DerivedRunChecks] = {}
    for key, each in tables.items():
        table = CheckedTable.of(key, each, definition_of(context, each.upstream), stream)
        checks[key] = DerivedRunChecks(step, table, stream)

    def commits(key: dg.AssetKey, consumption: Consumption) -> Iterator[DerivedCommit]:
        if key in unreported:
            progress[key] = report_missing_events(context, stream, key, stored[key])
            unreported.discard(key)
        tag = _tag_of(context)
        with tagged(spark, tag):  # not while it yields, since other tables take steps in between
            found = consumption.commits(context, key, stream, stored[key], spark)
        while True:
            with tagged(spark, tag):
                commit = next(found, None)
            if commit is None:
                return
            unreported.add(key)
            yield commit  # the caller reports it before it continues
            if progress[key].through == commit.commit_id:  # no other run has committed before it
                unreported.discard(key)

    def report(name: str, commit: DerivedCommit) -> None:
        key = dg.AssetKey.from_user_string(name)
        metadata, after = metadata_after(progress[key], [commit], totals[key].after(commit))
        report_events(step, [dg.AssetMaterialization(key, metadata=metadata)])
        progress[key] = after
        checks[key].report()

    def report_failure(name: str, error: Exception) -> None:
        context.log.error("%s could not consume its source, and tries again: %s", name, reason_of(error))
        key = dg.AssetKey.from_user_string(name)
        facts = {"error": str(error), "error class": type(error).__name__}
        report_events(step, [dg.AssetObservation(key, description=str(error), metadata=facts)])

    return ContinuousDerivations(
        {key.to_user_string(): partial(commits, key, each) for key, each in tables.items()},
        report=report,
        report_failure=report_failure,
    )


def _tables_of(context: dg.AssetExecutionContext, stream: StreamNames) -> dict[dg.AssetKey, Consumption]:
    """Return the derived tables of a stream that a run includes, each one after its source."""
    selected = {key: definition_of(context, key) for key in context.run.asset_selection or ()}
    tables = derived_tables(selected, stream)
    order = TopologicalSorter({key: [each.upstream] for key, each in tables.items()}).static_order()
    return {key: tables[key] for key in order if key in tables}


def _tag_of(context: dg.AssetExecutionContext) -> str:
    """Return the tag of the Spark jobs of a run's derived tables."""
    return f"kinesis-derived-{context.run.run_id}"
