"""The derived tables of a code location: how runs consume their sources, and which checks are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.dagster_internals import body_of, definition_of
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import dagster as dg
    from pyspark.sql import SparkSession

    from kinesis_assets.dagster.settings.check_settings import DerivedChecks
    from kinesis_assets.dagster.settings.derived_settings import DerivedSettings
    from kinesis_assets.dagster.stream import OpenStream
    from kinesis_assets.dagster.stream_names import StreamNames
    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derivation import Derivation
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.kinesis.role import AssumedRole
    from kinesis_assets.table.format import DerivedIn, SourceFormat

_ATTRIBUTE = "_kinesis_consumption"

_URI = "dagster/uri"


@dataclass(frozen=True, slots=True)
class Consumption:
    """A derived table, and how it is computed.

    Attributes:
        asset: The last part of its asset key, which is its name in a catalog by default.
        derivation: Returns the derivation for the path or URI of the source.
        unique: The columns whose values together occur once in the table; empty if there are none.
        place: The file and the line that name the source, for errors; empty if they are not known.
        of_errors: Whether its source are the records that the table of *upstream* has separated.
        routes: If its source is a router, the values of the column `route` of the rows that it consumes.
        groups: The columns of the groups of a roll-up; empty if it is none.
    """

    settings: DerivedSettings
    asset: str
    stream: StreamNames
    upstream: dg.AssetKey
    checks: DerivedChecks
    derivation: Callable[[str], Derivation]
    unique: tuple[str, ...] = ()
    place: str = ""
    of_errors: bool = False
    groups: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    is_router: bool = False

    def commits(
        self,
        context: dg.AssetExecutionContext,
        key: dg.AssetKey,
        opened: OpenStream,
        table: DerivedTable,
        spark: SparkSession,
    ) -> Iterator[DerivedCommit]:
        """Consume what the source has now, and yield each commit. The executors are checked before the first.

        Raises what `check_executors` and `derive` raise.
        """
        from kinesis_assets.derive.run import derive  # noqa: PLC0415  # definitions open no table
        from kinesis_assets.ingest.executor_check import check_executors  # noqa: PLC0415  # as above

        check_executors(spark, f"table {self.settings.table}", table.folder)
        derivation = self.owned(key, definition_of(context, self.upstream), opened)
        return derive(spark, table, derivation, by=context.run.run_id)

    def source(self, upstream: dg.AssetsDefinition) -> str:
        """Return the path or URI of the source, see `open_source`.

        Raises:
            InvalidInput: The definition names no table.
        """
        from kinesis_assets.derive.data_files import ERRORS_FOLDER, routes_folder  # noqa: PLC0415  # as above

        uri = uri_of(upstream, self.upstream)
        if self.routes:
            return routes_folder(uri, self.routes)
        return f"{uri.rstrip('/')}/{ERRORS_FOLDER}" if self.of_errors else uri

    def source_format(self, upstream: dg.AssetsDefinition, opened: OpenStream) -> SourceFormat | None:
        """Return the format of the source, see `Derivation`."""
        if self.upstream == self.stream.raw_key:
            return opened.raw_format
        above = consumption_of(upstream)
        return None if above is None else above.format_in(opened)

    def owned(self, key: dg.AssetKey, upstream: dg.AssetsDefinition, opened: OpenStream) -> Derivation:
        """Return the derivation, with the table's asset as its owner. Raises as `source`."""
        derivation = self.derivation(self.source(upstream))
        source_format = self.source_format(upstream, opened)
        return replace(derivation, owner=key.to_user_string(), source_format=source_format)

    def format_in(self, opened: OpenStream) -> DerivedIn | None:
        """Return the format of the table, whose catalog is called as the stream is; None for Delta Lake."""
        return self.settings.derived_in(self.asset, opened.aws_settings)

    def open_table(self, opened: OpenStream) -> DerivedTable:
        """Return the table, which may not exist yet, with the role of the stream."""
        from kinesis_assets.derive.derived_table import DerivedTable  # noqa: PLC0415  # as above

        return DerivedTable(self.settings.table, role=opened.role, format=self.format_in(opened))


