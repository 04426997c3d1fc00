"""A stream in use: its client, its table, its Spark session and the heartbeat of its run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kinesis_assets.dagster.graceful_stop import NOTHING_READ, stops_explained
from kinesis_assets.dagster.partition_ranges import continuous_run_seconds
from kinesis_assets.dagster.settings.check_settings import Checks
from kinesis_assets.errors import LandingFailed
from kinesis_assets.ingest.idle_shards import TIP_REFRESH
from kinesis_assets.ingest.plan import ReadPolicy, current_shards
from kinesis_assets.kinesis.listing_retries import retry_listing
from kinesis_assets.kinesis.reading.range import Allowance, Bounds
from kinesis_assets.kinesis.role import AssumedRole, default_session_name
from kinesis_assets.kinesis.settings import ClientSettings, ReadTiming
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream import StreamAddress
from kinesis_assets.metrics import flush
from kinesis_assets.spark.connect import uses_connect
from kinesis_assets.spark.local_settings import is_local
from kinesis_assets.spark.session import wrap_spark_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import dagster as dg
    from pyspark.sql import SparkSession

    from kinesis_assets.dagster.graceful_stop import GracefulStop
    from kinesis_assets.dagster.kinesis_resource import KinesisResource
    from kinesis_assets.dagster.settings.catalog_settings import Connection
    from kinesis_assets.dagster.settings.stream_settings import RunSettings
    from kinesis_assets.dagster.spark_resource import SparkResource
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.stream import StreamListing
    from kinesis_assets.table.format import RawFormat
    from kinesis_assets.table.positions.positions import ShardPosition
    from kinesis_assets.table.raw_table import PositionedTable
    from kinesis_assets.table.run_files.heartbeat import Heartbeat
    from kinesis_assets.table.snapshot import TableSnapshot


class ListedShards(NamedTuple):
    """The shards of a stream and what its table records about them.

    Attributes:
        snapshot: The newest version of the table; None if the table does not exist.
        shards: The position of each shard, see `plan.current_shards`.
    """

    listing: StreamListing
    snapshot: TableSnapshot | None
    shards: dict[str, ShardPosition]


_CONNECT_TIMEOUT, _READ_TIMEOUT, _ATTEMPTS = 2.0, 6.0, 2
"""The limits of each of the two calls with which a tick of the sensor lists the shards. A tick has 45 seconds
for them and for probes, see `sensor`."""


@dataclass
class OpenStream:
    """A stream that a run, a tick of the sensor, a job or a command uses.

    The client, the table and the Spark session are created on first use.

    Attributes:
        arn: The stream's ARN, if it is configured.
        handover: Seconds before the end of a continuous run in which the next one may take over, see
            `RunTiming`.
        run_id: The id of the Dagster run; None outside of one.
        graceful_stop: How the run stops that lands records now; None before it lands any.
        unfinished_reports: Reports what has to follow the events that Dagster reports for an output; None if
            there is no such output.
    """

    settings: RunSettings
    kinesis: KinesisResource
    names: StreamNames
    arn: str | None = None
    handover: float = 0.0
    checks: Checks = field(default_factory=Checks)
    run_id: str | None = None
    graceful_stop: GracefulStop | None = field(default=None, init=False)
    unfinished_reports: Callable[[], None] | None = field(default=None, init=False)
    _pyspark: SparkResource | None = field(default=None, init=False)
    _heartbeat: Heartbeat | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.settings.stream

    @cached_property
    def role(self) -> AssumedRole | None:
        """The role for the stream and its tables; None for the credentials of the process."""
        return self.kinesis.role_for(self.arn or self.name, self.run_id)

    @cached_property
    def client(self) -> StreamClient:
        """The client of the stream."""
        timing = ReadTiming.of_share(self.settings.calls_per_second)
        return self.kinesis.stream(self.arn or self.name, timing, self.role)

    @cached_property
    def tick_client(self) -> StreamClient:
        """The client of a tick of the sensor, whose calls fail soon if the service does not answer."""
        from kinesis_assets.kinesis.client import StreamClient  # noqa: PLC0415  # definitions load without the AWS SDK

        settings = self.client.settings
        timing = replace(
            settings.timing,
            connect_timeout=min(settings.timing.connect_timeout, _CONNECT_TIMEOUT),
            read_timeout=min(settings.timing.read_timeout, _READ_TIMEOUT),
        )
        return StreamClient(str(self.client.address), replace(settings, timing=timing), attempts=_ATTEMPTS)

    @cached_property
    def table(self) -> PositionedTable:
        """The stream's table."""
        from kinesis_assets.table.raw_table import PositionedTable  # noqa: PLC0415  # definitions do not open the table

        uri, format_ = self.settings.table, self.raw_format
        if format_ is None:
            return PositionedTable(uri, role=self.role)
        return PositionedTable(uri, role=self.role, format=format_)

    @cached_property
    def raw_format(self) -> RawFormat | None:
        """What returns the format of the table; None for Delta Lake."""
        return self.settings.format_of(self.names.raw_key.path[-1], self.aws_settings)

    def aws_settings(self, connection: Connection) -> ClientSettings:
        """Return how AWS is called for the catalog of a table: by default in the stream's region and role."""
        profile, role = self.kinesis.profile_name, self.role
        address = StreamAddress.parse(self.arn or self.name)
        region = connection.region_name or address.region_name(self.kinesis.region_name)
        if connection.role_arn is not None:
            session = default_session_name(self.name, self.run_id)
            role = AssumedRole(connection.role_arn, session, connection.external_id, profile, region)
        return ClientSettings(region, profile_name=profile, role=role)

    @cached_property
    def policy(self) -> ReadPolicy:
        """The settings with which a run reads the stream."""
        settings = self.settings
        return ReadPolicy(
            starts=StartPositions.of(settings.start),
            bounds=Bounds(
                max_records=settings.max_records,
                max_bytes=settings.max_bytes,
                max_seconds=settings.max_seconds,
            ),
            allowance=Allowance(
                records=settings.max_run_records,
                bytes=settings.max_run_bytes,
                seconds=settings.max_run_seconds,
            ),
            on_data_loss=settings.on_data_loss,
            on_recreated=settings.on_recreated,
            max_bad_records=settings.max_bad_records,
        )

    @property
    def tip_refresh(self) -> timedelta:
        """See `execute_run`. It is at most `max_idle_seconds`, because the sensor waits for this commit."""
        return min(TIP_REFRESH, timedelta(seconds=self.settings.max_idle_seconds))

    @property
    def max_idle(self) -> timedelta:
        """The longest time from one commit of a shard's tip time to the next, if it has no new records."""
        if self.settings.follow_for is not None:
            return TIP_REFRESH  # a continuous run reads idle shards all the time
        return timedelta(seconds=self.settings.max_idle_seconds)

    def listed_shards(self, asked: Iterable[str] = (), *, client: StreamClient | None = None) -> ListedShards:
        """List the shards, and read the current position of each shard.

        Args:
            asked: Archived shards to include, see `plan.current_shards`.
            client: The client that lists them; by default that of runs.

        Raises what `plan.current_shards` and `listing_retries.retry_listing` raise.
        """
        asked = list(asked)

        def with_positions(listing: StreamListing) -> ListedShards:
            return ListedShards(
                listing, *current_shards(listing, self.table, self.policy.on_recreated, asked)
            )

        return retry_listing(client or self.client, with_positions)

    def start_spark(self) -> SparkSession:
        """Return the Spark session, started on the first call.

        Raises:
            JavaUnavailable: The session must be started in this process, and no Java was found.
            LandingFailed: The session cannot be started.
        """
        from kinesis_assets.dagster.spark_resource import SparkResource  # noqa: PLC0415  # its import takes 0.2 s

        if self._pyspark is None:
            self._pyspark = SparkResource(spark_config=self.settings.session_config)
        subject = f"stream {self.name}"
        with stops_explained(NOTHING_READ), wrap_spark_errors(subject):
            try:
                session: SparkSession = self._pyspark.spark_session
            except LandingFailed as error:  # it is about a session, whichever stream needs it
                raise LandingFailed(f"{subject}: {error}") from error
        return session

    def check_executors(self) -> None:
        """If Spark runs tasks elsewhere, start the session and check its executors, see `check_executors`.

        Call this before anything is planned or changed.

        Raises what `start_spark` and `executor_check.check_executors` raise.
        """
        config = self.settings.session_config
        if uses_connect(config) or not is_local(config):
            from kinesis_assets.ingest.executor_check import check_executors  # noqa: PLC0415  # only clusters need it

            check_executors(self.start_spark(), f"stream {self.name}", self.table.folder, self.client)

    def start_heartbeat(self, step: dg.StepExecutionContext) -> None:
        """Write heartbeats until the run ends, so that the sensor detects a run whose process has died."""
        from kinesis_assets.table.commits.commit import MAX_ATTEMPT_AGE  # noqa: PLC0415  # only runs need it
        from kinesis_assets.table.run_files.heartbeat import Heartbeat  # noqa: PLC0415

        if self._heartbeat is None:
            duration = (
                0.0 if self.settings.follow_for is None else continuous_run_seconds(step.run_tags) or 0.0
            )
            seconds = MAX_ATTEMPT_AGE.total_seconds() + duration + self.handover
            heartbeat = Heartbeat(self.table, step.run_id, seconds=seconds)
            heartbeat.start()
            self._heartbeat = heartbeat

    def finish_reports(self) -> None:
        """Report what has to follow the events of an output, unless it was reported."""
        report, self.unfinished_reports = self.unfinished_reports, None
        if report is not None:
            report()

    def close(self) -> None:
        """Finish the reports, the heartbeat and the Spark session of a run, and export its metrics."""
        if self._heartbeat is not None:
            self._heartbeat.end()
        if self._pyspark is not None:  # the sensor, whose process goes on, has no session
            flush()
            self._pyspark.end()
        self.finish_reports()  # of an asset with a body of its own


def open_stream(resources: object, names: StreamNames) -> OpenStream:
    """Return a stream from the resources of a run or of a tick, which include its I/O manager."""
    opened: OpenStream = getattr(resources, names.io_manager_key).opened
    return opened
