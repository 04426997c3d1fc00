"""The settings of the asset checks of a raw table: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from kinesis_assets.dagster.settings.check_settings import SEVERITY, CheckSettings, NamedChecks, Severity
from kinesis_assets.dagster.settings.settings_base import UNIT, SchemaFrom, valid


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
    severity: Severity = Field(default="WARN", description=SEVERITY, examples=["WARN"])


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
    severity: Severity = Field(default="WARN", description=SEVERITY, examples=["WARN"])


class BadRecordsCheck(CheckSettings):
    """Few records are damaged."""

    max_share: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Maximum share of bad records among those that runs wrote in the last 24 hours.",
        examples=[0.001],
    )
    severity: Severity = Field(default="WARN", description=SEVERITY, examples=["WARN"])


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
    severity: Severity = Field(default="WARN", description=SEVERITY, examples=["WARN"])


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
    no_duplicates: NoDuplicatesCheck | None = NoDuplicatesCheck()


ChecksField = Annotated[Mapping[str, Any], valid(Checks.parse), SchemaFrom(Checks.map_schema)]
"""The type of the setting `checks`: a map that `Checks.parse` accepts."""