def uri_of(definition: dg.AssetsDefinition, key: dg.AssetKey) -> str:
    """Return the path or URI of the table of an asset, which its definition names."""
    uri = definition.metadata_by_key.get(key, {}).get(_URI)
    if uri is None:
        raise InvalidInput(
            f"upstream: the code location has no table with the asset key {key.to_user_string()}"
        )
    return str(uri)


def has_uri(definitions: Mapping[dg.AssetKey, dg.AssetsDefinition], key: dg.AssetKey) -> bool:
    """Return whether an asset is among some, and its definition names the path or URI of a table."""
    return key in definitions and _URI in definitions[key].metadata_by_key.get(key, {})


def attach(consumption: Consumption, body: Callable[..., Any]) -> None:
    """Attach a consumption to the body of its asset, for `consumption_of`."""
    setattr(body, _ATTRIBUTE, consumption)


def consumption_of(definition: dg.AssetsDefinition) -> Consumption | None:
    """Return the consumption of an asset; None if it is no derived table."""
    return getattr(body_of(definition), _ATTRIBUTE, None)


def derived_tables(
    definitions: Mapping[dg.AssetKey, dg.AssetsDefinition], stream: StreamNames | None = None
) -> dict[dg.AssetKey, Consumption]:
    """Return the derived tables of a stream, or of all, among the assets of a code location, by key."""
    found = {key: consumption_of(definition) for key, definition in sorted(definitions.items())}
    return {key: each for key, each in found.items() if each and stream in {None, each.stream}}


def table_of(
    definitions: Mapping[dg.AssetKey, dg.AssetsDefinition], opened: OpenStream, asset: str
) -> tuple[dg.AssetKey, Consumption, Derivation]:
    """Return the key of the derived table of an asset, its consumption, and how it is computed.

    Raises:
        InvalidInput: The stream has no such derived table, or the code location does not have its source.
    """
    tables = derived_tables(definitions, opened.names)
    found = {key.to_user_string(): key for key in tables}
    if asset not in found:
        others = ", ".join(found) or "none"
        raise InvalidInput(f"asset {asset}: no derived table of stream {opened.name}; these are {others}")
    key, consumption = found[asset], tables[found[asset]]
    if consumption.upstream not in definitions:
        raise InvalidInput(
            f"asset {asset}: its source {consumption.upstream.to_user_string()} is not defined"
        )
    return key, consumption, consumption.owned(key, definitions[consumption.upstream], opened)


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A derived table whose checks are evaluated, as its stream opens it.

    Attributes:
        source: The path or URI of its source, see `open_source`.
        role: The role that accesses the table and its source; None for the credentials of the process.
        source_format: Returns the format of its source, see `Derivation`.
        format: Returns its format; None for Delta Lake.
    """

    key: dg.AssetKey
    consumption: Consumption
    source: str
    role: AssumedRole | None = None
    source_format: SourceFormat | None = None
    format: DerivedIn | None = None

    @classmethod
    def of(
        cls, key: dg.AssetKey, consumption: Consumption, upstream: dg.AssetsDefinition, opened: OpenStream
    ) -> CheckedTable:
        """Return the table of an asset. Raises as `Consumption.source`."""
        source, source_format = consumption.source(upstream), consumption.source_format(upstream, opened)
        return cls(key, consumption, source, opened.role, source_format, consumption.format_in(opened))

    @property
    def name(self) -> str:
        """The name under which the sensor remembers the table."""
        return self.key.to_user_string()

    @property
    def uri(self) -> str:
        """Its path or URI."""
        return self.consumption.settings.table

    @property
    def checks(self) -> DerivedChecks:
        """Its checks."""
        return self.consumption.checks


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
        if (each.checks.reading_no_rows or each.settings.registration) and has_uri(definitions, each.upstream)
    ]
