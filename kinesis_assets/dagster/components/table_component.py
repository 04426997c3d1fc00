"""A typed table of a stream's records, defined in YAML."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from kinesis_assets.dagster.components.yaml_component import SettingsScaffolder, YamlComponent, type_spec
from kinesis_assets.dagster.derived.derived_asset import build_derived_table
from kinesis_assets.dagster.derived.selected_columns import check_columns
from kinesis_assets.dagster.derived.typed_rows import TypedRows, column_lineage, lineage_of_errors
from kinesis_assets.dagster.settings.asset_settings import AssetSettings
from kinesis_assets.dagster.settings.check_settings import OFF
from kinesis_assets.dagster.settings.derived_settings import DerivedTableSettings
from kinesis_assets.dagster.settings.table_settings import TableSettings
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.decoders.formats import SchemaKind
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl_parser import parse_columns
from kinesis_assets.schemas.registries import read_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kinesis_assets.dagster.components.yaml_component import AssetRole
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

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what `dg` shows about the component."""
        return type_spec("asset_check")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the asset of the table, and that of its errors if they are separate."""
        try:
            rows, fields = self._schema(context)
            check_columns(self, fields)
        except InvalidInput as error:
            raise self._positions.at_line(error) from None
        key = dg.AssetKey.from_user_string(self.name)
        names = StreamNames.parse(self.source)
        raw = names.raw_key
        lineage = column_lineage(self, fields, raw)
        assets = [
            build_derived_table(
                key,
                self,
                rows.of_table,
                careful=partial(rows.of_table, is_careful=True) if self.format else None,
                all_columns=self.follows_registry,
                metadata={"dagster/column_lineage": lineage} if lineage else None,
                place=self._positions.place_of("upstream"),
            )
        ]
        roles: dict[dg.AssetKey, AssetRole] = {key: "table"}
        if self.on_bad_record == "separate":
            errors_key = dg.AssetKey([*key.path[:-1], f"{key.path[-1]}_errors"])
            settings = DerivedTableSettings(
                source=self.source,
                upstream=self.name,
                table=f"{self.table.rstrip('/')}_errors",
                on_deleted=self.on_deleted,
                max_bytes=self.max_bytes,
                checks={**self.checks, **_NOT_OF_ERRORS},
                **self.of(AssetSettings),
            )
            description = f"The records that could not be decoded for {key.to_user_string()}."
            assets.append(
                build_derived_table(
                    errors_key,
                    settings,
                    rows.of_errors,
                    of_errors=True,
                    description=description,
                    metadata={"dagster/column_lineage": lineage_of_errors(raw)},
                )
            )
            roles[errors_key] = "errors"
        return self.customized(context, names.stream, roles, dg.Definitions(assets=assets))

    def _schema(self, context: dg.ComponentLoadContext) -> tuple[TypedRows, Sequence[Field] | None]:
        """Return the transformations with the schema as the decoder takes it, and the fields of the records.

        Without a format, and for a schema of a registry, which runs read, the schema is empty, and the fields
        are None.
        """
        format_ = self.format_found
        if format_ is None:
            return TypedRows(self, ""), None
        folder = context.path if context.path.is_dir() else context.path.parent
        settings = self._with_folder(folder)
        if self.registered_schema is not None:
            return TypedRows(settings, ""), None
        kind = format_.kind_of(self.schema_)
        if kind is SchemaKind.DDL:
            try:
                fields = format_.fields_of(parse_columns(str(self.schema_)))
            except InvalidInput as error:
                raise InvalidInput(f"schema: {error}") from None
            return TypedRows(settings, str(self.schema_)), fields
        path = folder / (str(self.schema_) if self.message is None else self.message.file)
        try:
            content, columns = self._read(path, kind)
            fields = format_.fields_of(parse_columns(columns))
        except InvalidInput as error:
            instead = ", or give the columns as DDL" if SchemaKind.DDL in format_.schemas else ""
            raise InvalidInput(f"schema {path}: {error}; correct the file or its path{instead}") from None
        schema = content.decode() if format_.takes_definition else columns
        is_kept = kind in (SchemaKind.AVRO, SchemaKind.PROTOBUF) and not format_.takes_definition
        return TypedRows(settings, schema, content if is_kept else b""), fields

    def _read(self, path: Path, kind: SchemaKind) -> tuple[bytes, str]:
        from kinesis_assets.schemas.files import (  # noqa: PLC0415  # most schemas are not in files
            read_descriptors,
            read_schema,
        )

        if self.message is not None:
            return read_descriptors(path, self.message.message)
        definition, columns = read_schema(path, is_avro=kind is SchemaKind.AVRO)
        return definition.encode(), columns

    def _with_folder(self, folder: Path) -> TableSettings:
        """Return the settings with the path of the folder that has the schemas of a registry, if one has."""
        if "folder" not in self.registry:
            return self
        path = folder / self.registry["folder"]
        try:
            read_folder(path)  # to find a mistake when definitions are loaded
        except InvalidInput as error:
            raise InvalidInput(f"registry: {error}") from None
        return self.model_copy(update={"registry": {**self.registry, "folder": str(path)}})
