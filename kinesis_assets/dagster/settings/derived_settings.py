"""The settings of a derived table: the only place where one is declared."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, ClassVar, Self
from zoneinfo import ZoneInfo

import dagster as dg
from pydantic import AfterValidator, Field, model_validator

from kinesis_assets.dagster.settings.asset_settings import AssetSettings, DescribedAsset
from kinesis_assets.dagster.settings.check_settings import DerivedChecks, DerivedChecksField
from kinesis_assets.dagster.settings.settings_base import UNIT, Columns, Partitions, Settings, valid
from kinesis_assets.dagster.settings.table_format_settings import DerivedTableFormat
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.derive.policy import MAX_BYTES, TIME_ZONE, OnDeleted, Retention
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.partition_field import partition_fields
from kinesis_assets.table.store.storage import TableFolder


def _check_time_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput(
            f"time_zone: invalid time zone {name[:80]!r}; give its name in the IANA database, such as "
            "Europe/Berlin"
        ) from None


_MAX_DURATION = timedelta(days=36_500)
_DURATION = re.compile(r"([1-9]\d{0,5}) (minute|hour|day)s?")


def parse_deleted_for(text: str) -> timedelta:
    """Return how long deletions are remembered, which is written as a number and a unit, such as 7 days."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(
            f"deleted_for: invalid duration {text[:80]!r}; give a number of minutes, hours or days, such as "
            "7 days"
        )
    duration = timedelta(**{f"{match[2]}s": int(match[1])})
    if duration > _MAX_DURATION:
        raise InvalidInput(f"deleted_for: {text} is more than {_MAX_DURATION.days} days; give less")
    return duration


def asset_key(setting: str) -> AfterValidator:
    """Validate a setting that is an asset key."""

    def check(name: str) -> None:
        if not all(dg.AssetKey.from_user_string(name).path):
            raise InvalidInput(
                f"{setting}: invalid asset key {name[:80]!r}: a part of it is empty; its form is sales/orders"
            )

    return valid(check)


class ConsumptionSettings(Settings):
    """The settings of a derived table's source, and of the table that its rows are written to."""

    source: Annotated[str, valid(StreamNames.parse)] = Field(
        description="Name or ARN of the stream; or the asset key of a stream with a key_prefix. The rows of "
        "its raw table are consumed, on the Spark session of its runs.",
        examples=["orders", "eu/orders"],
    )
    upstream: Annotated[str | None, asset_key("upstream")] = Field(
        default=None,
        description="Asset key of a derived table of the same stream whose rows are consumed instead.",
        examples=["latest_orders"],
    )
    table: Annotated[str, valid(TableFolder.at)] = Field(
        description="Path or URI (s3://, file://) of the table. The first run creates it.",
        examples=["s3://my-lake/orders"],
    )
    partition_by: Partitions = Field(
        default=(),
        description="Partitions of a new table: columns with texts, dates or integers. Those of an Iceberg "
        "table may also be year, month, day or hour of a column, as in day(at), bucket(16, id) or "
        "truncate(4, name).",
        examples=[["order_date"]],
    )
    on_deleted: OnDeleted = Field(
        default=OnDeleted.FAIL,
        description="What to do if rows were deleted from the source, as by a seek, or before they were "
        "consumed: fail; ignore them and keep what was derived from them; or rebuild the table from the rows "
        "that the source has, which is also done if a column gets another type, but only if the source still "
        "has all rows that were consumed.",
        examples=["rebuild"],
    )
    time_zone: Annotated[str, valid(_check_time_zone)] = Field(
        default=TIME_ZONE,
        description="Time zone, by its name in the IANA database, in which Spark evaluates the function and "
        "the expressions of the table, whatever that of the session or of the machine is.",
        examples=["Europe/Berlin"],
    )

    @property
    def upstream_key(self) -> dg.AssetKey:
        """The key of the asset whose rows are consumed."""
        if self.upstream is None:
            return StreamNames.parse(self.source).raw_key
        return dg.AssetKey.from_user_string(self.upstream)


