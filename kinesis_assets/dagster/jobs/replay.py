"""The job that replays a range behind the positions."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.

from functools import partial
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.dagster_internals import report_events
from kinesis_assets.dagster.events.metadata import replay_metadata
from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from kinesis_assets.errors import ShardsNotCommitted
from kinesis_assets.spark.session import cancel_tagged, tagged, wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.kinesis.reading.range import ShardRange
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


def logged_fill(context: dg.OpExecutionContext, spark: "SparkSession") -> "Fill":
    """Return the function that fills in records in Spark, and logs how far it is."""
    from kinesis_assets.dagster.steps.run_log import LandingLog, RunLog  # noqa: PLC0415  # only its runs need it
    from kinesis_assets.operations.replay.task import fill  # noqa: PLC0415
    from kinesis_assets.table.run_files.task_files import ProgressFiles  # noqa: PLC0415

    def fill_and_log(job: "FillJob", ranges: "Sequence[ShardRange]") -> "FillResult":
        files = ProgressFiles(job.landing.folder, job.landing.batch_id)
        with LandingLog(RunLog(context.log.info), files):
            return fill(spark, job, ranges)

    return fill_and_log


def report_replay(context: dg.OpExecutionContext, names: StreamNames, result: "ReplayResult") -> None:
    """Report a materialization of each shard to which rows were added, and an observation of each other."""
    report_events(context.get_step_execution_context(), _events(names, result))


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
    name, stream = names.replay_job, names.stream

    @dg.op(name=op_key(name), required_resource_keys={names.io_manager_key})
    @shown_as_failures()
    def read_again(context: dg.OpExecutionContext, config: ReplayConfig) -> None:
        from kinesis_assets.operations.replay.outcome import ReplayWindow  # noqa: PLC0415
        from kinesis_assets.operations.replay.run import replay  # noqa: PLC0415  # only its runs need it

        window = ReplayWindow.of(config.start, config.end)
        opened = open_stream(context.resources, names)
        # A missing table, or one of another stream, is an error before anything is started or written.
        opened.table.snapshot().refuse_other_stream(opened.client.describe().identity)
        opened.start_heartbeat(context.get_step_execution_context())
        opened.check_executors()
        spark = opened.start_spark()
        tag = f"kinesis-{context.run_id}"
        # An interrupted replay has nothing to commit, so it stops at once.
        graceful_stop = GracefulStop(0.0, give_up=partial(cancel_tagged, spark, tag))
        with graceful_stop.delayed_interrupts(), wrap_spark_errors(f"stream {stream}"), tagged(spark, tag):
            result = replay(
                logged_fill(context, spark),
                opened.client,
                opened.table,
                window,
                config.shards,
                by=context.run_id,
            )
        report_replay(context, names, result)
        if result.errors:
            raise ShardsNotCommitted(stream, result.errors)

    @dg.job(
        name=name,
        tags={dg.MAX_RUNTIME_SECONDS_TAG: str(MAX_RUNTIME)},
        description=f"Reads a range of {stream} again and adds the rows that the table lacks. It moves no "
        "position and adds no duplicates.",
    )
    def job() -> None:
        read_again()

    return job
