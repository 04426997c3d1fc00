"""Typed tables, defined in YAML: one of a stream's records, or one for each kind of documents in them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.components.yaml_component import AssetRole, SettingsScaffolder, YamlComponent
from kinesis_assets.dagster.derived.derived_asset import build_derived_table
from kinesis_assets.dagster.derived.selected_columns import check_columns
from kinesis_assets.dagster.derived.typed_rows import (
    RoutedRows,
    TypedRows,
    column_lineage,
    lineage_of_errors,
    lineage_of_router,
    rows_of_router,
)
from kinesis_assets.dagster.settings.asset_settings import AssetSettings
from kinesis_assets.dagster.settings.check_settings import OFF
from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings
from kinesis_assets.dagster.settings.routes_settings import RoutedTableSettings, RoutesSettings
from kinesis_assets.dagster.settings.settings_base import naming
from kinesis_assets.dagster.settings.table_format_settings import DerivedTableFormat
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.decoders.formats import SchemaKind
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import parse_columns
from kinesis_assets.schemas.registries import read_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kinesis_assets.schemas.ddl import Field


_NOT_OF_ERRORS = {"bad_records": OFF, "no_duplicates": OFF}
"""The checks that a table of errors cannot have: all of its records are bad, and none has a key."""


class TableScaffolder(SettingsScaffolder):
    """`dg scaffold defs kinesis_assets.KinesisTableComponent`. The name is that of the folder by default."""

    settings = TableSettings
    named_by_folder = "name"


@dg.scaffold_with(TableScaffolder)
class KinesisTableComponent(TableSettings, YamlComponent):
    """Decode the records of a stream into the rows of a typed table, each exactly once."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the asset of the table, and that of its errors if they are separate."""
        try:
            assets, roles = typed_assets(self, context, place=self._positions.place_of("upstream"))
        except InvalidInput as error:
            raise self._positions.at_line(error) from None
        names = StreamNames.parse(self.source)
        return self.customized(context, names.stream, roles, dg.Definitions(assets=assets))


def typed_assets(
    settings: TableSettings,
    context: dg.ComponentLoadContext,
    *,
    description: str | None = None,
    place: str = "",
) -> tuple[list[dg.AssetsDefinition], dict[dg.AssetKey, AssetRole]]:
    """Return the asset of a typed table, that of its errors if they are separate, and the role of each.

    Args:
        description: The description of the table's asset, unless the settings have one. It has a default.
        place: The file and the line that name its source.

    Raises:
        InvalidInput: The schema, or a setting that names columns, is invalid.
    """
    rows, fields = _typed_rows(settings, context)
    check_columns(settings, fields)
    key = dg.AssetKey.from_user_string(settings.name)
    lineage = column_lineage(settings, fields)
    assets = [
        build_derived_table(
            key,
            settings,
            rows.of_table,
            careful=partial(rows.of_table, is_careful=True) if settings.format else None,
            all_columns=settings.follows_registry,
            metadata={"dagster/column_lineage": lineage} if lineage else {},
            routes=settings.routes if isinstance(settings, RoutedTableSettings) else (),
            description=description,
            place=place,
        )
    ]
    roles: dict[dg.AssetKey, AssetRole] = {key: "table"}
    if settings.on_bad_record == "separate":
        errors_key = dg.AssetKey([*key.path[:-1], f"{key.path[-1]}_errors"])
        catalog = dict(settings.catalog)
        if "name" in catalog:
            catalog["name"] += "_errors"
        of_errors = DerivedTableSettings(
            source=settings.source,
            upstream=settings.name,
            table=f"{settings.table.rstrip('/')}_errors",
            on_deleted=settings.on_deleted,
            max_bytes=settings.max_bytes,
            checks={**settings.checks, **_NOT_OF_ERRORS},
            **settings.of(AssetSettings),
            **settings.of(DerivedTableFormat) | {"catalog": catalog},
        )
        description = f"The records that could not be decoded for {key.to_user_string()}."
        assets.append(
            build_derived_table(
                errors_key,
                of_errors,
                rows.of_errors,
                of_errors=True,
                description=description,
                metadata={"dagster/column_lineage": lineage_of_errors(settings.upstream_key)},
            )
        )
        roles[errors_key] = "errors"
    return assets, roles


