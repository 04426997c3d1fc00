"""The I/O manager of a stream: loading it plans ranges, storing a plan lands and commits them."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import dagster as dg
from pydantic import Field, PrivateAttr

from kinesis_assets.dagster.dagster_internals import add_asset_metadata, report_event
from kinesis_assets.dagster.graceful_stop import Closing
from kinesis_assets.dagster.metadata import event_metadata
from kinesis_assets.dagster.names import stream_key
from kinesis_assets.dagster.partition_ranges import seconds_followed
from kinesis_assets.dagster.resources import KinesisResource
from kinesis_assets.errors import InvalidInput, ShardsNotCommitted
from kinesis_assets.ingest.plan import OnRecreated, ReadPolicy, RunPlan, plan_run, standing_shards
from kinesis_assets.ingest.poll_interval import COMMIT_INTERVAL, Pace
from kinesis_assets.kinesis.data_loss import OnDataLoss
from kinesis_assets.kinesis.limits import MAX_BYTES, MAX_RECORDS, MAX_SECONDS, Allowance, Bounds
from kinesis_assets.kinesis.relist import relisted
from kinesis_assets.kinesis.start_positions import Starts
from kinesis_assets.kinesis.stream_address import StreamAddress
from kinesis_assets.spark.session import failures_told, prepare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kinesis_assets.dagster.spark_resource import SparkResource  # noqa: TC004  # of a private attribute
    from kinesis_assets.ingest.run import RunResult
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.heartbeat import Heartbeat  # noqa: TC004  # as above
    from kinesis_assets.table.positions import ShardPosition
    from kinesis_assets.table.table import PositionedTable

_Choice = TypeVar("_Choice", bound=StrEnum)

STOP_TIMEOUT = 60.0
"""Seconds; less than Dagster waits before it calls a run dead (`cancel_timeout_seconds`, 180)."""


class ShardIOManager(dg.ConfigurableIOManager):
    """Brings shards of one stream into its table.

    Loading the stream's asset gives a `RunPlan` for the run's partitions. Storing a `RunPlan` runs it: one
    commit, then an AssetMaterialization for each shard that is committed or finished, and an AssetObservation
    for each that is not.

    Attributes:
        stream: The stream's name. Given an ARN, it is the name in it.
        stream_arn: The stream's ARN, if that was given.
        table: Path or URI of its table.
        start: Where the first plan of the stream begins, as `Starts.of` reads it.
        max_records: Bound on each shard's range, see `Bounds`.
        max_bytes: Likewise.
        max_seconds: Likewise.
        max_run_records: Bound on all ranges of a run together, see `Allowance`.
        max_run_bytes: Likewise.
        max_run_seconds: Likewise.
        max_bad_records: See `ReadPolicy`.
        on_data_loss: See `OnDataLoss`.
        on_recreated: See `OnRecreated`.
        stop_timeout: Seconds that a run which is told to stop has to commit what it has read.
        retention_days: Maintenance takes rows out that arrived more days ago; None for never.
        follow_for: Seconds for which the runs that the sensor asks for follow; None for not at all.
        commit_interval: Seconds from round to round of a run that follows, see `Pace`.
        handover: Seconds before the end of such a run in which another one may take over, see `Pace`.
        kinesis: How to reach Kinesis.
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
    _pyspark: SparkResource | None = PrivateAttr(default=None)
    _closing: Closing | None = PrivateAttr(default=None)
    _heartbeat: Heartbeat | None = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:
        if isinstance(stream := fields.get("stream"), str) and stream.startswith("arn:"):
            address = StreamAddress.parse(stream)
            fields |= {"stream": address.name, "stream_arn": address.arn}
        super().__init__(**fields)

    @property
    def pyspark(self) -> SparkResource:
        """Whose Spark session lands the records, from the first look on; what it started ends with this."""
        from kinesis_assets.dagster.spark_resource import SparkResource  # noqa: PLC0415  # a fifth of a second

        if self._pyspark is None:
            self._pyspark = SparkResource(spark_config=self.spark_config)
        return self._pyspark

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End what ends with a run."""
        if self._heartbeat is not None:
            self._heartbeat.end()
        if self._pyspark is not None:
            self._pyspark.teardown_after_execution(context)

    @property
    def is_closing(self) -> bool:
        """Whether a run here was told to stop, and what it has read is being committed: only then."""
        return self._closing is not None and self._closing.is_closing

    def client(self) -> StreamClient:
        """The calls to the stream."""
        return self.kinesis.stream(self.stream_arn or self.stream)

    def policy(self) -> ReadPolicy:
        """How the stream is read.

        Raises:
            InvalidInput: A value cannot be meant.
        """
        return ReadPolicy(
            starts=Starts.of(self.start),
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

    def standing_shards(self, listing: StreamListing, asked: Iterable[str] = ()) -> dict[str, ShardPosition]:
        """Every shard of the stream as it stands, see `plan.standing_shards`."""
        return standing_shards(listing, self.positioned_table(), self.policy().on_recreated, asked)

    def listed_shards(self, asked: Iterable[str] = ()) -> tuple[StreamListing, dict[str, ShardPosition]]:
        """The stream as it is listed now, and every shard of it; see `relist.relisted`."""
        return relisted(self.client(), lambda listing: (listing, self.standing_shards(listing, asked)))

    def positioned_table(self) -> PositionedTable:
        """The stream's table."""
        from kinesis_assets.table.table import PositionedTable  # noqa: PLC0415  # definitions open none

        return PositionedTable(self.table)

    def load_input(self, context: dg.InputContext) -> RunPlan:
        """Plan the next range of each of the run's shards.

        Raises:
            InvalidInput: It is another asset than the stream that is loaded.
            TableNotWritable: The table cannot be written to.
        """
        if context.asset_key != stream_key(self.stream):
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} is not the stream {self.stream}; an asset that reads "
                f"the table opens {self.table} itself, and names it in deps"
            )
        table = self.positioned_table()
        plan = plan_run(
            self.client(),
            table,
            asked=sorted(context.asset_partition_keys),
            policy=self.policy(),
        )
        # Not before: a plan that is refused has touched nothing.
        self.begin_heartbeat(table, context.step_context)
        return plan

    def begin_heartbeat(self, table: PositionedTable, step: dg.StepExecutionContext) -> None:
        """Have a run write heartbeats until it ends, so that the sensor sees when its process died.

        Raises:
            TableNotWritable: The table cannot be written to.
        """
        from kinesis_assets.table.commit import OLDEST_ATTEMPT  # noqa: PLC0415  # as above
        from kinesis_assets.table.heartbeat import Heartbeat  # noqa: PLC0415

        if self._heartbeat is None:
            followed = 0.0 if self.follow_for is None else seconds_followed(step.run_tags) or 0.0
            seconds = OLDEST_ATTEMPT.total_seconds() + followed + self.handover
            heartbeat = Heartbeat(table, step.run_id, seconds=seconds)
            heartbeat.begin()
            self._heartbeat = heartbeat

    def follow(self, context: dg.AssetExecutionContext, asked: Sequence[str], seconds: float) -> None:
        """Land and commit what comes for some time, and tell of each commit as of a run's own.

        Args:
            context: The run's.
            asked: Shard ids, parents before children.
            seconds: For so long.

        Raises:
            DagsterExecutionInterruptedError: The run was told to stop. What it had read by then is committed
                and told, or, after `stop_timeout`, dropped.
            LandingFailed: A Spark job failed.
            ShardsNotCommitted: Some shards fail at the end.
        """
        from kinesis_assets.ingest.continuous_run import Follow  # noqa: PLC0415  # a run's alone, here and below
        from kinesis_assets.ingest.land import end_landing, land  # noqa: PLC0415

        prepare(self.spark_config)
        with failures_told(self.stream):
            spark = self.pyspark.spark_session  # as below
        step = context.get_step_execution_context()
        following = Follow(
            partial(land, spark),
            self.client(),
            self.positioned_table(),
            self.policy(),
            Pace(seconds, self.commit_interval, self.handover),
            tell=partial(_report_each, context, self.stream),
            by=step.run_id,
        )

        def give_up() -> None:
            if following.batch_id is not None:
                end_landing(spark, following.batch_id)

        closing = self._closing = Closing(self.stop_timeout, tell=following.stop, give_up=give_up)
        try:
            with closing.holding_back(), failures_told(self.stream):
                following.run(asked)
        finally:
            if closing.told:
                _call_it_canceled(step)

    def handle_output(self, context: dg.OutputContext, obj: RunPlan) -> None:
        """Land and commit a plan, and tell what became of each shard.

        Raises:
            DagsterExecutionInterruptedError: The run was told to stop. What it had read by then is committed
                and told, or, after `stop_timeout`, dropped.
            LandingFailed: The Spark job failed.
            ShardsNotCommitted: Not every asked shard is committed or finished. The others are, and are
                materialized.
        """
        from kinesis_assets.ingest.land import end_landing, land  # noqa: PLC0415
        from kinesis_assets.ingest.run import execute_run  # noqa: PLC0415
        from kinesis_assets.table.stop_marker import StopObject  # noqa: PLC0415

        if not isinstance(obj, RunPlan):
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} returned {type(obj).__name__}; "
                "its body must return the plan it was given, or a narrowed one"
            )
        prepare(self.spark_config)
        table = self.positioned_table()
        with failures_told(self.stream):
            spark = (
                self.pyspark.spark_session
            )  # it sets a handler of its own for interrupts, so it comes first
        closing = self._closing = Closing(
            self.stop_timeout,
            tell=StopObject(table.folder, obj.batch_id).set,
            give_up=partial(end_landing, spark, obj.batch_id),
        )
        try:
            with closing.holding_back():
                with failures_told(self.stream):
                    result = execute_run(partial(land, spark), self.client(), table, obj, by=context.run_id)
                if closing.told:
                    _log_each(context, self.stream, result.read())
        finally:
            if closing.told:
                _call_it_canceled(context.step_context)
        if result.errors:
            # Dagster would call every partition of the run materialized, or none: tell each one here.
            _log_each(context, self.stream, result)
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


def _call_it_canceled(step: dg.StepExecutionContext) -> None:
    """Let the run end as canceled also if it was its process that was told, as when its machine goes away."""
    run = step.instance.get_run_by_id(step.run_id)
    if run is not None and run.status is dg.DagsterRunStatus.STARTED:
        step.instance.report_run_canceling(run, "The run's process was told to stop.")


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
