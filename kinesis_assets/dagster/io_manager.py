"""The I/O manager of a stream: `load_input` plans ranges, and `handle_output` lands and commits them."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg
from pydantic import Field, PrivateAttr

from kinesis_assets.dagster.dagster_internals import add_asset_metadata
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.metadata import event_metadata
from kinesis_assets.dagster.names import stream_key
from kinesis_assets.dagster.resources import KinesisResource
from kinesis_assets.dagster.shard_events import shard_events
from kinesis_assets.dagster.stream import OpenStream
from kinesis_assets.errors import InvalidInput, ShardsNotCommitted
from kinesis_assets.ingest.plan import OnRecreated, ReadPolicy, RunPlan, plan_run
from kinesis_assets.ingest.run_timing import COMMIT_INTERVAL
from kinesis_assets.kinesis.data_loss import OnDataLoss
from kinesis_assets.kinesis.limits import MAX_BYTES, MAX_RECORDS, MAX_SECONDS, Allowance, Bounds
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream_address import StreamAddress
from kinesis_assets.spark.session import wrap_spark_errors

if TYPE_CHECKING:
    from kinesis_assets.ingest.outcome import RunResult

_Choice = TypeVar("_Choice", bound=StrEnum)

STOP_TIMEOUT = 60.0
"""Seconds. It must be less than Dagster's `cancel_timeout_seconds`, which is 180 by default."""


