"""The maintenance of a stream's table as a Dagster job, and its schedule."""

# Dagster looks at the types of an op's arguments, so they must not be text.
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import dagster as dg

from kinesis_assets.dagster.names import io_manager_key, op_key, raw_key
from kinesis_assets.errors import InvalidInput, KinesisAssetsError, TableMissing

if TYPE_CHECKING:
    from kinesis_assets.dagster.io_manager import ShardIOManager

SCHEDULE = "17 3 * * *"
"""Cron, UTC: once a day, when the day before is over and its stragglers have landed."""

STEPS = "steps"
"""The metadata of the observation that holds what was done."""

_DRY_RUN = dg.Field(bool, default_value=False, description="Only tell what would be done.")


def maintenance_name(stream: str) -> str:
    """The job of a stream's table."""
    return f"{raw_key(stream).to_python_identifier()}_maintenance"


def build_maintenance_job(stream: str) -> dg.JobDefinition:
    """The job that does what is due, and tells it as an observation of the raw asset."""
    manager_key = io_manager_key(stream)
    name = maintenance_name(stream)

    @dg.op(
        name=op_key(name),
        out=dg.Out(dg.Nothing),
        required_resource_keys={manager_key},
        config_schema={"dry_run": _DRY_RUN},
    )
    def keep(context: dg.OpExecutionContext) -> None:
        from kinesis_assets.table.maintenance.run import maintain  # noqa: PLC0415  # its runs alone

        manager: ShardIOManager = getattr(context.resources, manager_key)
        steps: list[dict[str, Any]] = []
        try:
            for step in maintain(
                manager.positioned_table(),
                manager.client().describe(),
                retention_days=manager.retention_days,
                by=context.run_id,
                dry_run=context.op_config["dry_run"],
            ):
                context.log.info(str(step))
                steps.append({"stream": stream, **asdict(step)})
        except TableMissing:
            context.log.info("There is no table yet; the first run of the stream creates it.")
        finally:  # what was done is told, whatever came after it
            context.log_event(
                dg.AssetObservation(raw_key(stream), metadata={STEPS: dg.MetadataValue.json(steps)})
            )

    @dg.job(
        name=name,
        description=f"Keeps the raw table of {stream} quick and small: compaction, vacuum, log, old rows.",
    )
    def job() -> None:
        keep()

    return job


def schedule_of(job: dg.JobDefinition, cron: str) -> dg.ScheduleDefinition:
    """When a job is due, running by default.

    Raises:
        InvalidInput: It is no cron schedule.
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
            f"maintenance_schedule {cron!r} is no cron schedule, as {SCHEDULE!r} is"
        ) from error


def run_maintenance(
    definitions: dg.Definitions, stream: str, instance: dg.DagsterInstance, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Run a stream's job in this process.

    Yields:
        Each `Step`, with the stream.

    Raises:
        KinesisAssetsError: The job failed; what was yielded is done.
    """
    from kinesis_assets.table.maintenance.steps import Step  # noqa: PLC0415  # as above

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
    # Dagster keeps them in the order of the alphabet.
    columns = ("stream", *(field.name for field in fields(Step)))
    for record in found:
        told = record.event_log_entry.asset_observation
        steps: Any = told.metadata[STEPS].value if told else ()
        yield from ({name: step[name] for name in columns} for step in steps)
    if failed is not None:
        raise failed
