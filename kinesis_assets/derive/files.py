"""The data files of one version of a table, with their statistics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltalake import DeltaTable


WITHOUT_PARTITIONS = "data files"
"""The name of the only part of a table that has no partition columns, and of all parts together."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The name of null in the folders of partitions."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A data file of one version of a table.

    Attributes:
        path: Path relative to the table's folder.
        size: Size in bytes.
        rows: Number of rows; None if it is unknown.
        partition: The values of the partition columns, by name.
        smallest: The smallest values of some columns in the file, by name; None if unknown. Dates are days
            since 1970, because Python has none after the year 9999.
        greatest: The greatest values of some columns in the file, likewise.
        nulls: How often some columns are null in the file, by name; None if unknown.
    """

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, Any] = field(default_factory=dict)
    smallest: Mapping[str, Any] = field(default_factory=dict)
    greatest: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def partition_name(self) -> str:
        """The name of the file's partition, as in the folders of other engines."""
        values = {name: _NULL if value is None else value for name, value in self.partition.items()}
        return "/".join(f"{name}={value}" for name, value in values.items()) or WITHOUT_PARTITIONS


def files_of(delta: DeltaTable, columns: Sequence[str] = ()) -> list[TableFile]:
    """Return the data files of a version.

    Args:
        delta: The version, opened by delta-rs.
        columns: The columns whose smallest and greatest values are returned.
    """
    actions = pa.table(delta.get_add_actions(flatten=True))
    partition = {f"partition.{name}": name for name in delta.metadata().partition_columns}
    wanted = [
        "path",
        "size_bytes",
        "num_records",
        *partition,
        *(f"{bound}.{name}" for bound in ("min", "max", "null_count") for name in columns),
    ]
    # A column of statistics that no file has is missing.
    actions = actions.select([name for name in wanted if name in actions.column_names])
    days = [
        pa.field(field.name, pa.int32())
        if pa.types.is_date32(field.type) and field.name not in partition
        else field
        for field in actions.schema
    ]
    rows = actions.cast(pa.schema(days)).to_pylist()
    return [
        TableFile(
            path=unquote(row["path"]),  # the paths of the log are percent-encoded
            size=row["size_bytes"],
            rows=row.get("num_records"),
            partition={name: row[key] for key, name in partition.items()},
            smallest={name: row.get(f"min.{name}") for name in columns},
            greatest={name: row.get(f"max.{name}") for name in columns},
            nulls={name: row.get(f"null_count.{name}") for name in columns},
        )
        for row in rows
    ]
