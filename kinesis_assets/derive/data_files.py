"""The data files of derived tables, and how tasks write them.

Spark tasks import this module, so it does not read the table's log.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, unquote
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.table.data_file import NEW_FILES, Compression, partition_folder
from kinesis_assets.table.data_file_writer import FileLayout
from kinesis_assets.table.store.storage import write_new
from kinesis_assets.table.transforms import partition_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kinesis_assets.table.data_file import TableFile
    from kinesis_assets.table.partition_field import PartitionField
    from kinesis_assets.table.store.storage import TableFolder


_Count = Annotated[int, msgspec.Meta(ge=0)]

RECORD_ID = ("shard_id", "sequence_number")
"""The columns that say which record it is, where rows have them."""

_EXAMPLE_CHARACTERS = 500


class RecordCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of records.

    Attributes:
        errors: Number of those that could not be decoded.
        example: One of them with the reason; None if there are none.
    """

    records: _Count = 0
    errors: _Count = 0
    example: str | None = None

    def __add__(self, other: RecordCounts) -> RecordCounts:
        return RecordCounts(
            self.records + other.records, self.errors + other.errors, self.example or other.example
        )


def counts_of(batch: pa.RecordBatch, error_column: str) -> RecordCounts:
    """Count the records of a batch.

    Args:
        error_column: The column with the reason why a record could not be decoded.
    """
    is_error = pc.is_valid(batch[error_column])
    errors = pc.sum(is_error, min_count=0).as_py()
    if not errors:
        return RecordCounts(batch.num_rows)
    first = pc.index(is_error, True).as_py()
    names = [name for name in dict.fromkeys((*RECORD_ID, error_column)) if name in batch.schema.names]
    found = (batch[name][first].as_py() for name in names)
    example = ": ".join(str(value) for value in found if value is not None)
    return RecordCounts(batch.num_rows, errors, example[:_EXAMPLE_CHARACTERS])


BATCH_COLUMN = "_batch_id"
"""The column of a derived table with the batch id of the commit that added the row."""

FOUND_COLUMN = "table_batch_id"
"""The column of a table of errors with the batch id of the commit of its table that separated the record. A
redrive that separates it again keeps it."""

CHANGES_FOLDER = "_kinesis/changes"
"""The folder, in that of the table, with the rows that were replaced or deleted."""

ERRORS_FOLDER = "_kinesis/errors"
"""The folder, in that of the table, with the records that could not be decoded and are separated."""

DELETIONS_FOLDER = "_kinesis/tombstones"
"""The folder, in that of the table, with the keys whose deletion an upsert remembers."""

GROWTH_FOLDER = "_kinesis/growth"
"""The folder, in that of the table, with files that name the copies of its files with wider types."""

ROUTES_FOLDER = "_kinesis/routes"
"""The folder of a router by which a typed table names its source: `routes/a&b` are the rows of both routes.
There is no such folder."""

COMMIT_ORDER_COLUMN = "commit_order"
"""The column of a router with the order of the source's commits within one commit of the router."""


def routes_folder(router: str, values: Iterable[str]) -> str:
    """Return the path or URI that names the rows of a router with some values of its column `route`."""
    return f"{router.rstrip('/')}/{ROUTES_FOLDER}/{'&'.join(quote(value, safe='') for value in values)}"


def router_and_values(uri: str) -> tuple[str, frozenset[str]] | None:
    """Return what `routes_folder` was called with; None if it has not returned this path or URI."""
    router, folder, values = uri.rpartition(f"/{ROUTES_FOLDER}/")
    return (router, frozenset(map(unquote, values.split("&")))) if folder else None


_BOUNDED = (pa.types.is_integer, pa.types.is_string, pa.types.is_date)
"""The types whose smallest and greatest value a file's statistics name. Those of others would have to be
rounded."""

_LONGEST_BOUND = 4096
"""The bytes of the longest text that Arrow stores as a bound in a file (`max_statistics_size`)."""

_PREFIX = 32
"""The characters of the bound of a longer one, as other writers of Delta tables have them."""

