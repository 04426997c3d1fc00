"""The maintenance job of a stream's tables, with its schedule; and the job that deletes old runs."""

# Dagster reads the types of an op's arguments, so annotations must not be strings.
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zlib import crc32

import dagster as dg
from pydantic import Field

from kinesis_assets.dagster.dagster_internals import assets_of_location
from kinesis_assets.dagster.derived_tables import Consumption, derived_tables
from kinesis_assets.dagster.events.metadata import QUIET, events_of, table_metadata, totals_of_raw
from kinesis_assets.dagster.jobs.single_op_job import single_op_job
from kinesis_assets.dagster.stream import OpenStream, open_stream
from kinesis_assets.dagster.stream_names import StreamNames, op_key
from kinesis_assets.errors import (
    InvalidInput,
    KinesisAssetsError,
    MaintenanceFailed,
    TableError,
    TableMissing,
)

if TYPE_CHECKING:
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.derive.policy import Retention
    from kinesis_assets.table.maintenance.retention import Needed
    from kinesis_assets.table.maintenance.steps import Step
    from kinesis_assets.table.raw_table import PositionedTable

STEPS = "steps"
"""The metadata key of the observation for the list of steps."""


class MaintenanceConfig(dg.Config):
    """Whether the steps are performed."""

    dry_run: bool = Field(default=False, description="Only report what would be done.")


def build_maintenance_job(
    names: StreamNames, assets: Mapping[dg.AssetKey, dg.AssetsDefinition] | None = None
) -> dg.JobDefinition:
    """Build the job that performs the due maintenance of a stream's raw table and of its derived tables.

    It reports the steps as an observation of each table's asset. A table that fails does not stop the others.

    Args:
        assets: The assets of the code location. By default those of the one that runs the job.
    """

    @single_op_job(
        names,
        "maintenance",
        f"Maintains the raw table of {names.stream} and its derived tables: compaction, vacuum, log cleanup, "
        "row retention.",
    )
    def job(context: dg.OpExecutionContext, config: MaintenanceConfig) -> None:
        from kinesis_assets.dagster.jobs.clean_up import prune_partitions  # noqa: PLC0415  # only its runs need it

        opened = open_stream(context.resources, names)
        derived = derived_tables(assets_of_location(context) if assets is None else assets, names)
        errors: dict[str, Exception] = {}
        needed = _needed(opened, names, derived)
        raw_steps = _raw_steps(opened, context.run_id, needed, dry_run=config.dry_run)
        partitions = prune_partitions(opened, context.instance, dry_run=config.dry_run)
        due: dict[dg.AssetKey, Iterator[Step]] = {names.raw_key: chain(raw_steps, partitions)}
        due |= {
            key: derived_steps(
                opened, each.open_table(opened), each.settings.retention, dry_run=config.dry_run
            )
            for key, each in derived.items()
        }
        for key, steps in due.items():
            try:
                _report(context, names.stream, key, steps, opened.table if key == names.raw_key else None)
            except Exception as error:  # noqa: BLE001  # it is raised after the other tables
                context.log.error("%s: %s", key.to_user_string(), error)  # noqa: TRY400  # a traceback may have credentials
                errors[key.to_user_string()] = error
        if len(errors) == 1:
            raise next(iter(errors.values()))
        if errors:
            reasons = "; ".join(f"{name}: {error}" for name, error in errors.items())
            reason = f"the maintenance of {len(errors)} tables failed: {reasons}"
            raise MaintenanceFailed(names.stream, reason)

    return job


def _needed(opened: OpenStream, names: StreamNames, derived: Mapping[dg.AssetKey, Consumption]) -> "Needed":
    """Return the rows of the raw table that derived tables have not consumed.

    A table that has not started yet needs none. One that cannot be read may need all, for as long as that is
    allowed.
    """
    from kinesis_assets.derive.new_rows import first_unconsumed_date  # noqa: PLC0415  # its runs alone
    from kinesis_assets.derive.raw_source import RawSource  # noqa: PLC0415  # as above
    from kinesis_assets.table.maintenance.retention import Needed  # noqa: PLC0415  # as above

    if opened.settings.retention_days is None:
        return Needed()
    dates: dict[str, date] = {}
    for key, consumption in derived.items():
        if consumption.upstream != names.raw_key:
            continue
        try:
            snapshot = consumption.open_table(opened).existing()
            newest = None if snapshot is None else snapshot.newest
            if newest is None:
                continue
            source = RawSource(opened.table)  # afterwards, so that it has all it consumed
            found = first_unconsumed_date(source, newest.cursor)
        except TableError:  # also if the raw table seems to be missing, which one response does not prove
            found = date.min
        if found is not None:
            dates[key.to_user_string()] = found
    return Needed(min(dates.values(), default=None), tuple(dates), opened.settings.keep_unconsumed_days)


