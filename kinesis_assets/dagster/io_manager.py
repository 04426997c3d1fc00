"""The I/O manager of a stream: `load_input` plans ranges, and `handle_output` lands and commits them."""

from __future__ import annotations

import json
from typing import Any

import dagster as dg
from pydantic import Field, PrivateAttr

from kinesis_assets.dagster.failures import shown_as_failures
from kinesis_assets.dagster.graceful_stop import NOTHING_READ, stops_explained
from kinesis_assets.dagster.kinesis_resource import KinesisResource
from kinesis_assets.dagster.settings.asset_settings import KEY_PREFIX
from kinesis_assets.dagster.settings.stream_settings import RunSettings, StreamSettings
from kinesis_assets.dagster.stream import OpenStream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.plan import RunPlan, plan_run
from kinesis_assets.kinesis.stream import StreamAddress


class ShardIOManager(RunSettings, dg.ConfigurableIOManager):
    """Lands the shards of one stream in its table.

    Loading the stream's asset returns a `RunPlan` for the run's partitions. Storing a `RunPlan` executes it
    in one commit. It then reports an AssetMaterialization for each shard that is committed or finished, and
    an AssetObservation for each other shard. The last event has no partition, but the totals.

    The asset's body (`build.build_kinesis_stream`) returns the plan, with which Dagster calls
    `handle_output`; that calls `bounded_step.run_reporting_all`. In a run that reports only news, the body
    calls `bounded_step.run_reporting_news` and returns no plan.

    The fields are described in `RunSettings`. Besides:

    Attributes:
        stream_arn: The stream's ARN, if `stream` was given as an ARN.
        key_prefix: As in `StreamSettings`, as a list.
        start: As in `RunSettings`; a map is given as JSON, because Dagster's configuration has no such union.
        handover: See `RunTiming`.
        checks: The asset checks of the raw table, as JSON, see `Checks`.
    """

    stream_arn: str | None = None
    key_prefix: list[str] = Field(default=[*KEY_PREFIX])
    start: str = RunSettings.model_fields["start"]  # type: ignore[assignment]  # declared there
    handover: float = 0.0
    kinesis: KinesisResource
    checks: str = "{}"
    _opened: OpenStream | None = PrivateAttr(default=None)
    _run_id: str | None = PrivateAttr(default=None)
    _declared: StreamSettings | None = PrivateAttr(default=None)
    _definition: dg.ResourceDefinition | None = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:
        if isinstance(stream := fields.get("stream"), str) and stream.startswith("arn:"):
            address = StreamAddress.parse(stream)
            fields |= {"stream": address.name, "stream_arn": address.arn}
        super().__init__(**fields)

    @property
    def declared(self) -> StreamSettings:
        """All settings of the stream, as they were declared."""
        if self._declared is None:
            raise InvalidInput(
                f"stream {self.stream}: its definitions were not built from its settings; build them with "
                "build_kinesis_stream or a component"
            )
        return self._declared

    def get_resource_definition(self) -> Any:
        """Return the definition of this resource, which has no fields that the config of a run could change.

        The launchpad would show all of them, and a run with another table, for example, would not be what
        the sensor and the checks expect.
        """
        if self._definition is None:  # Dagster compares definitions by identity
            definition = super().get_resource_definition()
            fields = definition.config_field
            values = None if fields is None else fields.default_value
            self._definition = definition.configured(lambda _: values, config_schema={})
        return self._definition

    def declare(self, settings: StreamSettings) -> ShardIOManager:
        """Keep all settings of the stream, of which the fields are a part, and return this manager."""
        self._declared = settings
        return self

    @property
    def names(self) -> StreamNames:
        """The names of the stream's definitions."""
        return StreamNames.of(self.stream, self.key_prefix)

    @property
    def opened(self) -> OpenStream:
        """The stream as this process uses it."""
        if self._opened is None:
            checks = self.checks_of_stream(json.loads(self.checks))
            self._opened = OpenStream(
                self, self.kinesis, self.names, self.stream_arn, self.handover, checks, self._run_id
            )
        return self._opened

    @property
    def is_closing(self) -> bool:
        """Whether a run in this process was interrupted and is still committing what it has read."""
        graceful_stop = self.opened.graceful_stop
        return graceful_stop is not None and graceful_stop.is_closing

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Keep the id of the run, which the sessions of an assumed role have in their name."""
        self._run_id = None if context.run is None else context.run.run_id

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """End the heartbeat and the Spark session of a run, and export its metrics."""
        del context
        self.opened.close()

    @shown_as_failures()
    @stops_explained(NOTHING_READ)
    def load_input(self, context: dg.InputContext) -> RunPlan:
        """Plan the next range of each of the run's shards.

        Raises:
            ExecutorUnsuitable: Spark's executors cannot run the tasks. Nothing was planned.
            InvalidInput: The asset that is loaded is not the stream.
            TableNotWritable: The table cannot be written to.

        Also raises what `plan_run` raises.
        """
        if context.asset_key != self.names.stream_key:
            ours = self.names.stream_key.to_user_string()
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} is not the stream {ours}, and only that can be "
                f"loaded. To read the table in an asset, add it to deps and open {self.table} in the body"
            )
        stream = self.opened
        stream.check_executors()
        shard_ids = sorted(context.asset_partition_keys)
        plan = plan_run(stream.client, stream.table, asked=shard_ids, policy=stream.policy)
        # It starts after the plan, because an invalid plan must not write anything.
        stream.start_heartbeat(context.step_context)
        return plan

    @shown_as_failures()
    def handle_output(self, context: dg.OutputContext, obj: RunPlan) -> None:
        """Run a plan with `execute_run`, and report an event for each shard and one for the totals.

        Raises:
            DagsterExecutionInterruptedError: The run was interrupted. What it had read by then is committed
                and reported, or dropped after `stop_timeout`.
            InvalidInput: The asset's body did not return a plan.
            LandingFailed: The Spark job failed.
            ShardsNotCommitted: Some of the run's shards are neither committed nor finished. The others are
                materialized.
        """
        if not isinstance(obj, RunPlan):
            raise InvalidInput(
                f"{context.asset_key.to_user_string()} returned {type(obj).__name__}; "
                "its body must return its plan, or a plan with fewer shards"
            )
        from kinesis_assets.dagster.steps.bounded_step import run_reporting_all  # noqa: PLC0415  # loads Spark's jobs

        run_reporting_all(context, self.opened, obj)
