"""The settings of asset checks: what all have in common, and the checks of raw and of derived tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AwareDatetime, Field, ValidationInfo, field_validator

from kinesis_assets.dagster.settings.settings_base import (
    UNIT,
    SchemaFrom,
    Settings,
    map_schema,
    naming,
    valid,
)
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


Severity = Literal["WARN", "ERROR"]

SCANNING = frozenset({"no_duplicates"})
"""The checks that read rows, and are evaluated only when somebody executes them."""

OFF = "off"
"""The value of a check that is not defined. YAML reads it without quotes as false."""

SEVERITY = "Severity of the check's failure in Dagster."


class CheckSettings(Settings):
    """The settings of every check."""

    severity: Severity = Field(default="ERROR", description=SEVERITY, examples=["ERROR"])

    @classmethod
    def summary(cls) -> str:
        """Return what the check claims, in one line."""
        return (cls.__doc__ or "").splitlines()[0]


class WarningSettings(CheckSettings):
    """The settings of a check whose failure is a warning, unless they say otherwise."""

    severity: Severity = Field(default="WARN", description=SEVERITY, examples=["WARN"])


class NamedChecks(Settings):
    """The checks of a table by name: each field is one. None is a check that is not defined."""

    @field_validator("*", mode="before")
    @classmethod
    def _parse(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        kind = cls._kind(name)
        if value is None or isinstance(value, kind):
            return value
        if value is False or value == OFF:
            return None
        if not isinstance(value, Mapping):
            raise InvalidInput(f"{name} must be off or a map of its settings, not {repr(value)[:80]}")
        with naming(name):
            return kind(**value)

    @property
    def defined(self) -> Iterator[tuple[str, CheckSettings]]:
        """The name and the settings of each check that is defined."""
        for name in type(self).model_fields:
            check = getattr(self, name)
            if check is not None:
                yield name, check

    @property
    def reading_no_rows(self) -> list[str]:
        """The names of the checks that are defined and evaluated without being executed."""
        return [name for name, _ in self.defined if name not in SCANNING]

    def scan_is_requested(self, selected: Collection[str], *, materializes: bool) -> bool:
        """Return whether a run is to evaluate the checks that read rows.

        A selection of assets includes all their checks. So in a run that materializes the table, only a
        selection without the other checks is a request.
        """
        if not SCANNING.intersection(selected):
            return False
        return not materializes or (SCANNING.issuperset(selected) and any(self.reading_no_rows))

    @classmethod
    def parse(cls, checks: Mapping[str, Any]) -> Self:
        """Return the checks of a map, as in YAML. A check that is not in it has its defaults."""
        with naming("checks"):
            return cls(**checks)

    def without(self, names: Iterable[str], reason: str) -> Self:
        """Return these checks without some that the table cannot have.

        Args:
            reason: When a table can have them, for the error.

        Raises:
            InvalidInput: One of them was given.
        """
        names = list(names)
        for name in names:
            if name in self.model_fields_set and getattr(self, name) is not None:
                raise InvalidInput(f"checks: {name}: {reason}; remove it")
        return self.model_copy(update=dict.fromkeys(names))

    @classmethod
    def map_schema(cls) -> dict[str, Any]:
        """Return the JSON schema of the map, without references, so that it can be a part of any other."""
        checks: dict[str, Any] = {}
        for name in cls.model_fields:
            kind = cls._kind(name)
            checks[name] = {
                "description": kind.summary(),
                "anyOf": [map_schema(kind), {"enum": [OFF, False]}],
            }
        return {"type": "object", "properties": checks, "additionalProperties": False}

    @classmethod
    def _kind(cls, name: str) -> type[CheckSettings]:
        """Return the class of a check's settings, of which the default is an instance."""
        return type(cls.model_fields[name].default)


class LagCheck(WarningSettings):
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


class EveryShardReadCheck(WarningSettings):
    """Every shard that can be read was read recently."""

    within_hours: float = Field(
        default=6.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum time since a shard was last read to its tip, or since its position last moved. "
        "For a shard without new records, at least an hour more than its next read is due, see "
        "max_idle_seconds.",
        examples=[12],
        json_schema_extra={UNIT: "hours"},
    )


class BadRecordsCheck(WarningSettings):
    """Few records are damaged."""

    max_share: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Maximum share of bad records among those that runs wrote in the last 24 hours.",
        examples=[0.001],
    )


