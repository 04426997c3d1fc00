"""The job that deletes old runs of a stream with their events. No schedule starts it."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.

from datetime import UTC, datetime, timedelta

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.names import io_manager_key, op_key, raw_key
from kinesis_assets.dagster.stream import open_stream


class PruneHistoryConfig(dg.Config):
    """Which runs are deleted."""

    keep_days: int = Field(
        default=30,
        ge=1,
        description="Days for which runs are kept. Older ones are deleted with their events.",
    )
    max_runs: int = Field(default=1000, ge=1, description="Maximum number of runs to delete, oldest first.")
    dry_run: bool = Field(default=False, description="Only count the runs that would be deleted.")


def prune_history_name(stream: str) -> str:
    """Return the name of the job that prunes a stream's history."""
    return f"{raw_key(stream).to_python_identifier()}_prune_history"


def build_prune_history_job(stream: str) -> dg.JobDefinition:
    """Build the job that deletes old runs which the stream's sensor requested, see `old_runs`."""
    name = prune_history_name(stream)

    @dg.op(name=op_key(name), out=dg.Out(dg.Nothing), required_resource_keys={io_manager_key(stream)})
    @shown_as_failures()
    def prune(context: dg.OpExecutionContext, config: PruneHistoryConfig) -> None:
        from kinesis_assets.dagster.old_runs import delete_runs, old_runs  # noqa: PLC0415  # only its runs read the table

        before = datetime.now(UTC) - timedelta(days=config.keep_days)
        found = old_runs(open_stream(context.resources, stream), context.instance, before, config.max_runs)
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
