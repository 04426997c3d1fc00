"""Describes and verifies the table's data files: Parquet, one arrival date per file, any number of shards.

Spark tasks import this module, so it does not read the table's log.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.errors import DataFileInvalid
from kinesis_assets.kinesis.records.records import RECORD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_SCHEMA = RECORD_SCHEMA.insert(
    RECORD_SCHEMA.get_field_index("error"), pa.field("batch_id", pa.int64(), nullable=False)
)
"""Columns of a data file. The partition column is only part of the path, as in every Delta table."""

FIELD_IDS = {name: number for number, name in enumerate(FILE_SCHEMA.names, 1)}
"""The id of each column in Iceberg tables, which Iceberg reads by id."""

FIELD_ID = b"PARQUET:field_id"
"""The metadata of a field of an Arrow schema with the id of a column in Parquet."""

FILE_SCHEMA_WITH_IDS = pa.schema(
    [field.with_metadata({FIELD_ID: str(FIELD_IDS[field.name])}) for field in FILE_SCHEMA]
)
"""Columns of a data file of an Iceberg table."""

TABLE_SCHEMA = FILE_SCHEMA.insert(
    FILE_SCHEMA.get_field_index("batch_id"), pa.field("arrival_date", pa.date32(), nullable=False)
)
"""Columns of the raw table."""

PARTITION_COLUMNS = ["arrival_date"]


@dataclass(frozen=True, slots=True)
class Compression:
    """How data files are compressed. Codecs are named as in pyarrow and delta-rs."""

    codec: Literal["SNAPPY", "ZSTD"]
    level: int | None = None

    @property
    def name(self) -> str:
        """The codec as in the names of files."""
        return self.codec.lower()


NEW_FILES = Compression("SNAPPY")
"""The compression of new files. zstd makes files 40% smaller for 67% more CPU."""

REWRITTEN_FILES = Compression("ZSTD", 3)
"""The compression of files that maintenance or a seek writes in place of others, which are kept for long.
They are 10% smaller than at level 1 for 10% more CPU; level 6 takes three times the CPU."""

ROW_GROUP_BYTES = 16 << 20
"""Approximate size of a row group in bytes, uncompressed."""

FILE_BYTES = 256 << 20
"""A file that has reached this size in bytes is closed, and another one is started."""

STATISTICS = ["shard_id", "approximate_arrival_timestamp", "batch_id"]
DICTIONARIES = ["stream", "shard_id", "batch_id", "error"]


class WrittenFile(Protocol):
    """The part of a data file's description that is verified before a commit, and counted by maintenance."""

    @property
    def path(self) -> str:
        """Path relative to the table's folder."""

    @property
    def size(self) -> int:
        """Size in bytes."""

    @property
    def rows(self) -> int | None:
        """Number of rows; None if it is unknown."""


class DataFile(msgspec.Struct, frozen=True):
    """A data file in the table's folder, committed or not.

    Attributes:
        path: Path relative to the folder.
        size: Size in bytes.
        arrival_date: Arrival date of every record in the file, as an ISO date in UTC.
        first_arrival: Earliest approximate_arrival_timestamp in the file; the latest is `last_arrival`.
    """

    path: str
    size: int
    arrival_date: str
    rows_by_shard: dict[str, int]
    batch_id: int
    first_arrival: datetime
    last_arrival: datetime

    @property
    def rows(self) -> int:
        """Number of rows of all shards."""
        return sum(self.rows_by_shard.values())

    @property
    def partition(self) -> dict[str, str | None]:
        """The value of the partition column as the log stores it."""
        return {"arrival_date": self.arrival_date}

    @property
    def bounds(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The smallest and the greatest values of the columns with statistics, by name."""
        smallest = min(self.rows_by_shard), self.first_arrival, self.batch_id
        greatest = max(self.rows_by_shard), self.last_arrival, self.batch_id
        return dict(zip(STATISTICS, smallest, strict=True)), dict(zip(STATISTICS, greatest, strict=True))

    @property
    def statistics(self) -> str:
        """The per-file statistics of the Delta protocol, as JSON."""
        smallest, greatest = self.bounds
        found = {
            "numRecords": self.rows,
            "minValues": smallest,
            "maxValues": greatest,
            "nullCount": dict.fromkeys(STATISTICS, 0),
        }
        return json.dumps(found, default=lambda arrival: arrival.isoformat(timespec="milliseconds"))


def is_new_file(file: DataFile) -> bool:
    """Return whether a `DataFileWriter` may have written a file.

    Its name must contain its batch id, and its folder the date on which all of its records arrived.
    """
    name = (
        rf"arrival_date={re.escape(file.arrival_date)}/part-{file.batch_id}-[0-9a-f]{{32}}"
        rf"\.{NEW_FILES.name}\.parquet"
    )
    arrivals = (file.first_arrival, file.last_arrival)
    return (
        re.fullmatch(name, file.path) is not None
        and file.size > 0
        and all(time.utcoffset() == timedelta(0) for time in arrivals)
        and arrivals[0] <= arrivals[1]
        and {time.date().isoformat() for time in arrivals} == {file.arrival_date}
    )


def verify(table: str, filesystem: pyarrow.fs.FileSystem, file: WrittenFile) -> None:
    """Check that a file is in the folder of a table with its size and rows.

    Raises:
        DataFileInvalid: The file is missing, unreadable, or has another size or number of rows.
    """
    size, rows = None, 0
    try:
        with suppress(FileNotFoundError), filesystem.open_input_file(file.path) as source:
            size = source.size()
            if size == file.size:
                rows = pq.ParquetFile(source).metadata.num_rows
    except (OSError, pa.ArrowInvalid) as error:
        raise DataFileInvalid(
            table, f"{file.path}: cannot be read back: {error}; nothing was committed, run again"
        ) from error
    if size != file.size:
        found = "nothing" if size is None else f"{size} bytes"
        difference = f"{file.size} bytes were written, {found} found"
    elif rows != file.rows:
        difference = f"{file.rows} rows were written, {rows} found"
    else:
        return
    raise DataFileInvalid(table, f"{file.path}: {difference}; nothing was committed, run again")


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
            since 1970, because Python has none after the year 9999. The same applies to `greatest`.
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


class FileStats(msgspec.Struct, frozen=True):
    """A data file of one version of the raw table, with its statistics. Each is a bound, or None if unknown.

    Attributes:
        path: Path relative to the table's folder.
        arrival_date: Arrival date of every row in the file, UTC.
        first_arrival: No row arrived earlier, and none after `last_arrival`.
        first_shard_id: No row has a smaller shard id, compared as text, or one above `last_shard_id`.
    """

    path: str
    arrival_date: date
    first_arrival: datetime | None
    last_arrival: datetime | None
    first_shard_id: str | None
    last_shard_id: str | None
    rows: int | None = None

    def may_contain_arrivals(self, first: datetime, last: datetime | None) -> bool:
        """Return whether the file may have a row that arrived from `first` to `last`, both inclusive.

        There is no upper bound if `last` is None.
        """
        if self.arrival_date < first.date() or _above(first, self.last_arrival):
            return False
        return last is None or not (self.arrival_date > last.date() or _above(self.first_arrival, last))

    def may_contain_shard(self, shard_id: str) -> bool:
        """Return whether the file may have a row of a shard."""
        return not (_above(self.first_shard_id, shard_id) or _above(shard_id, self.last_shard_id))


def _above(value: Any, other: Any) -> bool:
    """Return whether a value is known to be above another; None is an unknown value."""
    return value is not None and other is not None and value > other
