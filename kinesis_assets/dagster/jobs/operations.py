"""The jobs that replay a range, set positions, and catch up."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.
from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.events.metadata import replay_metadata, seek_metadata
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.jobs.single_op_job import single_op_job
from kinesis_assets.dagster.partition_ranges import STREAM_TAG
from kinesis_assets.dagster.stream import OpenStream, open_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput, ShardsNotCommitted
from kinesis_assets.kinesis.position import Position
from kinesis_assets.spark.session import cancel_tagged, tagged, wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.kinesis.stream import StreamSummary
    from kinesis_assets.operations.replay.outcome import ReplayResult
    from kinesis_assets.operations.replay.run import Fill
    from kinesis_assets.operations.replay.task import FillJob, FillResult

MAX_RUNTIME = 24 * 3600
"""Seconds. It exceeds the time limit of a replay, because Dagster's limit would discard the whole replay."""


class ReplayConfig(dg.Config):
    """The range to replay."""

    start: str = Field(
        description="Start of the range, inclusive: a time such as 2026-01-31T12:00:00Z; a sequence number, "
        "with exactly one shard; or TRIM_HORIZON, the oldest record that the stream still has."
    )
    end: str = Field(
        default="",
        description="End of the range: a time, exclusive, or a sequence number, inclusive. The default and "
        "the maximum is the committed position.",
    )
    shards: list[str] = Field(default=[], description="Shard ids. All shards by default.")


def started(
    context: dg.OpExecutionContext, names: StreamNames
) -> "tuple[OpenStream, StreamSummary, SparkSession]":
    """Open a stream and start Spark. A missing table, or one of another stream, is an error before that."""
    opened = open_stream(context.resources, names)
    summary = opened.client.describe()
    opened.table.snapshot().refuse_other_stream(summary.identity)
    opened.start_heartbeat(context.get_step_execution_context())
    opened.check_executors()
    return opened, summary, opened.start_spark()


@contextmanager
def filling(context: dg.OpExecutionContext, names: StreamNames, spark: "SparkSession") -> "Iterator[Fill]":
    """Return the function that fills in records in Spark, and logs how far it is.

    If the run is interrupted within the context, it stops at once: there is nothing to commit.
    """
    from kinesis_assets.dagster.steps.run_log import LandingLog, RunLog  # noqa: PLC0415  # only its runs need it
    from kinesis_assets.operations.replay.task import fill  # noqa: PLC0415
    from kinesis_assets.table.run_files.task_files import ProgressFiles  # noqa: PLC0415

    def fill_and_log(job: "FillJob", ranges: "Sequence[ShardRange]") -> "FillResult":
        files = ProgressFiles(job.landing.folder, job.landing.batch_id)
        with LandingLog(RunLog(context.log.info), files):
            return fill(spark, job, ranges)

    tag = f"kinesis-{context.run_id}"
    graceful_stop = GracefulStop(0.0, give_up=partial(cancel_tagged, spark, tag))
    with graceful_stop.delayed_interrupts(), wrap_spark_errors(f"stream {names.stream}"), tagged(spark, tag):
        yield fill_and_log


def report_replay(
    context: dg.OpExecutionContext, opened: OpenStream, summary: "StreamSummary", result: "ReplayResult"
) -> None:
    """Report a materialization of each shard to which rows were added, and an observation of each other.

    If rows were added, the event of the stream as a whole follows, because the asset's page shows the latest.
    """
    from kinesis_assets.dagster.steps.stream_totals import TotalsEvents  # noqa: PLC0415  # only its runs need it

    step, names = context.get_step_execution_context(), opened.names
    report_events(step, _events(names, result))
    if any(outcome.rows for outcome in result.outcomes.values()):
        report_events(step, [TotalsEvents(names.raw_key, opened, step.instance, summary).event(None)])


def _events(
    names: StreamNames, result: "ReplayResult"
) -> "Iterator[dg.AssetMaterialization | dg.AssetObservation]":
    for shard_id, outcome in result.outcomes.items():
        event = dg.AssetMaterialization if outcome.rows else dg.AssetObservation
        metadata = replay_metadata(names.stream, outcome, result)
        reason = None if outcome.error is None else str(outcome.error)
        yield event(names.raw_key, partition=shard_id, description=reason, metadata=metadata)


