"""One version of a derived Iceberg table, and its commits.

A property of the table points at its newest commit entry, as those of a raw table at its positions.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import DateType, PrimitiveType
from pyiceberg.utils.datetime import date_str_to_days

from kinesis_assets.errors import SchemaChangeRefused, TableUnsuitable
from kinesis_assets.table.iceberg.catalog import iceberg_errors
from kinesis_assets.table.iceberg.columns import columns_of, evolved, other_name
from kinesis_assets.table.iceberg.history import number_of
from kinesis_assets.table.iceberg.partitions import entries_of, record_of
from kinesis_assets.table.iceberg.version import IcebergVersion
from kinesis_assets.table.stored_table import WritableVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.stored_table import AddedFile, Rewrite

CREATED_PROPERTY = "kinesis_assets.created"
"""The property with the time at which the table was created, in seconds since the epoch."""


class IcebergDerivedVersion(IcebergVersion, WritableVersion):
    """One version of a derived Iceberg table."""

    @property
    def created(self) -> float:
        """When the table was created, by the clock of the machine that created it."""
        return float(self.properties.get(CREATED_PROPERTY, 0.0))

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The columns of its rows, as in Delta's metadata.

        Raises:
            TableUnsuitable: Another program has added one with a name or of a type that derived tables do not
                have.
        """
        if (pair := other_name(self.iceberg.schema())) is not None:
            raise TableUnsuitable(
                self.uri,
                f"has the column {pair[0]}, which other programs call {pair[1]} in their files, and files "
                "are read by name; nothing was changed. Rename it",
            )
        try:
            return columns_of(self.iceberg.schema())
        except ValueError as error:
            raise TableUnsuitable(
                self.uri, f"{error}, which derived tables do not have; nothing was changed. Drop the column"
            ) from None

    @property
    def partition_by(self) -> list[str]:
        """Its partitions, see `WritableVersion`."""
        return entries_of(self.iceberg.spec(), self.iceberg.schema())

    def refuse_unreadable(self) -> None:
        """Check that every row of a file is a row of the table, see `ReadableVersion`.

        Raises:
            TableUnsuitable: Rows are deleted by files of their own, or a column was renamed.
        """
        first: dict[int, str] = {}
        for schema in sorted(self._metadata.schemas, key=lambda schema: schema.schema_id):
            first = _names(schema) | first
        for field_id, name in _names(self.iceberg.schema()).items():
            if first[field_id] != name:
                raise TableUnsuitable(
                    self.uri,
                    f"has the column {name}, which was called {first[field_id]} and is called so in its "
                    "older files, which are read by name; nothing was changed. Rename it back",
                )
        super().refuse_unreadable()

    def refuse_irreplaceable(self) -> None:
        """Check that files can be replaced by others. Raises as `refuse_unreadable`."""
        self.refuse_unreadable()

    def rewrites_since(self, base: int, commit_id: int) -> list[Rewrite] | None:
        """Return the rollbacks and overwrites after a version, see `WritableVersion`."""
        found = self.rewrites_of(base, commit_id)
        return None if not found and self._cut(base) is not None else found

    def is_compacted_since(self, base: int) -> bool:
        """Return whether later snapshots only moved rows, see `WritableVersion`."""
        later = [snapshot for snapshot in self._ancestors if number_of(snapshot) > base]
        return (
            self._cut(base) is None
            and not self._rollbacks(base)
            and all(
                snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
                for snapshot in later
            )
        )

    def refuse_partition_change(self, columns: Mapping[str, Any]) -> None:
        """Check that the table keeps its partitions, see `WritableVersion`.

        A column gets a new id if its type does not grow, and the older partitions, which stay in the
        metadata, would be those of a column that is gone. Iceberg's Java library refuses that.
        """
        kept = {field.field_id for field in self.evolved(columns).fields}
        changed = [
            self.iceberg.schema().find_column_name(field.source_id)
            for field in self.iceberg.spec().fields
            if field.source_id not in kept
        ]
        if changed:
            raise SchemaChangeRefused(
                self.uri,
                f"the column {changed[0]} would get another type, but the table is partitioned by it. "
                "Nothing was written. Cast it in the transformation, or use another table",
            )

    def evolved(self, columns: Mapping[str, Any]) -> Schema:
        """Return the schema of the table after it gets columns, see `columns.evolved`."""
        return evolved(self.iceberg.schema(), columns, last_id=self._metadata.last_column_id)

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Add columns, or let those grow that the table has, see `WritableVersion`."""
        new = {field["name"]: field for field in fields}
        kept = [new.pop(field["name"], field) for field in self.schema["fields"]]
        with iceberg_errors(self.uri, "changed", writes=True):
            self.change_columns(self._numbered(self.evolved({"fields": [*kept, *new.values()]})))

    def _numbered(self, schema: Schema) -> Schema:
        """Return a schema with the id of an equal one that the table has had, or else with a new id."""
        had = {each.schema_id: each.as_struct() for each in self._metadata.schemas}
        equal = (schema_id for schema_id, struct in had.items() if struct == schema.as_struct())
        return schema.model_copy(update={"schema_id": next(equal, max(had) + 1)})

    def complete_properties(self) -> None:
        """Change nothing: the properties of a table do not depend on its columns."""

    def prepare_columns(self, columns: Mapping[str, Any]) -> None:
        """Change nothing, see `complete_properties`."""
        del columns

    def write(
        self,
        added: Iterable[AddedFile],
        removed: Iterable[TableFile],
        pointers: Mapping[str, int],
        *,
        exclusive: bool,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """Add and remove files and set pointers, see `WritableVersion`. Every commit is exclusive."""
        del exclusive
        schema = None if columns is None else self._numbered(self.evolved(columns))
        location, stored = self.iceberg.location(), schema or self.iceberg.schema()
        self._commit(
            {},
            pointers,
            [_described(location, file, stored, self.iceberg.spec()) for file in added],
            self._files_at({file.path for file in removed}),
            is_compaction=not pointers,
            columns=schema,
        )


def _names(schema: Schema) -> dict[int, str]:
    """Return the names of all columns, and of their parts, by id."""
    return {schema.find_field(name).field_id: name for name in schema.column_names}


def _described(location: str, file: AddedFile, schema: Schema, spec: PartitionSpec) -> IcebergFile:
    """Return the description of a file that a task has written, as manifests contain it."""
    statistics = json.loads(file.statistics)

    def bounds(kind: str) -> dict[int, bytes]:
        found = statistics.get(kind, {})
        return {
            field.field_id: to_bytes(field.field_type, _value(field.field_type, found[field.name]))
            for field in schema.fields
            if field.name in found and isinstance(field.field_type, PrimitiveType)
        }

    found = statistics["nullCount"]
    nulls = {field.field_id: found[field.name] for field in schema.fields if field.name in found}
    described = IcebergFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{location.rstrip('/')}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=record_of(file.partition, spec, schema),
        record_count=file.rows,
        file_size_in_bytes=file.size,
        value_counts=dict.fromkeys(nulls, file.rows),
        null_value_counts=nulls,
        lower_bounds=bounds("minValues"),
        upper_bounds=bounds("maxValues"),
    )
    described.spec_id = spec.spec_id
    return described


def _value(kind: IcebergType, value: Any) -> Any:
    """Return a bound as pyiceberg takes it. Statistics have a date as a text."""
    return date_str_to_days(value) if isinstance(kind, DateType) else value