def _raw_steps(opened: OpenStream, run_id: str, needed: "Needed", *, dry_run: bool) -> "Iterator[Step]":
    from kinesis_assets.table.maintenance.run import maintain  # noqa: PLC0415  # its runs alone

    yield from maintain(
        opened.table,
        opened.client.describe(),
        retention_days=opened.settings.retention_days,
        needed=needed,
        by=run_id,
        dry_run=dry_run,
    )


def derived_steps(
    opened: OpenStream, table: "DerivedTable", retention: "Retention | None" = None, *, dry_run: bool
) -> "Iterator[Step]":
    """Perform the due steps of a derived table, by the time of its stream's service, and yield each.

    Without a retention, no rows expire. Raises as `derive.maintenance.maintain`.
    """
    from kinesis_assets.derive.maintenance import maintain  # noqa: PLC0415  # as above

    service_time = opened.client.describe().service_time
    yield from maintain(table, service_time, retention=retention, dry_run=dry_run)


def _report(
    context: dg.OpExecutionContext,
    stream: str,
    key: dg.AssetKey,
    due: "Iterator[Step]",
    raw: "PositionedTable | None",
) -> None:
    """Perform the steps of a table, and report those that are done, even if a later one fails.

    Args:
        raw: The raw table, whose asset page shows the rows that the last observation has; None for another
            table.
    """
    steps: list[dict[str, Any]] = []
    try:
        for step in due:
            context.log.info("%s: %s", key.to_user_string(), step)
            steps.append({"stream": stream, **asdict(step)})
    except TableMissing:
        context.log.info("%s: the table does not exist yet. Its first run creates it.", key.to_user_string())
    finally:
        rows = {} if raw is None else table_metadata(totals_of_raw(raw))
        context.log_event(dg.AssetObservation(key, metadata={STEPS: dg.MetadataValue.json(steps), **rows}))


def schedule_of(job: dg.JobDefinition, cron: str) -> dg.ScheduleDefinition:
    """Build a job's schedule, which runs by default.

    Args:
        cron: The cron schedule, in UTC. Its minute may be H, for one that follows from the job's name.

    Raises:
        InvalidInput: The cron schedule is invalid.
    """
    minute = crc32(job.name.encode()) % 60
    try:
        return dg.ScheduleDefinition(
            name=f"{job.name}_schedule",
            job=job,
            cron_schedule=f"{minute}{cron.removeprefix('H')}" if cron.startswith("H ") else cron,
            execution_timezone="UTC",
            default_status=dg.DefaultScheduleStatus.RUNNING,
        )
    except dg.DagsterInvalidDefinitionError as error:
        raise InvalidInput(
            f"maintenance_schedule {cron!r} is not a cron schedule such as '0 4 * * *'"
        ) from error


def run_maintenance(
    definitions: dg.Definitions, names: StreamNames, instance: dg.DagsterInstance, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Run a stream's maintenance job in this process.

    Yields:
        The fields of each `Step`, with the stream's name and the key of the table's asset.

    Raises:
        KinesisAssetsError: The job failed. The steps that were yielded are done.
    """
    run_id = str(uuid4())
    name = names.job("maintenance")
    failed: KinesisAssetsError | None = None
    # A run in this process knows no code location.
    assets = definitions.get_repository_def().assets_defs_by_key
    try:
        build_maintenance_job(names, assets).execute_in_process(
            instance=instance,
            run_id=run_id,
            resources=dict(definitions.resources or {}),
            run_config={"ops": {op_key(name): {"config": {"dry_run": dry_run}}}, **QUIET},
        )
    except KinesisAssetsError as error:
        failed = error
    for event in events_of(instance, run_id):
        steps: Any = event.metadata[STEPS].value
        yield from (step_row(names.stream, event.asset_key, step) for step in steps)
    if failed is not None:
        raise failed


def step_row(stream: str, key: dg.AssetKey | None, step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `Step` in their order, which JSON metadata of Dagster does not keep."""
    from kinesis_assets.table.maintenance.steps import Step  # noqa: PLC0415  # as above

    columns = {field.name: step[field.name] for field in fields(Step)}
    return {"stream": stream, "asset": None if key is None else key.to_user_string(), **columns}


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

    @single_op_job(
        names,
        "prune_history",
        f"Deletes old runs that the sensor of {names.stream} requested, with their events. Keeps the newest "
        "event of each partition, and what is compared with the table's commits.",
    )
    def job(context: dg.OpExecutionContext, config: PruneHistoryConfig) -> None:
        from kinesis_assets.dagster.jobs.clean_up import delete_runs, old_runs  # noqa: PLC0415  # only its runs read the table

        before = datetime.now(UTC) - timedelta(days=config.keep_days)
        found = old_runs(open_stream(context.resources, names), context.instance, before, config.max_runs)
        deleted = 0 if config.dry_run else delete_runs(context.instance, found)
        context.log.info(
            "%s: %d runs from before %s can be deleted, %d were deleted.",
            names.stream,
            len(found),
            before,
            deleted,
        )

    return job
