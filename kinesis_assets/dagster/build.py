"""Build the Dagster definitions of a stream: its assets, sensor, jobs and I/O manager."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator  # noqa: TC003  # Dagster reads the types of the asset's body
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.checks.definitions import build_checks
from kinesis_assets.dagster.code_location import CheckedSelection, set_catalog
from kinesis_assets.dagster.derived.derived_asset import moves_after_landing
from kinesis_assets.dagster.derived_tables import checked_tables, derived_tables
from kinesis_assets.dagster.events.table_metadata import definition_metadata, kinds_of, raw_columns
from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.io_manager import ShardIOManager
from kinesis_assets.dagster.jobs.derived_jobs import build_rebuild_job, build_redrive_job
from kinesis_assets.dagster.jobs.maintenance import (
    build_maintenance_job,
    build_prune_history_job,
    schedule_of,
)
from kinesis_assets.dagster.jobs.operations import build_catch_up_job, build_replay_job, build_seek_job
from kinesis_assets.dagster.kinesis_resource import KinesisResource
from kinesis_assets.dagster.partition_ranges import continuous_run_seconds, reports_only_news
from kinesis_assets.dagster.settings.asset_settings import policy_of
from kinesis_assets.dagster.settings.catalog_settings import Place
from kinesis_assets.dagster.settings.settings_base import with_arguments_of
from kinesis_assets.dagster.settings.stream_settings import ConnectionSettings, RunSettings, StreamSettings
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.ingest.plan import RunPlan  # noqa: TC001  # as above
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream import StreamAddress

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_START_OF_A_RUN = 30.0
"""Seconds from a tick of the sensor until the run that it requests starts to read."""


@with_arguments_of(StreamSettings)
def build_kinesis_stream(settings: StreamSettings) -> dg.Definitions:
    """Build the definitions that ingest one stream into its table.

    The arguments are the fields of `kinesis_assets.dagster.settings.stream_settings.StreamSettings`: first
    the stream's name or ARN; by name its table, and any other setting. All are described there and in
    docs/reading.md.

    Returns:
        The stream's external asset `kinesis/<stream>`; its raw asset `kinesis/<stream>_raw` with one
        partition for each shard, and its checks; the I/O manager of both; the sensor, which runs by default;
        the sensor of the automation conditions of assets below the raw asset, which does too; the maintenance
        job with its schedule; and the jobs that replay a range, set positions, start a derived table
        again, catch up and delete old runs.

    Raises:
        InvalidInput: An argument is invalid.
    """
    address = StreamAddress.parse(settings.stream)
    names = StreamNames.of(settings.stream, settings.key_prefix)
    region = address.region_name(settings.region_name)
    follow_for = settings.follow_for
    manager = ShardIOManager(
        **settings.of(RunSettings)
        | {
            "start": str(StartPositions.of(settings.start)),
            "handover": 0.0
            if follow_for is None
            else min(settings.sensor_interval_seconds + _START_OF_A_RUN, follow_for / 2),
            "key_prefix": [*names.prefix],
            "kinesis": KinesisResource(**settings.of(ConnectionSettings)),
            "checks": json.dumps(settings.checks, default=str, sort_keys=True),
        }
    ).declare(settings)
    stream, group = address.name, settings.group_name or names.group
    manager_key = names.io_manager_key
    external = dg.AssetSpec(
        names.stream_key,
        partitions_def=names.partitions,
        group_name=group,
        owners=settings.owners,
        tags=settings.tags,
        kinds={"aws", "kinesis"},
        description=f"The Kinesis stream {address}. Each shard is a partition.",
        metadata={} if address.arn is None else {"ARN": address.arn},
    )

    # The backfill policy, which is in beta, makes a range of shards one run.
    with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
        raw_asset = dg.asset(
            key=names.raw_key,
            partitions_def=names.partitions,
            ins={"plan": dg.AssetIn(key=names.stream_key, input_manager_key=manager_key)},
            io_manager_key=manager_key,
            # An output would materialize every partition of the run.
            output_required=False,
            required_resource_keys={manager_key},
            backfill_policy=dg.BackfillPolicy.single_run(),
            group_name=group,
            owners=settings.owners,
            tags=settings.tags,
            kinds=kinds_of(settings.kinds, settings.format),
            description=settings.description
            or f"The unmodified records of {address}, each exactly once, in {settings.table}.",
            metadata=definition_metadata(
                settings.table, settings.format, settings.name_in_catalog(names.raw_key.path[-1])
            )
            | {"dagster/column_schema": raw_columns(settings.format)},
            freshness_policy=policy_of(settings.freshness),
        )

    @raw_asset
    def raw(plan: RunPlan) -> Iterator[dg.Output[RunPlan]]:
        context = dg.AssetExecutionContext.get()
        seconds = None if follow_for is None else continuous_run_seconds(context.run.tags)
        if seconds is not None:
            from kinesis_assets.dagster.steps.continuous_step import run_continuously  # noqa: PLC0415  # loads Spark's jobs

            with shown_as_failures():
                run_continuously(context, open_stream(context.resources, names), plan, seconds)
        elif reports_only_news(context.run.tags):
            from kinesis_assets.dagster.steps.bounded_step import run_reporting_news  # noqa: PLC0415  # as above

            with shown_as_failures():
                run_reporting_news(context, open_stream(context.resources, names), plan)
        else:
            yield dg.Output(plan)  # the I/O manager runs it, see `ShardIOManager.handle_output`
            open_stream(context.resources, names).finish_reports()

    set_catalog(raw, settings.catalog, Place(region, settings.role_arn, settings.profile_name))
    below = dg.AssetSelection.assets(names.raw_key).downstream(include_self=False)

    @dg.sensor(
        name=names.sensor,
        target=below | dg.AssetSelection.assets(raw),
        minimum_interval_seconds=settings.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={manager_key},
        description=f"Lists the shards of {stream} and requests runs over those that can be read, and over "
        "derived tables whose last run failed.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        from kinesis_assets.dagster.sensor.sensor import evaluate  # noqa: PLC0415  # definitions do not read the table

        # A test evaluates the sensor without a repository.
        assets = {} if context.repository_def is None else context.repository_def.assets_defs_by_key
        tables = {key: each.settings.table for key, each in derived_tables(assets, names).items()}
        derived = _tables_after_landing(assets, tables, below)
        opened = open_stream(context.resources, names)
        return evaluate(
            opened,
            context.instance,
            context.cursor,
            derived=derived,
            tables=tables,
            checked=checked_tables(assets, opened),
        )

    automation = dg.AutomationConditionSensorDefinition(
        names.automation,
        target=CheckedSelection(below),
        minimum_interval_seconds=settings.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Requests runs over the assets below {stream}_raw that have an automation condition.",
    )
    checks = build_checks(names, settings.checks_of_stream(settings.checks))
    maintenance = build_maintenance_job(names)
    schedule = settings.maintenance_schedule
    return dg.Definitions(
        assets=[external, raw],
        asset_checks=[] if checks is None else [checks],
        jobs=[
            maintenance,
            build_replay_job(names),
            build_seek_job(names),
            build_rebuild_job(names),
            build_redrive_job(names),
            build_catch_up_job(names),
            build_prune_history_job(names),
        ],
        schedules=[] if schedule is None else [schedule_of(maintenance, schedule)],
        sensors=[sensor, automation],
        resources={manager_key: manager},
    )


def _tables_after_landing(
    definitions: Mapping[dg.AssetKey, dg.AssetsDefinition],
    tables: Collection[dg.AssetKey],
    below: dg.AssetSelection,
) -> list[dg.AssetKey]:
    """Return those of some derived tables that are materialized when their source has new rows."""
    if not tables:
        return []
    selected = below.resolve(list(definitions.values()))
    return [key for key in tables if key in selected and moves_after_landing(definitions[key], key)]