class NoAcceptedDataLossCheck(CheckSettings):
    """No records were given up. Gaps that a replay has filled do not count."""

    since: AwareDatetime | None = Field(
        default=None,
        description="Gaps that end before this time do not count. Set it once you have accepted a loss.",
        examples=["2026-01-31T12:00:00Z"],
    )


class CompactionDebtCheck(WarningSettings):
    """Maintenance keeps up with the small files."""

    max_small_files: int = Field(
        default=20_000,
        gt=0,
        description="Maximum number of files in the table that are smaller than 64 MiB.",
        examples=[50_000],
        json_schema_extra={UNIT: "files"},
    )


class LeaseTableCheck(WarningSettings):
    """The lease table in which runs mirror the positions is not late."""

    max_seconds: float = Field(
        default=900.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum time for which the lease table may not have the newest positions.",
        examples=[300],
        json_schema_extra={UNIT: "seconds"},
    )


class CatalogCheck(WarningSettings):
    """The entry of the table in the AWS Glue Data Catalog has its columns."""


class ConsumerCheck(WarningSettings):
    """Continuous runs read by the consumer of the settings, not with GetRecords."""

    max_seconds: float = Field(
        default=900.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum time for which a shard may be read with GetRecords instead.",
        examples=[300],
        json_schema_extra={UNIT: "seconds"},
    )


class NoDuplicatesCheck(CheckSettings):
    """Each record is in the table once. It reads the keys of all rows, and only when it is executed."""


class Checks(NamedChecks):
    """The checks of a raw table."""

    lag: LagCheck | None = LagCheck()
    time_to_loss: TimeToLossCheck | None = TimeToLossCheck()
    every_shard_read: EveryShardReadCheck | None = EveryShardReadCheck()
    continuity: ContinuityCheck | None = ContinuityCheck()
    no_accepted_data_loss: NoAcceptedDataLossCheck | None = NoAcceptedDataLossCheck()
    bad_records: BadRecordsCheck | None = BadRecordsCheck()
    compaction_debt: CompactionDebtCheck | None = CompactionDebtCheck()
    lease_table: LeaseTableCheck | None = LeaseTableCheck()
    catalog: CatalogCheck | None = CatalogCheck()
    consumer: ConsumerCheck | None = ConsumerCheck()
    no_duplicates: NoDuplicatesCheck | None = NoDuplicatesCheck()


ChecksField = Annotated[Mapping[str, Any], valid(Checks.parse), SchemaFrom(Checks.map_schema)]


class DerivedLagCheck(WarningSettings):
    """New rows of the source are consumed soon."""

    max_seconds: float = Field(
        default=900.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum age of the oldest commit of the source with rows that may not be consumed.",
        examples=[300],
        json_schema_extra={UNIT: "seconds"},
    )


class DerivedContinuityCheck(CheckSettings):
    """The table can continue where it ended in its source: no commit in between and no row is missing."""


class DerivedDataLossCheck(CheckSettings):
    """No rows of the source were given up because they had expired, as on_deleted allows."""

    since: AwareDatetime | None = Field(
        default=None,
        description="What was given up before this time does not count. Set it once you have accepted that.",
        examples=["2026-01-31T12:00:00Z"],
    )


class DerivedBadRecordsCheck(BadRecordsCheck):
    """Few records cannot be decoded."""


class UnmatchedRecordsCheck(WarningSettings):
    """Few records have no route."""

    max_share: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Maximum share of records that no route matches among those that runs wrote in the last "
        "24 hours.",
        examples=[0.5],
    )


class DerivedNoDuplicatesCheck(CheckSettings):
    """Each key is in the table once. It reads the keys of all rows, and only when it is executed."""


class DerivedChecks(NamedChecks):
    """The checks of a derived table."""

    lag: DerivedLagCheck | None = DerivedLagCheck()
    continuity: DerivedContinuityCheck | None = DerivedContinuityCheck()
    no_accepted_data_loss: DerivedDataLossCheck | None = DerivedDataLossCheck()
    bad_records: DerivedBadRecordsCheck | None = DerivedBadRecordsCheck()
    unmatched_records: UnmatchedRecordsCheck | None = UnmatchedRecordsCheck()
    compaction_debt: CompactionDebtCheck | None = CompactionDebtCheck()
    catalog: CatalogCheck | None = CatalogCheck()
    no_duplicates: DerivedNoDuplicatesCheck | None = DerivedNoDuplicatesCheck()


DerivedChecksField = Annotated[
    Mapping[str, Any], valid(DerivedChecks.parse), SchemaFrom(DerivedChecks.map_schema)
]
