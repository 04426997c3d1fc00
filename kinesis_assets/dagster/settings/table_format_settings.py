"""The settings of the format of a raw or derived table, and what opens the table in it."""

from __future__ import annotations

import re
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from kinesis_assets.dagster.settings.catalog_settings import CatalogField, iceberg_catalog_of, open_iceberg
from kinesis_assets.dagster.settings.settings_base import UNIT, Settings
from kinesis_assets.errors import InvalidInput
from kinesis_assets.table.format import DerivedIn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kinesis_assets.dagster.settings.catalog_settings import AwsSettings
    from kinesis_assets.table.format import RawFormat
    from kinesis_assets.table.format import TableFormat as OpenFormat
    from kinesis_assets.table.iceberg.catalog import IcebergCatalog
    from kinesis_assets.table.snapshot import ChainedTable

TableFormat = Literal["delta", "iceberg"]

_ORDINARY_BUCKET = re.compile(r"s3://(?![^/]*--table-s3(?:/|$))")
"""The start of the URI of a folder in a bucket that is not that of a table of S3 Tables."""


class TableInFormat(Settings):
    """A table in a format.

    Attributes:
        named_by: The setting with the name of the format.
    """

    named_by: ClassVar[str]

    catalog: CatalogField = Field(
        default={},
        description="Of a Delta table, where it is registered in the AWS Glue Data Catalog: a map with "
        "database, and perhaps name, region_name, role_arn and external_id, see docs/catalog.md. By default "
        "it is not. Of an Iceberg table, its catalog: a map with type, database, and perhaps name, uri, "
        "warehouse, catalog_name and properties of pyiceberg, and of a catalog of AWS region_name, role_arn "
        "and external_id, see docs/iceberg.md. With the type s3tables, table is the folder of the positions.",
        examples=[{"database": "lake"}],
    )
    keep_snapshots: int = Field(
        default=50,
        ge=1,
        description="How many snapshots of an Iceberg table each commit keeps at least, the newest ones. The "
        "more there are, the longer a commit takes.",
        examples=[200],
    )
    keep_snapshot_hours: int = Field(
        default=0,
        ge=0,
        description="How long other snapshots of an Iceberg table are kept.",
        examples=[24],
        json_schema_extra={UNIT: "hours"},
    )

    @model_validator(mode="after")
    def _check_catalog(self) -> Self:
        named = f"{self.named_by}: iceberg"
        if not self.is_iceberg:
            others = TableInFormat.model_fields
            changed = [
                name
                for name in ("keep_snapshots", "keep_snapshot_hours")
                if getattr(self, name) != others[name].default
            ]
            if "type" in self.catalog:
                changed.append("catalog: type")
            if changed:
                raise InvalidInput(f"{changed[0]}: only with {named}")
            return self
        if not self.catalog:
            raise InvalidInput(
                f"{named} needs the setting catalog, such as {{type: rest, uri: ..., database: lake}}"
            )
        if "type" not in self.catalog:
            raise InvalidInput(
                "catalog: type: give that of the catalog of the Iceberg table: sql, rest, glue or s3tables"
            )
        if self.catalog["type"] == "s3tables" and not _ORDINARY_BUCKET.match(str(getattr(self, "table", ""))):
            raise InvalidInput(
                "table: with a catalog of the type s3tables, give a folder in an ordinary bucket, as in "
                "s3://bucket/prefix: it has the positions, which S3 Tables would delete in a table bucket"
            )
        if find_spec("pyiceberg") is None:
            raise InvalidInput(f"{named} needs pyiceberg: pip install 'kinesis-assets[iceberg]'")
        return self

    @property
    def is_iceberg(self) -> bool:
        """Whether it is an Iceberg table."""
        return bool(getattr(self, self.named_by) == "iceberg")

    @property
    def registration(self) -> Mapping[str, str]:
        """Where a Delta table is registered, see `catalog_of`. An Iceberg table is in its catalog anyway."""
        return {} if self.is_iceberg else self.catalog

    def name_in_catalog(self, asset: str) -> str | None:
        """Return the namespace and name of an Iceberg table, as engines name it; None for a Delta table.

        Args:
            asset: The last part of the asset key, which is the table's name by default.
        """
        return iceberg_catalog_of(self.catalog)[0].full_name(asset) if self.is_iceberg else None

    def iceberg_catalog(self, asset: str, aws_settings: AwsSettings) -> IcebergCatalog:
        """Return the catalog of an Iceberg table. The first argument is as above."""
        return open_iceberg(
            self.catalog,
            asset,
            aws_settings,
            snapshots_kept=self.keep_snapshots,
            snapshot_hours=self.keep_snapshot_hours,
        )

    def derived_in(self, asset: str, aws_settings: AwsSettings) -> DerivedIn | None:
        """Return the format of a derived table; None for Delta Lake. The arguments are as above."""
        return DerivedIn(partial(_derived_format, self, asset, aws_settings)) if self.is_iceberg else None


class RawTableFormat(TableInFormat):
    """The format of a raw table."""

    named_by: ClassVar = "format"

    format: TableFormat = Field(
        default="delta",
        description="Format of the raw table. Iceberg needs a catalog; see docs/iceberg.md.",
        examples=["iceberg"],
    )

    def format_of(self, asset: str, aws_settings: AwsSettings) -> RawFormat | None:
        """Return what opens the table in its format; None for Delta Lake.

        The arguments are those of `iceberg_catalog`.
        """
        return partial(_iceberg_format, self, asset, aws_settings) if self.is_iceberg else None


class DerivedTableFormat(TableInFormat):
    """The format of a derived table."""

    named_by: ClassVar = "table_format"

    table_format: TableFormat = Field(
        default="delta",
        description="Format of the table. Iceberg needs a catalog; see docs/iceberg.md.",
        examples=["iceberg"],
    )


def _iceberg_format(
    settings: RawTableFormat, asset: str, aws_settings: AwsSettings, table: ChainedTable
) -> OpenFormat:
    from kinesis_assets.table.iceberg.raw_table import IcebergFormat  # noqa: PLC0415  # loads pyiceberg

    return IcebergFormat(table, settings.iceberg_catalog(asset, aws_settings))


def _derived_format(settings: TableInFormat, asset: str, aws_settings: AwsSettings, table: Any) -> Any:
    from kinesis_assets.derive.iceberg_table import IcebergDerived  # noqa: PLC0415  # loads pyiceberg

    return IcebergDerived(table, settings.iceberg_catalog(asset, aws_settings))