class DerivedSettings(DescribedAsset, AssetSettings, DerivedTableFormat, ConsumptionSettings):
    """The settings that all derived tables have."""

    read_by_runs: ClassVar = frozenset()  # they are in definitions, and in no resource

    retention_days: int | None = Field(
        default=None,
        ge=1,
        le=36_500,
        description="Age of rows, by retention_column, after which maintenance permanently deletes them. "
        "Tables below keep what they have derived from them. By default no rows are deleted.",
        examples=[90],
        json_schema_extra={UNIT: "days"},
    )
    retention_column: str | None = Field(
        default=None,
        description="Column with the date, or the timestamp, by which rows expire, in UTC. Rows in which it "
        "is null are kept. Required with retention_days.",
        examples=["order_date"],
    )
    checks: DerivedChecksField = Field(
        default={},
        description="Bounds and severities of the asset checks of the table, by the name of the check; off "
        "for a check that is not needed. See docs/checks.md.",
        examples=[{"lag": {"max_seconds": 300, "severity": "ERROR"}, "compaction_debt": "off"}],
    )

    @property
    def checks_of_table(self) -> DerivedChecks:
        """The checks that the table has.

        Raises:
            InvalidInput: One is given that it cannot have.
        """
        return self._parsed_checks.without(["unmatched_records"], "only of a router")

    @property
    def _parsed_checks(self) -> DerivedChecks:
        checks = DerivedChecks.parse(self.checks)
        if self.registration:
            return checks
        return checks.without(["catalog"], "only of a Delta table with the setting catalog")

    @property
    def retention(self) -> Retention | None:
        """How long the table keeps rows; None if it keeps all."""
        if self.retention_days is None or self.retention_column is None:
            return None
        return Retention(self.retention_column, self.retention_days)

    @model_validator(mode="after")
    def _check_checks(self) -> Self:
        _ = self.checks_of_table
        return self

    @model_validator(mode="after")
    def _check_partitions(self) -> Self:
        fields = partition_fields(self.partition_by)
        transforms = [field for field in fields if field.transform != "identity"]
        if transforms and not self.is_iceberg:
            raise InvalidInput(
                f"partition_by: {transforms[0]}: a transform, which only an Iceberg table has; set "
                "table_format to iceberg, or name a column, as one from CAST(at AS DATE)"
            )
        return self

    @model_validator(mode="after")
    def _check_retention(self) -> Self:
        if (self.retention_days is None) != (self.retention_column is None):
            missing = "retention_days" if self.retention_days is None else "retention_column"
            other = "retention_column" if self.retention_days is None else "retention_days"
            raise InvalidInput(f"{missing}: required with {other}, since both say which rows expire")
        return self


class DerivedTableSettings(DerivedSettings):
    """The settings of a table to which rows are appended, or in which they replace those with their key."""

    key: Columns = Field(
        default=(),
        description="Columns that identify a row. A new row replaces the one with its key. Without a key, "
        "rows are appended. A row in which one of them is null is appended too.",
        examples=[["order_id"]],
    )
    order_by: Columns = Field(
        default=(),
        description="Columns by which the newest row of a key is found, most significant first. Required "
        "with a key. Of equal rows, the later one is newer: by the commits of the source, and then by the "
        "sequence number.",
        examples=[["updated_at"]],
    )
    delete_where: str | None = Field(
        default=None,
        description="Condition in Spark SQL. A row for which it is true deletes its key, unless the table "
        "has a newer row. If it fails for a row, so does the run.",
        examples=["op = 'DELETE'"],
    )
    deleted_for: Annotated[str | None, valid(parse_deleted_for)] = Field(
        default=None,
        description="Minimum time for which deletions by delete_where are remembered, in minutes, hours or "
        "days. A row that is older than the deletion of its key, and consumed within that time after it, "
        "does not insert the key again. By default deletions are not remembered.",
        examples=["7 days"],
    )
    max_bytes: int = Field(
        default=MAX_BYTES,
        gt=0,
        description="Size of the source's files after which a step of a run includes no further commit.",
        examples=[256 << 20],
        json_schema_extra={UNIT: "bytes"},
    )
    max_bad_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Maximum share of bad records among those of a step. Above it, the run fails "
        "before the step is committed. By default there is no limit. In Python, they are the rows in which "
        "the column error is not null, which the function must return.",
        examples=[0.01],
    )

    @property
    def checks_of_table(self) -> DerivedChecks:
        """The checks that the table has, see `DerivedSettings`."""
        checks = super().checks_of_table
        return checks if self.key else checks.without(["no_duplicates"], "only with a key")

    @model_validator(mode="after")
    def _check_upsert(self) -> Self:
        if self.key and not self.order_by:
            raise InvalidInput("order_by: required with a key, to find the newest row")
        if not self.key and (self.order_by or self.delete_where):
            raise InvalidInput("key: required with order_by and delete_where")
        if self.deleted_for is not None and self.delete_where is None:
            raise InvalidInput("delete_where: required with deleted_for, which remembers what it deletes")
        return self


class RollupSettings(DerivedSettings):
    """The settings of a table whose rows are computed again for each group that changed."""

    by: Columns = Field(
        min_length=1,
        description="Columns of the source and of the table whose values identify a group. If a row of a "
        "group is added, replaced or deleted, all rows of the group are computed again.",
        examples=[["order_date"]],
    )

    @property
    def checks_of_table(self) -> DerivedChecks:
        """The checks that the table has, see `DerivedSettings`."""
        return super().checks_of_table.without(["bad_records", "no_duplicates"], "not of a roll-up")
