"""Build the Dagster definitions of a stream: its assets, sensor, jobs and I/O manager."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator  # noqa: TC003  # Dagster reads the types of the asset's body
from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.dagster.io_manager import STOP_TIMEOUT, ShardIOManager
from kinesis_assets.dagster.jobs.maintenance import SCHEDULE, build_maintenance_job, schedule_of
from kinesis_assets.dagster.jobs.replay import build_replay_job
from kinesis_assets.dagster.jobs.seek import build_seek_job
from kinesis_assets.dagster.names import io_manager_key, raw_key, sensor_name, shard_partitions, stream_key
from kinesis_assets.dagster.partition_ranges import continuous_run_seconds
from kinesis_assets.dagster.resources import KinesisResource
from kinesis_assets.dagster.stream import open_stream
from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.plan import OnRecreated, RunPlan
from kinesis_assets.ingest.run_timing import COMMIT_INTERVAL
from kinesis_assets.kinesis.data_loss import OnDataLoss
from kinesis_assets.kinesis.limits import MAX_BYTES, MAX_RECORDS, MAX_SECONDS
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream_address import StreamAddress
from kinesis_assets.table.schema import COLUMNS
from kinesis_assets.table.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_RETENTION_DAYS = 36_500

_MIN_COMMIT_INTERVAL = 0.2

_START_OF_A_RUN = 30.0
"""Seconds from a tick of the sensor until the run that it requests starts to read."""


def build_kinesis_stream(
    stream: str,
    *,
    table: str,
    start: str | Mapping[str, str] = "TRIM_HORIZON",
    max_records: int | None = MAX_RECORDS,
    max_bytes: int | None = MAX_BYTES,
    max_seconds: float | None = MAX_SECONDS,
    max_run_records: int | None = None,
    max_run_bytes: int | None = None,
    max_run_seconds: float | None = None,
    max_bad_records: int | None = None,
    on_data_loss: str = OnDataLoss.FAIL,
    on_recreated: str = OnRecreated.FAIL,
    stop_timeout: float = STOP_TIMEOUT,
    follow_for: float | None = None,
    commit_interval: float = COMMIT_INTERVAL,
    region_name: str | None = None,
    endpoint_url: str | None = None,
    profile_name: str | None = None,
    sdk_parser: bool = False,
    spark_config: Mapping[str, Any] | None = None,
    sensor_interval_seconds: int = 30,
    retention_days: int | None = None,
    maintenance_schedule: str | None = SCHEDULE,
) -> dg.Definitions:
    """Build the definitions that ingest one stream into its table.

    Args:
        stream: The stream's name; or its ARN, which may name another account or region. The names of assets
            and jobs contain only the stream's name.
        table: Path or URI (`s3://`, `file://`) of the stream's Delta table. The first run creates it.
        start: Where the first run starts: TRIM_HORIZON, LATEST, AT_TIMESTAMP:2026-01-31T12:00:00Z,
            AT_SEQUENCE_NUMBER:number or AFTER_SEQUENCE_NUMBER:number; or a map of shard ids to such
            positions, with `default` for all other shards; or `file://` and the path of a JSON or YAML file
            with such a map. Later runs continue from the table's positions.
        max_records: Maximum number of records of one shard in a run. None for no limit, here and below.
        max_bytes: Maximum payload bytes of one shard in a run.
        max_seconds: Time limit of one shard: a run requests no further page this many seconds after the
            shard's first record.
        max_run_records: Maximum number of records of all shards in a run.
        max_run_bytes: Maximum payload bytes of all shards in a run.
        max_run_seconds: Time limit of a run: it requests no further page this many seconds after its start.
        max_bad_records: Maximum number of damaged records of one shard in a run. The range ends before the
            next one, and the shard fails. By default damaged records never stop a shard: they land unchanged
            and are marked.
        on_data_loss: What to do if records may have expired unread: `fail` the shard; or `continue` with the
            first available record and record the gap.
        on_recreated: What to do if the stream was deleted and created again: `fail`; or `restart` with the
            new stream in the same table.
        stop_timeout: Seconds in which an interrupted run may commit what it has read. The rest is dropped.
        follow_for: Duration of a run in seconds, for near-real-time ingestion: a run commits new records
            continuously, and the sensor requests the next run shortly before its end. By default a run reads
            the next range of its shards and ends.
        commit_interval: Seconds between the iterations of such a continuous run.
        region_name: As in boto3. By default the AWS SDK's chain applies, here and below.
        endpoint_url: As in boto3.
        profile_name: As in boto3.
        sdk_parser: Whether the AWS SDK requests and parses all records. This is several times slower, and a
            workaround in case the faster path fails.
        spark_config: Settings of the Spark session, such as `{"spark.master": "local[2,4]"}`.
        sensor_interval_seconds: Minimum number of seconds between two ticks of the sensor.
        retention_days: Age in days, by arrival date, after which maintenance permanently deletes rows. By
            default no rows are deleted.
        maintenance_schedule: Cron schedule of the maintenance job, in UTC. None for no schedule.

    Returns:
        The stream's external asset `kinesis/<stream>`; its raw asset `kinesis/<stream>_raw` with one
        partition for each shard; the I/O manager of both; the sensor, which runs by default; the maintenance
        job with its schedule; and the jobs that replay a range and set positions.

    Raises:
        InvalidInput: An argument is invalid.
    """
    address = StreamAddress.parse(stream)
    address.region_name(region_name)
    TableFolder.at(table)
    if stop_timeout < 0:
        raise InvalidInput(f"stop_timeout must be at least 0, not {stop_timeout}")
    if retention_days is not None and not 1 <= retention_days <= _MAX_RETENTION_DAYS:
        raise InvalidInput(f"retention_days must be from 1 to {_MAX_RETENTION_DAYS}, not {retention_days}")
    if follow_for is not None and not 0 < follow_for < float("inf"):
        raise InvalidInput(f"follow_for must be above 0, not {follow_for}")
    if not _MIN_COMMIT_INTERVAL <= commit_interval < float("inf"):
        raise InvalidInput(
            f"commit_interval must be at least {_MIN_COMMIT_INTERVAL}, not {commit_interval}: Kinesis "
            "allows five calls per shard and second"
        )
    manager = ShardIOManager(
        stream=str(address),
        table=table,
        start=str(StartPositions.of(start)),
        max_records=max_records,
        max_bytes=max_bytes,
        max_seconds=max_seconds,
        max_run_records=max_run_records,
        max_run_bytes=max_run_bytes,
        max_run_seconds=max_run_seconds,
        max_bad_records=max_bad_records,
        on_data_loss=on_data_loss,
        on_recreated=on_recreated,
        stop_timeout=stop_timeout,
        retention_days=retention_days,
        follow_for=follow_for,
        commit_interval=commit_interval,
        handover=0.0
        if follow_for is None
        else min(sensor_interval_seconds + _START_OF_A_RUN, follow_for / 2),
        kinesis=KinesisResource(
            region_name=region_name,
            endpoint_url=endpoint_url,
            profile_name=profile_name,
            sdk_parser=sdk_parser,
        ),
        spark_config=dict(spark_config or {}),
    )
    manager.policy()  # raises if a run could not use the settings
    stream = address.name
    partitions = shard_partitions(stream)
    manager_key = io_manager_key(stream)
    external = dg.AssetSpec(
        stream_key(stream),
        partitions_def=partitions,
        group_name=_identifier(stream),
        kinds={"aws", "kinesis"},
        description=f"The Kinesis stream {address}. Each shard is a partition.",
    )

    # The backfill policy, which is in beta, makes a range of shards one run.
    with warnings.catch_warnings(action="ignore", category=dg.BetaWarning):
        raw_asset = dg.asset(
            key=raw_key(stream),
            partitions_def=partitions,
            ins={"plan": dg.AssetIn(key=stream_key(stream), input_manager_key=manager_key)},
            io_manager_key=manager_key,
            # In a continuous run an output would materialize every partition of the run.
            output_required=follow_for is None,
            required_resource_keys={manager_key},
            backfill_policy=dg.BackfillPolicy.single_run(),
            group_name=_identifier(stream),
            kinds={"pyspark", "deltalake"},
            description=f"The unmodified records of {stream}, each exactly once, in {table}.",
            metadata={"dagster/column_schema": _column_schema(), "dagster/uri": TableFolder.at(table).uri},
        )

    @raw_asset
    def raw(plan: RunPlan) -> Iterator[dg.Output[RunPlan]]:
        context = dg.AssetExecutionContext.get()
        seconds = None if follow_for is None else continuous_run_seconds(context.run.tags)
        if seconds is None:
            yield dg.Output(plan)
        else:
            from kinesis_assets.dagster.continuous_step import run_continuously  # noqa: PLC0415  # loads Spark's jobs

            run_continuously(context, open_stream(context.resources, stream), plan, seconds)

    @dg.sensor(
        name=sensor_name(stream),
        target=raw,
        minimum_interval_seconds=sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={manager_key},
        description=f"Lists the shards of {stream} and requests runs over those that can be read.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        from kinesis_assets.dagster.sensor import evaluate  # noqa: PLC0415  # definitions do not read the table

        return evaluate(open_stream(context.resources, stream), context.instance, context.cursor)

    upkeep = build_maintenance_job(stream)
    return dg.Definitions(
        assets=[external, raw],
        jobs=[upkeep, build_replay_job(stream), build_seek_job(stream)],
        schedules=[] if maintenance_schedule is None else [schedule_of(upkeep, maintenance_schedule)],
        sensors=[sensor],
        resources={manager_key: manager},
    )


def _identifier(stream: str) -> str:
    """Replace the characters that Dagster does not allow in a group name."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", stream)


def _column_schema() -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name, column.type, constraints=dg.TableColumnConstraints(nullable=column.nullable)
            )
            for column in COLUMNS
        ]
    )
