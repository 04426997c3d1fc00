"""The job that continues with the newest records, and adds the skipped ones."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.

from functools import partial

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.jobs.replay import MAX_RUNTIME, logged_fill, report_replay
from kinesis_assets.dagster.jobs.seek import report_moves
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from kinesis_assets.errors import ShardsNotCommitted
from kinesis_assets.spark.session import cancel_tagged, tagged, wrap_spark_errors


class CatchUpConfig(dg.Config):
    """The shards to move, and the requester."""

    shards: list[str] = Field(default=[], description="Shard ids. All shards by default.")
    by: str = Field(default="", description="Name recorded with the positions. The run's id by default.")


def build_catch_up_job(names: StreamNames) -> dg.JobDefinition:
    """Build the job that moves shards to their newest records, and then adds the records in between.

    It records an observation of each shard that was moved, and then the events of a replay.
    """
    name, stream = names.catch_up_job, names.stream

    @dg.op(name=op_key(name), required_resource_keys={names.io_manager_key})
    @shown_as_failures()
    def catch_up(context: dg.OpExecutionContext, config: CatchUpConfig) -> None:
        from kinesis_assets.operations.catch_up import backfill, jump  # noqa: PLC0415  # only its runs need it
        from kinesis_assets.operations.seek.run import facts_of_moves  # noqa: PLC0415

        opened = open_stream(context.resources, names)
        opened.table.snapshot().refuse_other_stream(opened.client.describe().identity)
        opened.start_heartbeat(context.get_step_execution_context())
        # An error of these comes before the jump.
        opened.check_executors()
        spark = opened.start_spark()
        by = config.by or context.run_id
        moved = jump(opened.client, opened.table, config.shards, by=by, apply=True)
        report_moves(context, names, facts_of_moves(moved))
        tag = f"kinesis-{context.run_id}"
        # As for a replay: the step that was not committed is read again by the next catch-up.
        graceful_stop = GracefulStop(0.0, give_up=partial(cancel_tagged, spark, tag))
        with graceful_stop.delayed_interrupts(), wrap_spark_errors(f"stream {stream}"), tagged(spark, tag):
            errors = backfill(
                logged_fill(context, spark),
                opened.client,
                opened.table,
                config.shards,
                report=partial(report_replay, context, names),
                by=context.run_id,
            )
        if errors:
            raise ShardsNotCommitted(stream, errors)

    @dg.job(
        name=name,
        tags={dg.MAX_RUNTIME_SECONDS_TAG: str(MAX_RUNTIME)},
        description=f"Moves the positions of {stream} to the newest records, and then adds the records in "
        "between. If it is interrupted, its next run continues.",
    )
    def job() -> None:
        catch_up()

    return job
