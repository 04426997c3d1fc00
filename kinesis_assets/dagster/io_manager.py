"""The I/O manager of a stream: `load_input` plans ranges, and `handle_output` lands and commits them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr

from kinesis_assets.dagster.dagster_internals import add_asset_metadata, report_event
from kinesis_assets.dagster.graceful_stop import GracefulStop
from kinesis_assets.dagster.metadata import event_metadata
from kinesis_assets.dagster.names import stream_key
from kinesis_assets.dagster.partition_ranges import continuous_run_seconds
from kinesis_assets.dagster.resources import KinesisResource
from kinesis_assets.dagster.settings import RunSettings
from kinesis_assets.errors import InvalidInput, ShardsNotCommitted
from kinesis_assets.ingest.plan import ReadPolicy, RunPlan, current_shards, plan_run
from kinesis_assets.ingest.poll_interval import RunTiming
from kinesis_assets.kinesis.limits import Allowance, Bounds
from kinesis_assets.kinesis.relist import retry_listing
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream_address import StreamAddress
from kinesis_assets.spark.session import prepare, wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kinesis_assets.dagster.spark_resource import SparkResource  # noqa: TC004  # the type of a private attribute
    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.heartbeat import Heartbeat  # noqa: TC004  # as above
    from kinesis_assets.table.positions import ShardPosition
    from kinesis_assets.table.table import PositionedTable


class ShardIOManager(RunSettings, dg.ConfigurableIOManager):
    """Lands the shards of one stream in its table.

    Loading the stream's asset returns a `RunPlan` for the run's partitions. Storing a `RunPlan` executes it
    in one commit. It then reports an AssetMaterialization for each shard that is committed or finished, and
    an AssetObservation for each other shard.

    The fields are described in `RunSettings`. Besides:

    Attributes:
        stream_arn: The stream's ARN, if `stream` was given as an ARN.
        start: As in `RunSettings`; a map is given as JSON, because Dagster's configuration has no such union.
        handover: See `RunTiming`.
        kinesis: The connection to Kinesis.
    """

    stream_arn: str | None = None
    start: str = RunSettings.model_fields["start"]  # type: ignore[assignment]  # declared there
    handover: float = 0.0
    kinesis: KinesisResource
    _pyspark: SparkResource | None = PrivateAttr(default=None)
    _graceful_stop: GracefulStop | None = PrivateAttr(default=None)
    _heartbeat: Heartbeat | None = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:
        if isinstance(stream := fields.get("stream"), str) and stream.startswith("arn:"):
            address = StreamAddress.parse(stream)
            fields |= {"stream": address.name, "stream_arn": address.arn}
        super().__init__(**fields)

    @property
    def pyspark(self) -> SparkResource:
        """The resource whose Spark session lands the records, created on first access."""
        from kinesis_assets.dagster.spark_resource import SparkResource  # noqa: PLC0415  # its import takes 0.2 s

        if self._pyspark is None:
            self._pyspark = SparkResource(spark_config=dict(self.spark_config))
        return self._pyspark

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End the heartbeat and the Spark session of a run."""
        if self._heartbeat is not None:
            self._heartbeat.end()
        if self._pyspark is not None:
            self._pyspark.teardown_after_execution(context)

    @property
    def is_closing(self) -> bool:
        """Whether a run in this process was interrupted and is still committing what it has read."""
        return self._graceful_stop is not None and self._graceful_stop.is_closing

    def client(self) -> StreamClient:
        """Return the client of the stream."""
        return self.kinesis.stream(self.stream_arn or self.stream)

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
            on_data_loss=self.on_data_loss,
            on_recreated=self.on_recreated,
            max_bad_records=self.max_bad_records,
        )

    def current_shards(self, listing: StreamListing, asked: Iterable[str] = ()) -> dict[str, ShardPosition]:
        """Return the current position of every shard, see `plan.current_shards`."""
        return current_shards(listing, self.positioned_table(), self.policy().on_recreated, asked)

    def listed_shards(self, asked: Iterable[str] = ()) -> tuple[StreamListing, dict[str, ShardPosition]]:
        """List the shards; return the listing and each shard's position. See `relist.retry_listing`."""
        return retry_listing(self.client(), lambda listing: (listing, self.current_shards(listing, asked)))

    def positioned_table(self) -> PositionedTable:
        """Return the stream's table."""
        from kinesis_assets.table.table import PositionedTable  # noqa: PLC0415  # definitions do not open the table

        return PositionedTable(self.table)

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
        table = self.positioned_table()
        plan = plan_run(
            self.client(),
            table,
            asked=sorted(context.asset_partition_keys),
            policy=self.policy(),
        )
        # It starts after the plan, because an invalid plan must not write anything.
        self.start_heartbeat(table, context.step_context)
        return plan

    def start_heartbeat(self, table: PositionedTable, step: dg.StepExecutionContext) -> None:
        """Write heartbeats until the run ends, so that the sensor detects a run whose process has died.

        Raises:
            TableNotWritable: The table cannot be written to.
        """
        from kinesis_assets.table.commit import MAX_ATTEMPT_AGE  # noqa: PLC0415  # as above
        from kinesis_assets.table.heartbeat import Heartbeat  # noqa: PLC0415

        if self._heartbeat is None:
            duration = 0.0 if self.follow_for is None else continuous_run_seconds(step.run_tags) or 0.0
            seconds = MAX_ATTEMPT_AGE.total_seconds() + duration + self.handover
            heartbeat = Heartbeat(table, step.run_id, seconds=seconds)
            heartbeat.start()
            self._heartbeat = heartbeat

    def follow(self, context: dg.AssetExecutionContext, asked: Sequence[str], seconds: float) -> None:
        """Land and commit records continuously, and report the events of each commit.

        Args:
            context: The context of the asset's body.
            asked: Shard ids, parents before children.
            seconds: The run's duration.

        Raises:
            DagsterExecutionInterruptedError: The run was interrupted. What it had read by then is committed
                and reported, or dropped after `stop_timeout`.
            LandingFailed: A Spark job failed.
            ShardsNotCommitted: Some shards are failing at the end.
        """
        from kinesis_assets.ingest.continuous_run import ContinuousRun  # noqa: PLC0415  # only runs need it
        from kinesis_assets.ingest.land import cancel_landing, land  # noqa: PLC0415

        prepare(self.spark_config)
        with wrap_spark_errors(self.stream):
            spark = self.pyspark.spark_session  # before the signal handler is set, see handle_output
        step = context.get_step_execution_context()
        continuous = ContinuousRun(
            partial(land, spark),
            self.client(),
            self.positioned_table(),
            self.policy(),
            RunTiming(seconds, self.commit_interval, self.handover),
            report=partial(_report_each, context, self.stream),
            by=step.run_id,
        )

        def give_up() -> None:
            if continuous.batch_id is not None:
                cancel_landing(spark, continuous.batch_id)

        graceful_stop = self._graceful_stop = GracefulStop(
            self.stop_timeout, request_stop=continuous.stop, give_up=give_up
        )
        try:
            with graceful_stop.delayed_interrupts(), wrap_spark_errors(self.stream):
                continuous.run(asked)
        finally:
            if graceful_stop.stop_requested:
                _mark_as_canceled(step)

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
        from kinesis_assets.ingest.land import cancel_landing, land  # noqa: PLC0415
        from kinesis_assets.ingest.run import execute_run  # noqa: PLC0415
        from kinesis_assets.table.stop_marker import StopMarker  # noqa: PLC0415

        if not isinstance(obj, RunPlan):
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} returned {type(obj).__name__}; "
                "its body must return its plan, or a plan with fewer shards"
            )
        prepare(self.spark_config)
        table = self.positioned_table()
        with wrap_spark_errors(self.stream):
            # Spark sets its own handler for interrupts, so the session must start before ours is set.
            spark = self.pyspark.spark_session
        graceful_stop = self._graceful_stop = GracefulStop(
            self.stop_timeout,
            request_stop=StopMarker(table.folder, obj.batch_id).set,
            give_up=partial(cancel_landing, spark, obj.batch_id),
        )
        try:
            with graceful_stop.delayed_interrupts():
                with wrap_spark_errors(self.stream):
                    result = execute_run(partial(land, spark), self.client(), table, obj, by=context.run_id)
                if graceful_stop.stop_requested:
                    _log_each(context, self.stream, result.read())
        finally:
            if graceful_stop.stop_requested:
                _mark_as_canceled(context.step_context)
        if result.errors:
            # Dagster would report all partitions of the run as materialized, or none.
            _log_each(context, self.stream, result)
            raise ShardsNotCommitted(self.stream, result.errors)
        metadata = {
            shard_id: event_metadata(self.stream, outcome, result)
            for shard_id, outcome in result.outcomes.items()
        }
        add_asset_metadata(context.step_context, context.asset_key, metadata)


def _mark_as_canceled(step: dg.StepExecutionContext) -> None:
    """Make the run end as canceled, even if the signal came from outside of Dagster, as at a shutdown."""
    run = step.instance.get_run_by_id(step.run_id)
    if run is not None and run.status is dg.DagsterRunStatus.STARTED:
        step.instance.report_run_canceling(run, "The run's process received a signal to stop.")


def _log_each(context: dg.OutputContext, stream: str, result: RunResult) -> None:
    for event in _events(context.asset_key, stream, result):
        context.log_event(event)


def _report_each(context: dg.AssetExecutionContext, stream: str, result: RunResult) -> None:
    for event in _events(context.asset_key, stream, result):
        report_event(context, event)


def _events(
    key: dg.AssetKey, stream: str, result: RunResult
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
    for shard_id, outcome in result.outcomes.items():
        event = dg.AssetMaterialization if outcome.error is None else dg.AssetObservation
        yield event(key, partition=shard_id, metadata=event_metadata(stream, outcome, result))
