"""The data files of one version of a table, with their statistics.

Refuses tables with Delta features with which files cannot be read or replaced one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa

from kinesis_assets.errors import TableUnsuitable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from deltalake import DeltaTable


WITHOUT_PARTITIONS = "data files"
"""The name of the only part of a table that has no partition columns, and of all parts together."""

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The name of null in the folders of partitions."""

_MAX_FOLDER = 255
"""Maximum length of the folder of a partition in bytes: no disk has a longer name, and a key of S3, which
includes the path of the table, has at most 1,024."""


def partition_folder(partition: Mapping[str, Any]) -> str:
    """Return the folder of a partition's files within that of the table, with a slash at its end.

    Spark and delta-rs name it likewise. Polars takes the values of partition columns from its name, and not
    from the log. Where no store could have such a folder, it is that of the table.

    Args:
        partition: The values of the partition columns, by name, or their texts in the log.
    """
    folder = "".join(f"{part}/" for part in _parts(partition))
    is_possible = len(folder.encode()) <= _MAX_FOLDER and not any("/" in name for name in partition)
    return folder if is_possible else ""


def _parts(partition: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}={_NULL if value is None else quote(str(value), safe='')}"
        for name, value in partition.items()
    ]


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
        """The name of the file's partition, as in `partition_folder`, however long it is."""
        return "/".join(_parts(self.partition)) or WITHOUT_PARTITIONS

    @property
    def partition_texts(self) -> dict[str, str | None]:
        """The values of the partition columns as the log stores them."""
        return {name: None if value is None else str(value) for name, value in self.partition.items()}

    @property
    def is_in_folder(self) -> bool:
        """Whether the file is in the folder of its partition. Older versions of this package used none."""
        return "/" in self.path or not partition_folder(self.partition)


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A data file with the smallest and the greatest batch id of its rows; None if unknown."""

    file: TableFile
    first: int | None
    last: int | None

    @property
    def rows_of_one_batch(self) -> int | None:
        """The number of its rows if they have the same batch id; None otherwise, or if it is unknown."""
        return None if self.first is None or self.first != self.last else self.file.rows


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


_MAPPING = "delta.columnMapping.mode"
_READING = {"deletionVectors": "delta.enableDeletionVectors"}
_REPLACING = {"appendOnly": "delta.appendOnly", "changeDataFeed": "delta.enableChangeDataFeed"}


def refuse_unreadable(table: str, delta: DeltaTable) -> None:
    """Check that every row of a data file is a row of the table, under the same column names.

    Args:
        table: The table's URI, for the error.
        delta: The table.

    Raises:
        TableUnsuitable: The table has deletion vectors or column mapping.
    """
    _refuse(table, delta, _READING)


def refuse_irreplaceable(table: str, delta: DeltaTable) -> None:
    """Check that files can be replaced by others. Raises `TableUnsuitable`, also as `refuse_unreadable`."""
    _refuse(table, delta, _READING | _REPLACING)


def _refuse(table: str, delta: DeltaTable, features: dict[str, str]) -> None:
    properties = delta.metadata().configuration
    found = [name for name, key in features.items() if properties.get(key, "false").lower() == "true"]
    # The protocol lists a feature also if only old files have it. delta-rs lists none for old protocols.
    named = {str(name) for name in delta.protocol().reader_features or ()}
    found += [name for name in _READING if name in named and name not in found]
    if properties.get(_MAPPING, "none").lower() != "none":
        found.append("columnMapping")
    if found:
        raise TableUnsuitable(
            table,
            f"uses {', '.join(found)}, with which its files cannot be read or replaced one by one; "
            "nothing was changed. Remove the feature, or copy the rows to a table without it",
        )
