"""The settings of the asset checks: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AwareDatetime, Field, ValidationInfo, field_validator

from kinesis_assets.dagster.settings_base import UNIT, SchemaFrom, Settings, valid
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

Severity = Literal["WARN", "ERROR"]

SCANNING = frozenset({"no_duplicates"})
"""The checks that read rows, and are evaluated only when somebody executes them."""

OFF = "off"
"""The value of a check that is not defined. YAML reads it without quotes as false."""

_SEVERITY = "Severity of the check's failure in Dagster."


class CheckSettings(Settings):
    """What every check has.

    Attributes:
        severity: Severity of its failure.
    """

    severity: Severity = Field(default="ERROR", description=_SEVERITY, examples=["ERROR"])


class LagCheck(CheckSettings):
    """No shard is late: each is read up to its newest records, or up to some that are recent."""

    max_seconds: float = Field(
        default=900.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum age of the oldest record of a shard that may be unread. A shard that was read "
        "to its tip has none, until its next read is overdue.",
        examples=[300],
        json_schema_extra={UNIT: "seconds"},
    )
    severity: Severity = Field(default="WARN", description=_SEVERITY, examples=["WARN"])


class TimeToLossCheck(CheckSettings):
    """No unread record expires soon."""

    min_hours: float = Field(
        default=6.0,
        gt=0,
        allow_inf_nan=False,
        description="Minimum time until the first unread record of a shard may expire. It must be less than "
        "the stream's retention.",
        examples=[12],
        json_schema_extra={UNIT: "hours"},
    )


class ContinuityCheck(CheckSettings):
    """Each commit starts exactly where the previous one ended: no gap, and no overlap."""

    since: AwareDatetime | None = Field(
        default=None,
        description="Commits before this time are not checked. Set it once you have examined a break.",
        examples=["2026-01-31T12:00:00Z"],
    )


class EveryShardReadCheck(CheckSettings):
    """Every shard that can be read was read recently."""

    within_hours: float = Field(
        default=6.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum time since a shard was last read to its tip, or since its position last moved. "
        "It must be more than max_idle_seconds.",
        examples=[12],
        json_schema_extra={UNIT: "hours"},
    )
    severity: Severity = Field(default="WARN", description=_SEVERITY, examples=["WARN"])


class BadRecordsCheck(CheckSettings):
    """Few records are damaged."""

    max_share: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Maximum share of bad records among those that runs wrote in the last 24 hours.",
        examples=[0.001],
    )
    severity: Severity = Field(default="WARN", description=_SEVERITY, examples=["WARN"])


class NoAcceptedDataLossCheck(CheckSettings):
    """No records were given up. Gaps that a replay has filled do not count."""

    since: AwareDatetime | None = Field(
        default=None,
        description="Gaps that end before this time do not count. Set it once you have accepted a loss.",
        examples=["2026-01-31T12:00:00Z"],
    )


class CompactionDebtCheck(CheckSettings):
    """Maintenance keeps up with the small files."""

    max_small_files: int = Field(
        default=20_000,
        gt=0,
        description="Maximum number of files in the table that are smaller than 64 MiB.",
        examples=[50_000],
        json_schema_extra={UNIT: "files"},
    )
    severity: Severity = Field(default="WARN", description=_SEVERITY, examples=["WARN"])


class NoDuplicatesCheck(CheckSettings):
    """Each record is in the table once. It reads the keys of all rows, and only when it is executed."""


class Checks(Settings):
    """The checks of a raw table. None is a check that is not defined.

    Raises:
        InvalidInput: A setting is unknown or invalid.
    """

    lag: LagCheck | None = LagCheck()
    time_to_loss: TimeToLossCheck | None = TimeToLossCheck()
    every_shard_read: EveryShardReadCheck | None = EveryShardReadCheck()
    continuity: ContinuityCheck | None = ContinuityCheck()
    no_accepted_data_loss: NoAcceptedDataLossCheck | None = NoAcceptedDataLossCheck()
    bad_records: BadRecordsCheck | None = BadRecordsCheck()
    compaction_debt: CompactionDebtCheck | None = CompactionDebtCheck()
    no_duplicates: NoDuplicatesCheck | None = NoDuplicatesCheck()

    @field_validator("*", mode="before")
    @classmethod
    def _parse(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        kind: type[CheckSettings] = type(cls.model_fields[name].default)
        if value is None or isinstance(value, kind):
            return value
        if value is False or value == OFF:
            return None
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} must be off or a map of its settings, not {repr(value)[:80]}")
        try:
            return kind(**value)
        except InvalidInput as error:
            raise InvalidInput(f"{name}: {error}") from None

    @property
    def defined(self) -> Iterator[tuple[str, CheckSettings]]:
        """The name and the settings of each check that is defined."""
        for name in type(self).model_fields:
            check = getattr(self, name)
            if check is not None:
                yield name, check


def parse_checks(checks: Mapping[str, Any]) -> Checks:
    """Return the checks of a map, as in YAML. A check that is not in it has its defaults.

    Raises:
        InvalidInput: A setting is unknown or invalid.
    """
    try:
        return Checks(**checks)
    except InvalidInput as error:
        raise InvalidInput(f"checks: {error}") from None


def _schema() -> dict[str, Any]:
    """Return the JSON schema of the map, without references, so that it can be a part of any other one."""
    checks: dict[str, Any] = {}
    for name, field in Checks.model_fields.items():
        kind: type[CheckSettings] = type(field.default)
        schema = kind.model_json_schema()
        checks[name] = {
            "description": (kind.__doc__ or "").splitlines()[0],
            "anyOf": [
                {"type": "object", "properties": schema["properties"], "additionalProperties": False},
                {"enum": [OFF, False]},
            ],
        }
    return {"type": "object", "properties": checks, "additionalProperties": False}


ChecksField = Annotated[Mapping[str, Any], valid(parse_checks), SchemaFrom(_schema)]
"""The type of the setting `checks`: a map that `parse_checks` accepts."""