_LAST_CHARACTER = "\U0010ffff"

_SURROGATES, _AFTER_SURROGATES = 0xD800, 0xE000
"""Between these there are no characters."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The names that a Delta property can list without quotes."""


class DerivedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A data file in a derived table's folder, committed or not.

    Attributes:
        path: Path relative to the table's folder.
        new_rows: Number of rows with the batch id of the attempt that wrote the file.
        partition: The value of each partition, by name, see `partition_texts`.
        statistics: The file's statistics as Delta's log stores them, in JSON.
    """

    path: str
    size: _Count
    rows: _Count
    new_rows: _Count
    partition: dict[str, str | None]
    statistics: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files that a task wrote.

    Attributes:
        replaced: The files with the rows that are replaced or deleted, which are not part of the table.
        counts: How many new rows are of records that could not be decoded; None if they are not counted.
    """

    files: tuple[DerivedFile, ...] = ()
    replaced: tuple[DerivedFile, ...] = ()
    counts: RecordCounts | None = None

    def __add__(self, other: Manifest) -> Manifest:
        counts = [each.counts for each in (self, other) if each.counts is not None]
        return Manifest(
            self.files + other.files,
            self.replaced + other.replaced,
            sum(counts, RecordCounts()) if counts else None,
        )


class CopiedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a table that was copied with other types.

    Attributes:
        path: Its path relative to the table's folder.
        copies: The new files with its rows; several if one would be too large, none if it has no rows.
    """

    path: str
    copies: tuple[DerivedFile, ...]


@dataclass(frozen=True, slots=True)
class WritingJob:
    """The settings of the tasks that write an attempt's files. It can be pickled and holds no secrets.

    Attributes:
        schema: The columns of the table, with the batch id.
        has_partition_columns: Whether the files have the columns by which the table is partitioned.
        removed: The files of the table that are replaced by copies without some of their rows, by the number
            that `read.FILE_COLUMN` has for them.
        error_column: The column that is not null in new rows of records that could not be decoded; None if
            they are not counted.
        keeps_errors: Whether these rows are written.
        prefix: The folder of the files within that of the table, with a slash at its end.
    """

    folder: TableFolder
    schema: pa.Schema
    partition_by: tuple[PartitionField, ...]
    batch_id: int
    layout: FileLayout = FileLayout()
    compression: Compression = NEW_FILES
    has_partition_columns: bool = False
    removed: Mapping[int, TableFile] = field(default_factory=dict)
    error_column: str | None = None
    keeps_errors: bool = True
    prefix: str = ""


def is_new_file(
    file: DerivedFile, batch_id: int, folder: str = "", compression: Compression = NEW_FILES
) -> bool:
    """Return whether an attempt may have written a file.

    Args:
        folder: The folder within that of the table, with a slash at its end.
    """
    folder += partition_folder(file.partition)
    name = rf"{re.escape(folder)}part-{batch_id}-[0-9a-f]{{32}}\.{compression.name}\.parquet"
    return re.fullmatch(name, file.path) is not None and file.size > 0 and file.new_rows <= file.rows


_MAX_OPEN_FILES = 64

_ROW_GROUPS_IN_MEMORY = 4
"""Once the rows that open files have not written exceed so many row groups, the file with most of them writes
its rows."""


class DerivedFileWriter:
    """Writes the rows of one task, with one open file for each combination of partition values.

    Each batch of rows may have rows of all combinations, so up to 64 files are open, or as many as the layout
    says. For another one, that which got no rows for the longest time is closed.
    """

    def __init__(self, job: WritingJob) -> None:
        self._job = job
        self._filesystem = job.folder.open()
        left_out = () if job.has_partition_columns else [field.column for field in job.partition_by]
        self._schema = pa.schema([field for field in job.schema if field.name not in left_out])
        self._open: dict[tuple[str | None, ...], _OpenFile] = {}
        self._closed: list[DerivedFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows with the columns of the table. Others are ignored."""
        if not batch.num_rows:
            return
        seconds = self._job.layout.open_seconds
        for values in [values for values, file in self._open.items() if file.age >= seconds]:
            self._close(values)
        columns = [self._stored(batch, field.name) for field in self._schema]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        for values, part in self._by_partition(batch, rows):
            if values not in self._open:
                if len(self._open) >= max(_MAX_OPEN_FILES, self._job.layout.open_files):
                    self._close(next(iter(self._open)))
                names = [field.name for field in self._job.partition_by]
                partition = dict(zip(names, values, strict=True))
                name = f"part-{self._job.batch_id}-{uuid4().hex}.{self._job.compression.name}.parquet"
                path = f"{self._job.prefix}{partition_folder(partition)}{name}"
                self._open[values] = _OpenFile(self._filesystem, path, self._schema, self._job, partition)
            file = self._open[values] = self._open.pop(values)  # the last one is that which was used last
            file.write(part)
            self._bound_memory()
            if file.written >= self._job.layout.file_bytes:
                self._close(values)

    def close_files_of(self, size: int) -> None:
        """Finish the files that have at least a size in bytes."""
        for values in [values for values, file in self._open.items() if file.written >= size]:
            self._close(values)

    def close(self) -> list[DerivedFile]:
        """Finish all files. When this returns, they are complete in the folder."""
        for values in list(self._open):
            self._close(values)
        return self._closed

    def _bound_memory(self) -> None:
        limit = _ROW_GROUPS_IN_MEMORY * self._job.layout.row_group_bytes
        if sum(file.pending_bytes for file in self._open.values()) > limit:
            max(self._open.values(), key=lambda file: file.pending_bytes).write_pending()

    def _close(self, values: tuple[str | None, ...]) -> None:
        self._closed.append(self._open.pop(values).close())

    def _by_partition(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch
    ) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
        fields = self._job.partition_by
        if not fields:
            yield (), rows
            return
        names = [field.name for field in fields]
        columns = [partition_texts(field, self._stored(batch, field.column)) for field in fields]
        groups = pa.table(columns, names=names).group_by(names).aggregate([])
        for group in groups.to_pylist():
            mask = pa.scalar(True)
            for name, column in zip(names, columns, strict=True):
                value = group[name]
                same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
                mask = pc.and_(mask, same)
            yield tuple(group[name] for name in names), rows.filter(mask)

    def _stored(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        """Return a column of a batch as it is stored: partition values are those of what readers find."""
        return _valid(name, batch[name]).cast(self._job.schema.field(name).type)


class _OpenFile:
    def __init__(
        self,
        filesystem: pyarrow.fs.FileSystem,
        path: str,
        schema: pa.Schema,
        job: WritingJob,
        partition: dict[str, str | None],
    ) -> None:
        self._path = path
        self._schema = schema
        self._job = job
        self._partition = partition
        self._sink = write_new(filesystem, self._path)
        self._footers: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=job.compression.codec,
            compression_level=job.compression.level,
            metadata_collector=self._footers,
        )
        self._opened = time.monotonic()
        self._long_texts: dict[str, tuple[str, str]] = {}
        self._pending: list[pa.RecordBatch] = []
        self.pending_bytes = self._rows = self._new_rows = self.written = 0

    @property
    def age(self) -> float:
        return time.monotonic() - self._opened

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self.pending_bytes += batch.get_total_buffer_size()
        self._rows += batch.num_rows
        self._new_rows += pc.sum(pc.equal(batch[BATCH_COLUMN], self._job.batch_id), min_count=0).as_py()
        if self.pending_bytes >= self._job.layout.row_group_bytes:
            self.write_pending()

    def close(self) -> DerivedFile:
        if self._pending:
            self.write_pending()
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        return DerivedFile(
            path=self._path,
            size=size,
            rows=self._rows,
            new_rows=self._new_rows,
            partition=self._partition,
            statistics=statistics_of(self._schema, self._footers[0], self._long_texts),
        )

    def write_pending(self) -> None:
        rows = pa.Table.from_batches(self._pending)
        self._writer.write_table(rows)
        for name in bounded_columns(self._schema):
            if pa.types.is_string(rows[name].type) and (bounds := _bounds_of_long_texts(rows[name])):
                low, high = self._long_texts.get(name, bounds)
                self._long_texts[name] = min(low, bounds[0]), max(high, bounds[1])
        self._pending, self.pending_bytes = [], 0
        self.written = int(self._sink.tell())


