"""The settings of the asset checks of a derived table: the only place where one is declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from kinesis_assets.dagster.settings.check_settings import SEVERITY, CheckSettings, NamedChecks, Severity
from kinesis_assets.dagster.settings.settings_base import UNIT, SchemaFrom, valid
from kinesis_assets.dagster.settings.stream_check_settings import BadRecordsCheck, CompactionDebtCheck


class DerivedLagCheck(CheckSettings):
    """New rows of the source are consumed soon."""

    max_seconds: float = Field(
        default=900.0,
        gt=0,
        allow_inf_nan=False,
        description="Maximum age of the oldest commit of the source with rows that may not be consumed.",
        examples=[300],
        json_schema_extra={UNIT: "seconds"},
    )
    severity: Severity = Field(default="WARN", description=SEVERITY, examples=["WARN"])


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


class DerivedNoDuplicatesCheck(CheckSettings):
    """Each key is in the table once. It reads the keys of all rows, and only when it is executed."""


class DerivedChecks(NamedChecks):
    """The checks of a derived table."""

    lag: DerivedLagCheck | None = DerivedLagCheck()
    continuity: DerivedContinuityCheck | None = DerivedContinuityCheck()
    no_accepted_data_loss: DerivedDataLossCheck | None = DerivedDataLossCheck()
    bad_records: DerivedBadRecordsCheck | None = DerivedBadRecordsCheck()
    compaction_debt: CompactionDebtCheck | None = CompactionDebtCheck()
    no_duplicates: DerivedNoDuplicatesCheck | None = DerivedNoDuplicatesCheck()


DerivedChecksField = Annotated[
    Mapping[str, Any], valid(DerivedChecks.parse), SchemaFrom(DerivedChecks.map_schema)
]
"""The type of the setting `checks` of a derived table: a map that `DerivedChecks.parse` accepts."""
