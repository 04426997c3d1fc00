"""The maintenance job of a stream's table, and its schedule."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any
from uuid import uuid4

import dagster as dg

from kinesis_assets.dagster.names import io_manager_key, op_key, raw_key
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.errors import InvalidInput, KinesisAssetsError, TableMissing

STEPS = "steps"
"""The metadata key of the observation for the list of steps."""

_DRY_RUN = dg.Field(bool, default_value=False, description="Only report what would be done.")


def maintenance_name(stream: str) -> str:
    """Return the name of a stream's maintenance job."""
    return f"{raw_key(stream).to_python_identifier()}_maintenance"


def build_maintenance_job(stream: str) -> dg.JobDefinition:
    """Build the job that performs the due maintenance and reports it as an observation of the raw asset."""
    name = maintenance_name(stream)

    @dg.op(
        name=op_key(name),
        out=dg.Out(dg.Nothing),
        required_resource_keys={io_manager_key(stream)},
        config_schema={"dry_run": _DRY_RUN},
    )
    def keep(context: dg.OpExecutionContext) -> None:
        from kinesis_assets.table.maintenance.run import maintain  # noqa: PLC0415  # its runs alone

        opened = open_stream(context.resources, stream)
        steps: list[dict[str, Any]] = []
        try:
            for step in maintain(
                opened.table,
                opened.client.describe(),
                retention_days=opened.settings.retention_days,
                by=context.run_id,
                dry_run=context.op_config["dry_run"],
            ):
                context.log.info(str(step))
                steps.append({"stream": stream, **asdict(step)})
        except TableMissing:
            context.log.info("The table does not exist yet. The first run of the stream creates it.")
        finally:  # completed steps are reported even if a later one fails
            context.log_event(
                dg.AssetObservation(raw_key(stream), metadata={STEPS: dg.MetadataValue.json(steps)})
            )

    @dg.job(
        name=name,
        description=f"Maintains the raw table of {stream}: compaction, vacuum, log cleanup, row retention.",
    )
    def job() -> None:
        keep()

    return job


def schedule_of(job: dg.JobDefinition, cron: str) -> dg.ScheduleDefinition:
    """Build a job's schedule, which runs by default.

    Args:
        job: The job.
        cron: The cron schedule, in UTC.

    Raises:
        InvalidInput: The cron schedule is invalid.
    """
    try:
        return dg.ScheduleDefinition(
            name=f"{job.name}_schedule",
            job=job,
            cron_schedule=cron,
            execution_timezone="UTC",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidInput(
            f"maintenance_schedule {cron!r} is not a cron schedule such as '0 4 * * *'"
        ) from error


def run_maintenance(
    definitions: dg.Definitions, stream: str, instance: dg.DagsterInstance, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Run a stream's maintenance job in this process.

    Args:
        definitions: The definitions that contain the stream.
        stream: The stream's name.
        instance: The instance that stores the run.
        dry_run: Whether to report the steps only, without performing them.

    Yields:
        The fields of each `Step`, with the stream's name.

    Raises:
        KinesisAssetsError: The job failed. The steps that were yielded are done.
    """
    from kinesis_assets.table.maintenance.steps import Step  # noqa: PLC0415  # see above

    run_id = str(uuid4())
    name = maintenance_name(stream)
    failed: KinesisAssetsError | None = None
    try:
        definitions.resolve_job_def(name).execute_in_process(
            instance=instance,
            run_id=run_id,
            run_config={
                "ops": {op_key(name): {"config": {"dry_run": dry_run}}},
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
        )
    except KinesisAssetsError as error:
        failed = error
    found = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION).records
    # Dagster sorts the keys of JSON metadata.
    columns = ("stream", *(field.name for field in fields(Step)))
    for record in found:
        observation = record.event_log_entry.asset_observation
        steps: Any = observation.metadata[STEPS].value if observation else ()
        yield from ({name: step[name] for name in columns} for step in steps)
    if failed is not None:
        raise failed