def _valid(name: str, values: pa.Array) -> pa.Array:
    """Return values of a column, with U+FFFD in texts that are not UTF-8, which Spark accepts.

    Raises:
        ValueError: Such a text is a part of a value.
    """
    is_text = pa.types.is_string(values.type)
    if not is_text and not pa.types.is_nested(values.type):
        return values
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        if not is_text:
            raise ValueError(f"the column {name} has a text that is not UTF-8; replace it: {error}") from None
        texts = values.cast(pa.binary()).to_pylist()
        return pa.array(
            [None if text is None else text.decode(errors="replace") for text in texts], pa.string()
        )
    return values


def listed_columns(columns: Iterable[pa.Field]) -> list[str]:
    """Return the columns that a table must list in `delta.dataSkippingStatsColumns`.

    For any other column of a file with smallest and greatest values, `DeltaTable.to_pyarrow_dataset` compares
    with null, and finds no rows. Structs have none, but delta-rs ignores the values of all columns after a
    struct that is not listed.
    """
    fields = list(columns)
    bounded = {*bounded_columns(fields)}
    return [
        field.name
        for field in fields
        if field.name in bounded or (pa.types.is_struct(field.type) and _PLAIN_NAME.fullmatch(field.name))
    ]


def bounded_columns(columns: Iterable[pa.Field]) -> list[str]:
    """Return the columns whose smallest and greatest value a file's statistics name."""
    return [
        field.name
        for field in columns
        if any(is_type(field.type) for is_type in _BOUNDED) and _PLAIN_NAME.fullmatch(field.name)
    ]


