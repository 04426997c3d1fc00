"""The job that deletes old runs of a stream with their events. No schedule starts it."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.dagster.stream_names import StreamNames, op_key


class PruneHistoryConfig(dg.Config):
    """Which runs are deleted."""

    keep_days: int = Field(
        default=30,
        ge=1,
        description="Days for which runs are kept. Older ones are deleted with their events.",
    )
    max_runs: int = Field(default=1000, ge=1, description="Maximum number of runs to delete, oldest first.")
    dry_run: bool = Field(default=False, description="Only count the runs that would be deleted.")


def build_prune_history_job(names: StreamNames) -> dg.JobDefinition:
    """Build the job that deletes old runs which the stream's sensor requested, see `old_runs`."""
    name, stream = names.prune_history_job, names.stream

    @dg.op(name=op_key(name), out=dg.Out(dg.Nothing), required_resource_keys={names.io_manager_key})
    @shown_as_failures()
    def prune(context: dg.OpExecutionContext, config: PruneHistoryConfig) -> None:
        from kinesis_assets.dagster.jobs.old_runs import delete_runs, old_runs  # noqa: PLC0415  # only its runs read the table

        before = datetime.now(UTC) - timedelta(days=config.keep_days)
        found = old_runs(open_stream(context.resources, names), context.instance, before, config.max_runs)
        deleted = 0 if config.dry_run else delete_runs(context.instance, found)
        context.log.info(
            "%s: %d runs from before %s can be deleted, %d were deleted.", stream, len(found), before, deleted
        )

    @dg.job(
        name=name,
        description=f"Deletes old runs that the sensor of {stream} requested, with their events. Keeps the "
        "newest event of each partition, and what is compared with the table's commits.",
    )
    def job() -> None:
        prune()

    return job
