"""The settings of a stream: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticKnownError

from kinesis_assets.errors import InvalidInput
from kinesis_assets.ingest.plan import OnRecreated
from kinesis_assets.kinesis.data_loss import OnDataLoss
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.start_positions import StartPositions
from kinesis_assets.kinesis.stream_address import StreamAddress
from kinesis_assets.table.storage import TableFolder

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo
    from pydantic_core import ErrorDetails

_Arguments = ParamSpec("_Arguments")
_Settings = TypeVar("_Settings", bound="Settings")
_Result = TypeVar("_Result")

UNIT: Final = "unit"
"""The key of a setting's unit in its JSON schema."""

_MAX_SHOWN = 80
"""The maximum number of characters of an invalid value that an error repeats."""

_BOUNDS = {
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}
"""By pydantic's type of the error, how a bound is worded."""


def takes(
    settings: Callable[_Arguments, _Settings],
) -> Callable[[Callable[[_Settings], _Result]], Callable[_Arguments, _Result]]:
    """Give a function of settings the arguments of their class, for editors and type checkers too."""

    def decorate(build: Callable[[_Settings], _Result]) -> Callable[_Arguments, _Result]:
        @wraps(build)
        def from_arguments(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            return build(settings(*args, **kwargs))

        from_arguments.__signature__ = signature(settings)  # type: ignore[attr-defined]
        return from_arguments

    return decorate


def valid(parse: Callable[[Any], object]) -> AfterValidator:
    """Validate a setting with its parser, and keep it as it was written."""

    def check(value: Any) -> Any:
        parse(value)
        return value

    return AfterValidator(check)


def _refuse_text(value: Any) -> Any:
    # pydantic refuses it with an error of a type that Dagster does not know, and fails to report.
    if isinstance(value, str | bytes):
        raise PydanticKnownError("list_type")
    return value


Texts = Annotated[Sequence[str], BeforeValidator(_refuse_text)]
"""The type of a setting that is a list of texts. A single text is not."""


def _check_endpoint_url(url: str | None) -> None:
    ClientSettings(endpoint_url=url)


class Settings(BaseModel):
    """Settings that raise `InvalidInput`, and may come from environment variables of a run.

    Raises:
        InvalidInput: A setting is unknown, missing or invalid.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __init__(self, **settings: Any) -> None:
            reason = None
            try:
                super().__init__(**settings)
            except ValidationError as error:
                reason = reason_of(error)
            if reason is not None:  # not raised from pydantic's error, which may contain a secret
                raise InvalidInput(reason)

    @field_validator("*", mode="wrap")
    @classmethod
    def _keep_environment_variable(cls, value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
        """Keep a `dg.EnvVar`. Dagster replaces it when a run starts, and the value is validated then."""
        return value if hasattr(value, "env_var_name") else validate(value)

    def of(self, group: type[Settings]) -> dict[str, Any]:
        """Return the settings that a group declares, by name."""
        return {name: getattr(self, name) for name in group.model_fields}


class ConnectionSettings(Settings):
    """How to connect to Kinesis. By default the chain of the AWS SDK applies (environment, profile, role)."""

    region_name: str | None = Field(
        default=None,
        description="AWS region of the stream, as in boto3. Not needed with an ARN.",
        examples=["eu-central-1"],
    )
    endpoint_url: Annotated[str | None, valid(_check_endpoint_url)] = Field(
        default=None,
        description="Endpoint of Kinesis, as in boto3. It must not contain a user or password.",
        examples=["http://127.0.0.1:4567"],
    )
    profile_name: str | None = Field(
        default=None,
        description="Profile of the AWS configuration, as in boto3. It must exist on Spark's executors too.",
        examples=["analytics"],
    )
    sdk_parser: bool = Field(
        default=False,
        description="Whether the AWS SDK requests and parses all records. This is several times slower, and "
        "a workaround in case the faster path fails.",
        examples=[True],
    )


class RunSettings(Settings):
    """What a run reads, and how it writes it."""

    stream: Annotated[str, valid(StreamAddress.parse)] = Field(
        kw_only=False,
        description="The stream's name; or its ARN, which may name another account or region.",
        examples=["clicks", "arn:aws:kinesis:eu-west-1:111122223333:stream/clicks"],
    )
    table: Annotated[str, valid(TableFolder.at)] = Field(
        description="Path or URI (s3://, file://) of the stream's Delta table. The first run creates it.",
        examples=["s3://my-lake/raw/clicks"],
    )
    start: Annotated[str | Mapping[str, str], valid(StartPositions.of)] = Field(
        default="TRIM_HORIZON",
        description="Where the first run starts: TRIM_HORIZON, LATEST, AT_TIMESTAMP:time, "
        "AT_SEQUENCE_NUMBER:number or AFTER_SEQUENCE_NUMBER:number; or a map of shard ids to such "
        "positions, with default for all other shards; or file:// and the path of a JSON or YAML file "
        "with such a map. Later runs continue from the table's positions.",
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
    spark_config: Mapping[str, Any] = Field(
        default={},
        description="Settings of the Spark session.",
        examples=[{"spark.master": "local[2,4]"}],
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

    @field_validator("spark_config", mode="before")
    @classmethod
    def _accept_none(cls, value: Any) -> Any:
        return {} if value is None else value


class StreamSettings(ConnectionSettings, RunSettings):
    """All settings of a stream: the arguments of `build_kinesis_stream` and the fields of its YAML."""

    sensor_interval_seconds: int = Field(
        default=30,
        ge=0,
        description="Minimum time between two ticks of the sensor.",
        examples=[60],
        json_schema_extra={UNIT: "seconds"},
    )
    maintenance_schedule: str | None = Field(
        default="17 3 * * *",  # once a day, when the late records of the previous day have landed
        description="Cron schedule of the maintenance job, in UTC.",
        examples=["0 4 * * 0"],
    )

    if not TYPE_CHECKING:  # as above

        def __init__(self, stream: str, **settings: Any) -> None:
            super().__init__(stream=stream, **settings)


def without_parser(field: FieldInfo) -> FieldInfo:
    """Return a field with the type and the bounds of a setting, but without its parser."""
    field = copy(field)
    field.metadata = [each for each in field.metadata if not isinstance(each, AfterValidator)]
    return field


def reason_of(error: ValidationError, name: str | None = None) -> str:
    """Return in one line what is wrong with some settings.

    Args:
        error: The error of their validation.
        name: The setting, if only its value was validated.
    """
    reasons: dict[str, str] = {}
    for details in error.errors():
        setting = name or ".".join(map(str, details["loc"][:1]))  # none if several do not fit together
        reasons.setdefault(setting, _reason(details, setting))  # a union has an error for each of its types
    return "; ".join(reasons.values())


def _reason(details: ErrorDetails, name: str) -> str:
    context = details.get("ctx", {})
    if isinstance(context.get("error"), InvalidInput):
        return str(context["error"])
    match details["type"]:
        case "missing":
            return f"{name} is missing"
        case "extra_forbidden":
            return f"unknown setting {name[:_MAX_SHOWN]}"
        case bound if bound in _BOUNDS:
            wanted = f"must be {_BOUNDS[bound].format_map(context)}"
        case _:
            wanted = details["msg"].replace("Input should be", "must be")
    return f"{name} {wanted}, not {repr(details['input'])[:_MAX_SHOWN]}"