def build_replay_job(names: StreamNames) -> dg.JobDefinition:
    """Build the job that reads a range of a stream again and adds the rows that the table lacks.

    The job materializes each shard for which it added rows, and records an observation for each other shard.
    """

    @single_op_job(
        names,
        "replay",
        f"Reads a range of {names.stream} again and adds the rows that the table lacks. It moves no position "
        "and adds no duplicates.",
        tags={dg.MAX_RUNTIME_SECONDS_TAG: str(MAX_RUNTIME), STREAM_TAG: names.partitions_name},
    )
    def job(context: dg.OpExecutionContext, config: ReplayConfig) -> None:
        from kinesis_assets.operations.replay.plan import ReplayWindow  # noqa: PLC0415
        from kinesis_assets.operations.replay.run import replay  # noqa: PLC0415  # only its runs need it

        window = ReplayWindow.of(config.start, config.end)
        opened, summary, spark = started(context, names)
        with filling(context, names, spark) as fill:
            result = replay(fill, opened.client, opened.table, window, config.shards, by=context.run_id)
        report_replay(context, opened, summary, result)
        if result.errors:
            raise ShardsNotCommitted(names.stream, result.errors)

    return job


class SeekConfig(dg.Config):
    """The new position, and the shards to set."""

    to: str = Field(
        description="A position, as in `start`, such as TRIM_HORIZON or AT_TIMESTAMP:2026-01-31T12:00:00Z."
    )
    shards: list[str] = Field(default=[], description="Shard ids.")
    all_shards: bool = Field(
        default=False, description="Set every shard that can have the position, instead of naming shards."
    )
    apply: bool = Field(default=False, description="Apply the change. Without it, only report the plan.")


def report_moves(context: dg.OpExecutionContext, names: StreamNames, facts: Sequence[dict[str, Any]]) -> None:
    """Log what `facts_of_moves` returns of each shard, and record an observation of each that was moved."""
    for shard in facts:
        context.log.info(", ".join(f"{key}: {value}" for key, value in shard.items()))
    report_events(
        context.get_step_execution_context(),
        (
            dg.AssetObservation(names.raw_key, partition=shard["shard"], metadata=seek_metadata(shard))
            for shard in facts
            if shard["applied"]
        ),
    )


def build_seek_job(names: StreamNames) -> dg.JobDefinition:
    """Build the job that sets the positions of a stream's shards. The positions record the run's id.

    The run's log and its output metadata report each shard's change. Applied changes are also recorded as
    observations of the raw asset.
    """

    @single_op_job(
        names,
        "seek",
        f"Sets positions of {names.stream}: forward, which records the gap, or back, which deletes the rows "
        "after the new position. Without apply it only reports the plan.",
    )
    def job(context: dg.OpExecutionContext, config: SeekConfig) -> None:
        from kinesis_assets.operations.seek.run import facts_of_moves, seek  # noqa: PLC0415  # only its runs need it

        if config.all_shards == bool(config.shards):
            raise InvalidInput("give either shards or all_shards")
        opened = open_stream(context.resources, names)
        result = seek(
            opened.client,
            opened.table,
            to=Position.parse(config.to),
            shard_ids=None if config.all_shards else config.shards,
            by=context.run_id,
            apply=config.apply,
        )
        facts = facts_of_moves(result)
        report_moves(context, names, facts)
        if not config.apply:
            context.log.info("Nothing was changed. Set apply to apply the change.")
        context.add_output_metadata({"applied": result.applied, "shards": dg.MetadataValue.json(facts)})

    return job


class CatchUpConfig(dg.Config):
    """The shards to move, and the requester."""

    shards: list[str] = Field(default=[], description="Shard ids. All shards by default.")
    by: str = Field(default="", description="Name recorded with the positions. The run's id by default.")


def build_catch_up_job(names: StreamNames) -> dg.JobDefinition:
    """Build the job that moves shards to their newest records, and then adds the records in between.

    It records an observation of each shard that was moved, and then the events of a replay.
    """

    @single_op_job(
        names,
        "catch_up",
        f"Moves the positions of {names.stream} to the newest records, and then adds the records in between. "
        "If it is interrupted, its next run continues.",
        tags={dg.MAX_RUNTIME_SECONDS_TAG: str(MAX_RUNTIME)},
    )
    def job(context: dg.OpExecutionContext, config: CatchUpConfig) -> None:
        from kinesis_assets.operations.catch_up import backfill, jump  # noqa: PLC0415  # only its runs need it
        from kinesis_assets.operations.seek.run import facts_of_moves  # noqa: PLC0415

        # First, so that an executor or a Spark that fails leaves the positions as they are.
        opened, summary, spark = started(context, names)
        by = config.by or context.run_id
        moved = jump(opened.client, opened.table, config.shards, by=by, apply=True)
        report_moves(context, names, facts_of_moves(moved))
        # The next catch-up reads a step that was not committed again.
        with filling(context, names, spark) as fill:
            errors = backfill(
                fill,
                opened.client,
                opened.table,
                config.shards,
                report=partial(report_replay, context, opened, summary),
                by=context.run_id,
            )
        if errors:
            raise ShardsNotCommitted(names.stream, errors)

    return job