def _typed_rows(
    settings: TableSettings, context: dg.ComponentLoadContext
) -> tuple[TypedRows, Sequence[Field] | None]:
    """Return the transformations with the schema as DDL, and the fields of the records.

    Without a format, and for a schema of a registry, which runs read, the schema is empty, and the fields
    are None.
    """
    rows_of = RoutedRows if isinstance(settings, RoutedTableSettings) else TypedRows
    format_ = settings.format_found
    if format_ is None:
        return rows_of(settings, ""), None
    folder = context.path if context.path.is_dir() else context.path.parent
    given = _with_folder(settings, folder)
    if settings.registered_schema is not None:
        return rows_of(given, ""), None
    kind = format_.kind_of(settings.schema_)
    if kind is SchemaKind.DDL:
        with naming("schema"):
            fields = format_.fields_of(parse_columns(str(settings.schema_)))
        return rows_of(given, str(settings.schema_)), fields
    path = folder / (str(settings.schema_) if settings.message is None else settings.message.file)
    try:
        content, columns = _read(settings, path, kind)
        fields = format_.fields_of(parse_columns(columns))
    except InvalidInput as error:
        instead = ", or give the columns as DDL" if SchemaKind.DDL in format_.schemas else ""
        raise InvalidInput(f"schema {path}: {error}; correct the file or its path{instead}") from None
    is_kept = kind in (SchemaKind.AVRO, SchemaKind.PROTOBUF)
    return rows_of(given, columns, content if is_kept else b""), fields


def _read(settings: TableSettings, path: Path, kind: SchemaKind) -> tuple[bytes, str]:
    from kinesis_assets.schemas.files import (  # noqa: PLC0415  # most schemas are not in files
        read_descriptors,
        read_schema,
    )

    if settings.message is not None:
        return read_descriptors(path, settings.message.message)
    return read_schema(path, is_avro=kind is SchemaKind.AVRO)


def _with_folder(settings: TableSettings, folder: Path) -> TableSettings:
    """Return the settings with the path of the folder that has the schemas of a registry, if one has."""
    if "folder" not in settings.registry:
        return settings
    path = folder / settings.registry["folder"]
    with naming("registry"):
        read_folder(path)  # to find a mistake when definitions are loaded
    return settings.model_copy(update={"registry": {**settings.registry, "folder": str(path)}})


class RoutesScaffolder(SettingsScaffolder):
    """`dg scaffold defs kinesis_assets.KinesisRoutesComponent`. The name is that of the folder by default."""

    settings = RoutesSettings
    named_by_folder = "name"


@dg.scaffold_with(RoutesScaffolder)
class KinesisRoutesComponent(RoutesSettings, YamlComponent):
    """Route the documents of a stream to typed tables by the value of a field, each document exactly once."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the assets of the router, of the table of each route, and of separate errors."""
        names = StreamNames.parse(self.source)
        key = dg.AssetKey.from_user_string(self.name)
        roles: dict[dg.AssetKey, AssetRole] = {key: "router"}
        assets = [
            build_derived_table(
                key,
                self.router,
                partial(rows_of_router, self),
                routed_to=len({route for _, route in self.values}) + 1,
                description=f"The documents of {names.stream}, by {self.route_by}, in {self.table}. In those "
                "that no route matches, route is null.",
                metadata={"dagster/column_lineage": lineage_of_router(names.raw_key)},
                place=self._positions.place_of("source"),
            )
        ]
        for number, table in enumerate(self.tables):
            try:
                of_route, roles_of_route = typed_assets(
                    table,
                    context,
                    description=f"The documents of {names.stream} whose {self.route_by} is "
                    f"{' or '.join(table.routes)}, in {table.table}.",
                )
            except InvalidInput as error:
                raise self._positions.at_line(InvalidInput(f"routes[{number}]: {error}")) from None
            assets += of_route
            roles |= roles_of_route
        return self.customized(context, names.stream, roles, dg.Definitions(assets=assets))
