"""The derived tables whose checks are evaluated, found in the definitions of a code location."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kinesis_assets.dagster.consumption import derived_tables, has_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dagster as dg

    from kinesis_assets.dagster.consumption import Consumption
    from kinesis_assets.dagster.settings.check_settings import DerivedChecks
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.derive.policy import OnDeleted
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.format import DerivedIn, SourceFormat


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A derived table and its checks.

    Attributes:
        stream: The stream whose records it is derived from.
        source: The path or URI of its source, see `open_source`.
        on_deleted: What its runs do if rows of the source were deleted.
        unique: The columns whose values together occur once; empty if there are none.
        role: The role that accesses the table and its source; None for the credentials of the process.
        groups: The columns of the groups of a roll-up; empty if it is none.
        partition_by: The partition columns; None if they are not known.
        is_router: Whether other tables consume its rows by their route.
        catalog: Where the table is registered, see `catalog_of`; empty if it is not.
        source_format: Returns the format of its source, see `Derivation`.
        format: Returns its format; None for Delta Lake.
    """

    key: dg.AssetKey
    stream: StreamNames
    uri: str
    source: str
    on_deleted: OnDeleted
    unique: tuple[str, ...]
    checks: DerivedChecks
    role: AssumedRole | None = None
    groups: tuple[str, ...] = ()
    partition_by: tuple[str, ...] | None = None
    is_router: bool = False
    catalog: Mapping[str, str] = field(default_factory=dict)
    source_format: SourceFormat | None = None
    format: DerivedIn | None = None

    @classmethod
    def of(
        cls,
        key: dg.AssetKey,
        consumption: Consumption,
        upstream: dg.AssetsDefinition,
        opened: OpenStream,
    ) -> CheckedTable:
        """Return the table of an asset, as its stream opens it."""
        return cls(
            key,
            consumption.stream,
            consumption.table,
            consumption.source(upstream),
            consumption.on_deleted,
            consumption.unique,
            consumption.checks,
            opened.role,
            consumption.groups,
            consumption.partition_by,
            consumption.is_router,
            consumption.registration,
            consumption.source_format(upstream, opened),
            consumption.format_in(opened),
        )

    @property
    def name(self) -> str:
        """The name under which the sensor remembers the table."""
        return self.key.to_user_string()


def checked_tables(
    definitions: Mapping[dg.AssetKey, dg.AssetsDefinition], opened: OpenStream
) -> list[CheckedTable]:
    """Return the derived tables of a stream among the assets of a code location, in the order of their keys.

    Tables with neither checks nor an entry in a catalog are left out, and those whose source is not one of
    these assets: their runs fail.
    """
    return [
        CheckedTable.of(key, each, definitions[each.upstream], opened)
        for key, each in derived_tables(definitions, opened.names).items()
        if (each.checks.reading_no_rows or each.registration) and has_uri(definitions, each.upstream)
    ]