def _bounds_of_long_texts(texts: pa.ChunkedArray) -> tuple[str, str] | None:
    """Return bounds of texts that may have none in the file, because one is long; None if all are short."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or longest <= _LONGEST_BOUND:
        return None
    found = pc.min_max(texts)
    return found["min"].as_py()[:_PREFIX], _prefix_after(found["max"].as_py())


def _prefix_after(text: str) -> str:
    """Return a text, as a rule a short one, that is not before another or any that begins with its prefix."""
    prefix = text[:_PREFIX].rstrip(_LAST_CHARACTER)
    if len(text) <= _PREFIX or not prefix:
        return text
    following = ord(prefix[-1]) + 1
    return prefix[:-1] + chr(_AFTER_SURROGATES if following == _SURROGATES else following)


def statistics_of(
    schema: pa.Schema,
    footer: pq.FileMetaData,
    long_texts: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> str:
    """Return the statistics of a file as in the Delta protocol, in JSON.

    If the bounds of one column are unknown, none are written, see `listed_columns`.

    Args:
        long_texts: The bounds of columns that have none in the footer, because their texts are long.
    """
    names = bounded_columns(schema)
    smallest: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    is_complete = True
    for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            name, found = column.path_in_schema, column.statistics
            if name not in names or found is None or not found.has_null_count:
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if found.null_count == group.num_rows:
                continue
            try:
                bounds = (found.min, found.max) if found.has_min_max else None
            except OverflowError:  # a date after the year 9999
                bounds = None
            if (bounds := bounds or long_texts.get(name)) is None:
                is_complete = False
                continue
            smallest[name] = min(smallest.get(name, bounds[0]), bounds[0])
            greatest[name] = max(greatest.get(name, bounds[1]), bounds[1])
    statistics: dict[str, Any] = {"numRecords": footer.num_rows, "nullCount": nulls}
    if is_complete:
        statistics["minValues"] = {name: _text(value) for name, value in smallest.items()}
        statistics["maxValues"] = {name: _text(value) for name, value in greatest.items()}
    # delta-rs reads the escapes of characters beyond U+1FFFF as those of others.
    return json.dumps(statistics, ensure_ascii=False)


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
