"""The settings of a stream: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from kinesis_assets.dagster.settings.asset_settings import (
    KEY_PREFIX,
    AssetSettings,
    DescribedAsset,
    KeyPrefix,
)
from kinesis_assets.dagster.settings.check_settings import Checks, ChecksField
from kinesis_assets.dagster.settings.settings_base import UNIT, Settings, valid
from kinesis_assets.dagster.settings.spark_settings import SparkSettings
from kinesis_assets.dagster.settings.table_format_settings import RawTableFormat
from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.plan import OnRecreated
from kinesis_assets.kinesis.consumers import ConsumerAddress, check_consumer
from kinesis_assets.kinesis.data_loss import OnDataLoss
from kinesis_assets.kinesis.role import check_external_id, check_role, check_role_arn, check_session_name
from kinesis_assets.kinesis.settings import CALLS_PER_SECOND, ClientSettings
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream import StreamAddress
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from kinesis_assets.kinesis.role import AssumedRole


class ConnectionSettings(Settings):
    """How to connect to Kinesis. By default the chain of the AWS SDK applies (environment, profile, role).

    A role applies to the tables too.
    """

    region_name: str | None = Field(
        default=None,
        description="AWS region of the stream, as in boto3. Not needed with an ARN.",
        examples=["eu-central-1"],
    )
    endpoint_url: Annotated[str | None, valid(lambda url: ClientSettings(endpoint_url=url))] = Field(
        default=None,
        description="Endpoint of Kinesis, as in boto3. It must not contain a user or password.",
        examples=["http://127.0.0.1:4567"],
    )
    profile_name: str | None = Field(
        default=None,
        description="Profile of the AWS configuration, as in boto3. It must exist on Spark's executors too.",
        examples=["analytics"],
    )
    role_arn: Annotated[str | None, valid(check_role_arn)] = Field(
        default=None,
        description="ARN of a role that reads the stream and writes its tables. Every process assumes it "
        "with the credentials that it finds. By default these credentials are used themselves.",
        examples=["arn:aws:iam::111122223333:role/clicks-reader"],
    )
    external_id: Annotated[str | None, valid(check_external_id)] = Field(
        default=None,
        description="External id that the trust policy of the role requires. Only with role_arn.",
        examples=["shop-4711"],
    )
    session_name: Annotated[str | None, valid(check_session_name)] = Field(
        default=None,
        description="Name of the sessions of the role, as in AWS CloudTrail. Only with role_arn. By default "
        "it consists of the stream's name and the id of the Dagster run.",
        examples=["clicks-production"],
    )
    sdk_parser: bool = Field(
        default=False,
        description="Whether the AWS SDK requests and parses all records. This is several times slower, and "
        "a workaround in case the faster path fails.",
        examples=[True],
    )

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        check_role(self.role_arn, self.external_id, self.session_name)
        return self

    def role_for(self, stream: str, run_id: str | None = None) -> AssumedRole | None:
        """Return the role that is assumed for a stream; None if none is.

        Args:
            stream: The stream's name or ARN.
            run_id: The id of the Dagster run; None outside of one.
        """
        if self.role_arn is None:
            return None
        from kinesis_assets.kinesis.role_credentials import role_for  # noqa: PLC0415  # it loads the AWS SDK

        return role_for(
            StreamAddress.parse(stream),
            self.role_arn,
            external_id=self.external_id,
            session_name=self.session_name,
            profile_name=self.profile_name,
            region_name=self.region_name,
            run_id=run_id,
        )


class StreamTable(Settings):
    """A stream and its table."""

    stream: Annotated[str, valid(StreamAddress.parse)] = Field(
        kw_only=False,
        description="The stream's name; or its ARN, which may name another account or region.",
        examples=["clicks", "arn:aws:kinesis:eu-west-1:111122223333:stream/clicks"],
    )
    table: Annotated[str, valid(TableFolder.at)] = Field(
        description="Path or URI (s3://, file://) of the stream's table. The first run creates it.",
        examples=["s3://my-lake/raw/clicks"],
    )


class ReadSettings(Settings):
    """The settings of a run: what it reads, and how it commits."""

    start: Annotated[str | Mapping[str, str], valid(StartPositions.of)] = Field(
        default="TRIM_HORIZON",
        description="Where the first run starts: TRIM_HORIZON, LATEST, AT_TIMESTAMP:time, "
        "AT_SEQUENCE_NUMBER:number or AFTER_SEQUENCE_NUMBER:number; or a map of shard ids to such "
        "positions or SHARD_END, with default for all other shards; or file:// and the path of a JSON "
        "or YAML file with such a map. Later runs continue from the table's positions.",
        examples=["LATEST", "AT_TIMESTAMP:2026-01-31T12:00:00Z"],
    )
    max_records: int | None = Field(
        default=1_000_000,
        gt=0,
        description="Maximum number of records of one shard in a run.",
        examples=[100_000],
        json_schema_extra={UNIT: "records"},
    )
    max_bytes: int | None = Field(
        default=1 << 30,
        gt=0,
        description="Maximum payload of one shard in a run.",
        examples=[256 << 20],
        json_schema_extra={UNIT: "bytes"},
    )
    max_seconds: float | None = Field(
        default=300.0,
        gt=0,
        description="Time limit of one shard in a run, from its first record. The run requests no further "
        "page of the shard after it.",
        examples=[60],
        json_schema_extra={UNIT: "seconds"},
    )
    calls_per_second: float = Field(
        default=CALLS_PER_SECOND,
        gt=0,
        le=CALLS_PER_SECOND,
        description="Maximum number of GetRecords calls per second to a shard. A shard allows five, and 2 MB "
        "per second, to all of its consumers together. With fewer, a run also reads that share of the bytes "
        "only, and leaves the rest to other consumers.",
        examples=[2],
    )
    max_run_records: int | None = Field(
        default=None,
        gt=0,
        description="Maximum number of records of all shards in a run.",
        examples=[10_000_000],
        json_schema_extra={UNIT: "records"},
    )
    max_run_bytes: int | None = Field(
        default=None,
        gt=0,
        description="Maximum payload of all shards in a run.",
        examples=[8 << 30],
        json_schema_extra={UNIT: "bytes"},
    )
    max_run_seconds: float | None = Field(
        default=None,
        gt=0,
        description="Time limit of a run, from its start. The run requests no further page after it.",
        examples=[600],
        json_schema_extra={UNIT: "seconds"},
    )
    max_bad_records: int | None = Field(
        default=None,
        ge=0,
        description="Maximum number of damaged records of one shard in a run. The range ends before the next "
        "one, and the shard fails. By default damaged records never stop a shard: they land unchanged and "
        "are marked.",
        examples=[0],
        json_schema_extra={UNIT: "records"},
    )
    on_data_loss: OnDataLoss = Field(
        default="fail",
        description="What to do if records may have expired unread: fail the shard; or continue with the "
        "first available record and record the gap.",
        examples=["continue"],
    )
    on_recreated: OnRecreated = Field(
        default="fail",
        description="What to do if the stream was deleted and created again: fail; or restart with the new "
        "stream in the same table.",
        examples=["restart"],
    )
    stop_timeout: float = Field(
        default=60.0,
        ge=0,
        description="Time in which an interrupted run may commit what it has read. The rest is dropped. It "
        "must be less than Dagster's cancel_timeout_seconds, which is 180 by default.",
        examples=[30],
        json_schema_extra={UNIT: "seconds"},
    )
    follow_for: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Duration of a run, for near-real-time ingestion: a run commits new records "
        "continuously, and the sensor requests the next run shortly before its end. By default a run "
        "reads the next range of its shards and ends.",
        examples=[3600],
        json_schema_extra={UNIT: "seconds"},
    )
    commit_interval: float = Field(
        default=1.0,
        ge=0.2,
        allow_inf_nan=False,
        description="Time from one commit of a continuous run to the next. Kinesis allows five calls per "
        "shard and second.",
        examples=[5],
        json_schema_extra={UNIT: "seconds"},
    )
    consumer: Annotated[str | None, valid(check_consumer)] = Field(
        default=None,
        description="Name or ARN of a registered consumer with enhanced fan-out, by which continuous runs "
        "read at rates of their own. By default, they share the rates of a shard with other consumers. Only "
        "with follow_for, see docs/continuous-runs.md.",
        examples=["lake"],
    )
    max_idle_seconds: float = Field(
        default=14_400.0,
        ge=60,
        allow_inf_nan=False,
        description="Maximum time without a run of a shard that has no new records, at most a sixth of the "
        "stream's retention. The sensor requests a run at its next tick after a record has arrived. "
        "Does not apply to continuous runs.",
        examples=[3600],
        json_schema_extra={UNIT: "seconds"},
    )
    retention_days: int | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Age of rows, by arrival date, after which maintenance permanently deletes them. By "
        "default no rows are deleted.",
        examples=[90],
        json_schema_extra={UNIT: "days"},
    )
    keep_unconsumed_days: int = Field(
        default=7,
        ge=0,
        le=36_500,
        description="How much longer than retention_days maintenance keeps rows that a derived table of the "
        "code location, once it has started, has not consumed.",
        examples=[30],
        json_schema_extra={UNIT: "days"},
    )

    prune_after: int | None = Field(
        default=30,
        ge=1,
        le=36_500,
        description="Time after the end of a finished shard was read, at least the stream's retention, after "
        "which maintenance deletes its partition in Dagster. Its events stay. null keeps all partitions.",
        examples=[7],
        json_schema_extra={UNIT: "days"},
    )

    @model_validator(mode="after")
    def _check_consumer(self) -> Self:
        if self.consumer is not None and self.follow_for is None:
            raise InvalidInput("consumer: only continuous runs read by a consumer; set follow_for")
        return self


class RunSettings(SparkSettings, RawTableFormat, ReadSettings, StreamTable):
    """The settings of a run, with its table and its Spark session."""

    lease_table: str | None = Field(
        default=None,
        description="Name or ARN of a DynamoDB table in which runs mirror the positions after their commits, "
        "as leases of the Kinesis Client Library, for tools that read such a table. No run depends on it.",
        examples=["clicks-positions"],
    )

    def checks_of_stream(self, checks: Mapping[str, Any]) -> Checks:
        """Return the checks that the stream has."""
        parsed = Checks.parse(checks)
        has = {"lease_table": self.lease_table, "catalog": self.registration, "consumer": self.consumer}
        for name, value in has.items():
            if not value:
                parsed = parsed.without([name], f"only of a stream with the setting {name}")
        return parsed

    @model_validator(mode="after")
    def _check_stream_of_consumer(self) -> Self:
        if self.consumer is None or hasattr(self.consumer, "env_var_name"):
            return self
        arn, stream = ConsumerAddress.parse(self.consumer).stream_arn, StreamAddress.parse(self.stream)
        if arn is not None and arn != stream.arn and (stream.arn or not arn.endswith(f"/{stream.name}")):
            raise InvalidInput(f"consumer: {self.consumer} is not a consumer of stream {stream}; correct it")
        return self


class SharedSettings(SparkSettings, AssetSettings, ConnectionSettings, RawTableFormat, ReadSettings):
    """The settings of a stream that several streams may share: all but the stream and its table."""

    key_prefix: KeyPrefix = Field(
        default=KEY_PREFIX,
        description="Prefix of the asset keys of the stream and of its raw table. Give streams of the same "
        "name different ones.",
        examples=[["eu", "sales"], "eu"],
    )
    sensor_interval_seconds: int = Field(
        default=30,
        ge=0,
        description="Minimum time between two ticks of the sensor.",
        examples=[60],
        json_schema_extra={UNIT: "seconds"},
    )
    maintenance_schedule: str | None = Field(
        default="H 3 * * *",  # once a day, when the late records of the previous day have landed
        description="Cron schedule of the maintenance job, in UTC. The minute H follows from the stream's "
        "name, so that the jobs of several streams do not start together.",
        examples=["0 4 * * 0"],
    )
    checks: ChecksField = Field(
        default={},
        description="Bounds and severities of the asset checks of the raw table, by the name of the check; "
        "off for a check that is not needed. See docs/checks.md.",
        examples=[{"lag": {"max_seconds": 300, "severity": "ERROR"}, "compaction_debt": "off"}],
    )


class StreamSettings(DescribedAsset, SharedSettings, RunSettings):
    """All settings of a stream: the arguments of `build_kinesis_stream` and the fields of its YAML."""

    read_by_runs: ClassVar = frozenset(
        {*RunSettings.model_fields, *ConnectionSettings.model_fields}
        - {"stream", "table", "start", "format", "catalog", "follow_for"}  # definitions need them too
    )

    @model_validator(mode="after")
    def _check_parser(self) -> Self:
        if self.consumer is not None and self.sdk_parser is True:
            raise InvalidInput("consumer: sdk_parser has the SDK read all records; remove one of the two")
        return self

    @model_validator(mode="after")
    def _check_checks(self) -> Self:
        self.checks_of_stream(self.checks)
        return self

    if not TYPE_CHECKING:  # see `Settings`

        def __init__(self, stream: str, **settings: Any) -> None:
            super().__init__(stream=stream, **settings)