class ShardIOManager(dg.ConfigurableIOManager):
    """Lands the shards of one stream in its table.

    Loading the stream's asset returns a `RunPlan` for the run's partitions. Storing a `RunPlan` executes it
    in one commit. It then reports an AssetMaterialization for each shard that is committed or finished, and
    an AssetObservation for each other shard.

    Attributes:
        stream: The stream's name. If an ARN is given, the name is taken from it.
        stream_arn: The stream's ARN, if an ARN was given.
        table: Path or URI of the stream's table.
        start: The start positions of the stream's first plan, in the format of `StartPositions.of`.
        max_records: Limit of each shard's range, see `Bounds`.
        max_bytes: Limit of each shard's range, see `Bounds`.
        max_seconds: Limit of each shard's range, see `Bounds`.
        max_run_records: Limit of all ranges of a run together, see `Allowance`.
        max_run_bytes: Limit of all ranges of a run together, see `Allowance`.
        max_run_seconds: Limit of all ranges of a run together, see `Allowance`.
        max_bad_records: See `ReadPolicy`.
        on_data_loss: See `OnDataLoss`.
        on_recreated: See `OnRecreated`.
        stop_timeout: Seconds in which an interrupted run may commit what it has read.
        retention_days: Age in days after which maintenance deletes rows; None to keep all rows.
        follow_for: Duration in seconds of the continuous runs that the sensor requests; None for runs that
            read one range.
        commit_interval: Seconds between the iterations of a continuous run, see `RunTiming`.
        handover: Seconds before the end of a continuous run in which the next one may take over, see
            `RunTiming`.
        kinesis: The connection to Kinesis.
        spark_config: Settings of the Spark session that lands the records.
    """

    stream: str
    stream_arn: str | None = None
    table: str
    start: str = "TRIM_HORIZON"
    max_records: int | None = MAX_RECORDS
    max_bytes: int | None = MAX_BYTES
    max_seconds: float | None = MAX_SECONDS
    max_run_records: int | None = None
    max_run_bytes: int | None = None
    max_run_seconds: float | None = None
    max_bad_records: int | None = None
    on_data_loss: str = OnDataLoss.FAIL
    on_recreated: str = OnRecreated.FAIL
    stop_timeout: float = STOP_TIMEOUT
    retention_days: int | None = None
    follow_for: float | None = None
    commit_interval: float = COMMIT_INTERVAL
    handover: float = 0.0
    kinesis: KinesisResource
    spark_config: dict[str, Any] = Field(default={})
    _opened: OpenStream | None = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:
        if isinstance(stream := fields.get("stream"), str) and stream.startswith("arn:"):
            address = StreamAddress.parse(stream)
            fields |= {"stream": address.name, "stream_arn": address.arn}
        super().__init__(**fields)

    @property
    def opened(self) -> OpenStream:
        """The stream, as this process uses it."""
        if self._opened is None:
            self._opened = OpenStream(
                name=self.stream,
                arn=self.stream_arn,
                table_uri=self.table,
                kinesis=self.kinesis,
                policy=self.policy(),
                follow_for=self.follow_for,
                commit_interval=self.commit_interval,
                handover=self.handover,
                stop_timeout=self.stop_timeout,
                retention_days=self.retention_days,
                spark_config=self.spark_config,
            )
        return self._opened

    @property
    def is_closing(self) -> bool:
        """Whether a run in this process was interrupted and is still committing what it has read."""
        graceful_stop = None if self._opened is None else self._opened.graceful_stop
        return graceful_stop is not None and graceful_stop.is_closing

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End the heartbeat and the Spark session of a run."""
        del context
        if self._opened is not None:
            self._opened.close()

    def policy(self) -> ReadPolicy:
        """Return the settings for reading the stream.

        Raises:
            InvalidInput: A setting is invalid.
        """
        return ReadPolicy(
            starts=StartPositions.of(self.start),
            bounds=Bounds(
                max_records=self.max_records, max_bytes=self.max_bytes, max_seconds=self.max_seconds
            ),
            allowance=Allowance(
                records=self.max_run_records, bytes=self.max_run_bytes, seconds=self.max_run_seconds
            ),
            on_data_loss=_one_of(OnDataLoss, "on_data_loss", self.on_data_loss),
            on_recreated=_one_of(OnRecreated, "on_recreated", self.on_recreated),
            max_bad_records=self.max_bad_records,
        )

    def load_input(self, context: dg.InputContext) -> RunPlan:
        """Plan the next range of each of the run's shards.

        Raises:
            InvalidInput: The asset that is loaded is not the stream.
            TableNotWritable: The table cannot be written to.
        """
        if context.asset_key != stream_key(self.stream):
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} is not the stream {self.stream}, and only that can be "
                f"loaded. To read the table in an asset, add it to deps and open {self.table} in the body"
            )
        stream = self.opened
        plan = plan_run(
            stream.client, stream.table, asked=sorted(context.asset_partition_keys), policy=stream.policy
        )
        # It starts after the plan, because an invalid plan must not write anything.
        stream.start_heartbeat(context.step_context)
        return plan

    def handle_output(self, context: dg.OutputContext, obj: RunPlan) -> None:
        """Land and commit a plan, and report an event for each shard.

        Raises:
            DagsterExecutionInterruptedError: The run was interrupted. What it had read by then is committed
                and reported, or dropped after `stop_timeout`.
            InvalidInput: The asset's body did not return a plan.
            LandingFailed: The Spark job failed.
            ShardsNotCommitted: Some of the run's shards are neither committed nor finished. The others are
                materialized.
        """
        from kinesis_assets.ingest.land import cancel_landing, land  # noqa: PLC0415  # only runs need it
        from kinesis_assets.ingest.run import execute_run  # noqa: PLC0415
        from kinesis_assets.table.stop_marker import StopMarker  # noqa: PLC0415

        if not isinstance(obj, RunPlan):
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} returned {type(obj).__name__}; "
                "its body must return its plan, or a plan with fewer shards"
            )
        stream = self.opened
        # Spark sets its own handler for interrupts, so the session must start before ours is set.
        spark = stream.start_spark()
        graceful_stop = stream.graceful_stop = GracefulStop(
            self.stop_timeout,
            request_stop=StopMarker(stream.table.folder, obj.batch_id).set,
            give_up=partial(cancel_landing, spark, obj.batch_id),
        )

        def log_each(result: RunResult) -> None:
            for event in shard_events(context.asset_key, self.stream, result):
                context.log_event(event)

        with graceful_stop.canceling(context.step_context):
            with wrap_spark_errors(self.stream):
                result = execute_run(
                    partial(land, spark), stream.client, stream.table, obj, by=context.run_id
                )
            if graceful_stop.stop_requested:
                log_each(result.read())
        if result.errors:
            # Dagster would report all partitions of the run as materialized, or none.
            log_each(result)
            raise ShardsNotCommitted(self.stream, result.errors)
        metadata = {
            shard_id: event_metadata(self.stream, outcome, result)
            for shard_id, outcome in result.outcomes.items()
        }
        add_asset_metadata(context.step_context, context.asset_key, metadata)


def _one_of(choices: type[_Choice], name: str, value: str) -> _Choice:
    try:
        return choices(value)
    except ValueError:
        raise InvalidInput(f"{name} must be {' or '.join(choices)}, not {value!r}") from None
