"""Reads and rewrites rows of an Iceberg table by its data files, one row group at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinesis_assets.errors import TableUnreachable, TableUnsuitable
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    FIELD_ID,
    FIELD_IDS,
    FILE_SCHEMA_WITH_IDS,
    REWRITTEN_FILES,
    STATISTICS,
)
from kinesis_assets.table.iceberg.manifests import described
from kinesis_assets.table.snapshot import NewestRow
from kinesis_assets.table.store.storage import write_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.manifest import DataFile as IcebergFile

    from kinesis_assets.table.data_file import FileStats
    from kinesis_assets.table.row_predicates import RowPredicate
    from kinesis_assets.table.snapshot import ChainedTable

_KEYS = ["stream", "shard_id", "sequence_number", "sub_sequence_number", "approximate_arrival_timestamp"]
_BATCH_ROWS = 16_384


def _batches(table: ChainedTable, path: str, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file.

    Args:
        columns: The columns that are read; None for all, also those that other programs have added.

    Raises:
        TableUnreachable: They cannot be read.
        TableUnsuitable: All are read, and those of other programs have no ids.
    """
    try:
        with table.files.open_input_file(path) as source:
            parquet = pq.ParquetFile(source)
            schema = (
                _all_columns(table.uri, path, parquet.schema_arrow)
                if columns is None
                else pa.schema([FILE_SCHEMA_WITH_IDS.field(name) for name in columns])
            )
            for group in range(parquet.num_row_groups):  # reading all of them would read ahead
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns):
                    yield batch.select(schema.names).cast(schema)
    except (OSError, pa.ArrowException) as error:
        raise TableUnreachable(table.uri, f"its rows cannot be read: {error}") from None


def _all_columns(uri: str, path: str, found: pa.Schema) -> pa.Schema:
    """Return the columns of a file: ours and, unchanged, those that other programs have added."""
    others = [field for field in found if field.name not in FIELD_IDS]
    without = [field.name for field in others if FIELD_ID not in (field.metadata or {})]
    if without:
        raise TableUnsuitable(
            uri,
            f"its file {path}, which another program added, has the columns {', '.join(without)} without the "
            "ids of Iceberg, so their values would be lost; nothing was changed. Write the file again with "
            "rewrite_data_files of Spark",
        )
    return pa.schema([*FILE_SCHEMA_WITH_IDS, *others])


def count_rows(table: ChainedTable, files: Iterable[FileStats], predicate: RowPredicate) -> dict[str, int]:
    """Count the rows that match a predicate, by shard id."""
    found: Counter[str] = Counter()
    for file in filter(predicate.may_include, files):
        for batch in _batches(table, file.path, _KEYS):
            found.update(batch["shard_id"].filter(predicate.matches(batch)).to_pylist())
    return dict(found)


def newest_rows(table: ChainedTable, files: Iterable[FileStats]) -> Mapping[str, Mapping[str, NewestRow]]:
    """Return the newest row of each shard, by stream name and shard id."""
    found: dict[str, dict[str, NewestRow]] = {}
    for file in files:
        for batch in _batches(table, file.path, _KEYS):
            for row in _newest_of(batch):
                shards = found.setdefault(row["stream"], {})
                shards[row["shard_id"]] = _newer(shards.get(row["shard_id"]), row)
    return found


def _newest_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the last row of each shard in a batch, with the number of its rows and their last arrival."""
    keys = ["stream", "shard_id"]
    # Sequence numbers are stored as text. Texts of the same length sort as numbers do.
    rows = pa.table(batch).append_column("length", pc.utf8_length(batch["sequence_number"]))
    order = [(name, "ascending") for name in (*keys, "length", "sequence_number", "sub_sequence_number")]
    grouped = rows.sort_by(order).group_by(keys, use_threads=False)
    last: list[dict[str, Any]] = grouped.aggregate(
        [
            ("sequence_number", "last"),
            ("sub_sequence_number", "last"),
            ("sequence_number", "count"),
            ("approximate_arrival_timestamp", "max"),
        ]
    ).to_pylist()
    return last


def _newer(before: NewestRow | None, row: Mapping[str, Any]) -> NewestRow:
    number, sub = row["sequence_number_last"], row["sub_sequence_number_last"]
    rows, arrival = row["sequence_number_count"], row["approximate_arrival_timestamp_max"]
    if before is None:
        return NewestRow(number, sub, rows, arrival)
    place = max((int(number), sub), (int(before.sequence_number), before.sub_sequence_number))
    return NewestRow(str(place[0]), place[1], before.rows + rows, max(before.last_arrival, arrival))


@dataclass(slots=True)
class Rewritten:
    """The files of a deletion.

    Attributes:
        replaced: The paths of the files that have such rows, relative to the table's location.
        written: New files with their other rows.
    """

    replaced: set[str] = field(default_factory=set)
    written: list[IcebergFile] = field(default_factory=list)
    deleted: int = 0


def rewrite(
    table: ChainedTable, location: str, files: Iterable[FileStats], predicate: RowPredicate
) -> Rewritten:
    """Write the files with rows that match a predicate again, without these rows. No file is deleted.

    Columns that other programs have added stay. A file whose rows all match is not read, so that the commit
    is ready sooner. Raises as `_batches`.
    """
    found = Rewritten()
    for file in filter(predicate.may_include, files):
        if file.rows is not None and predicate.includes_all(file):
            found.deleted += file.rows
            found.replaced.add(file.path)
            continue
        deleted = sum(predicate.matches(batch).true_count for batch in _batches(table, file.path, _KEYS))
        if not deleted:
            continue
        found.deleted += deleted
        found.replaced.add(file.path)
        found.written += _copy(table, location, file, predicate)
    return found


def _copy(table: ChainedTable, location: str, file: FileStats, predicate: RowPredicate) -> list[IcebergFile]:
    with _NewFiles(table, location, file.arrival_date.isoformat()) as files:
        for batch in _batches(table, file.path, None):
            files.write(batch.filter(pc.invert(predicate.matches(batch))))
    return files.written


def merge(table: ChainedTable, location: str, arrival_date: str, paths: Iterable[str]) -> list[IcebergFile]:
    """Write the rows of the files of a day to as few new files as their sizes allow. No file is deleted.

    Raises:
        TableUnreachable: A file cannot be read.
    """
    with _NewFiles(table, location, arrival_date) as files:
        for path in paths:
            for batch in _batches(table, path, FILE_SCHEMA_WITH_IDS.names):
                files.write(batch)
    return files.written


class _NewFiles:
    """Writes rows of a day to new files, with row groups and sizes as the table's policy says.

    Attributes:
        written: The files that are complete.
    """

    def __init__(self, table: ChainedTable, location: str, arrival_date: str) -> None:
        self.written: list[IcebergFile] = []
        self._table = table
        self._layout = table.policy.data_files
        self._location = location
        self._arrival_date = arrival_date
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._open: _NewFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._write_pending()
            self._complete()
        elif self._open is not None:
            self._open.sink.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._pending.append(batch)
        self._pending_bytes += batch.nbytes
        if self._pending_bytes >= self._layout.row_group_bytes:
            self._write_pending()
            if self._open is not None and self._open.sink.tell() >= self._layout.file_bytes:
                self._complete()

    def _write_pending(self) -> None:
        """Write the pending rows as a row group."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if any(batch.num_rows for batch in pending):
            rows = pa.Table.from_batches(pending)
            self._open = self._open or _NewFile(self._table, self._arrival_date, rows.schema)
            self._open.write(rows)

    def _complete(self) -> None:
        if self._open is not None:
            self.written.append(self._open.close(self._location))
            self._open = None


class _NewFile:
    """A file that is being written."""

    def __init__(self, table: ChainedTable, arrival_date: str, schema: pa.Schema) -> None:
        name = f"rewritten-{uuid4().hex}.{REWRITTEN_FILES.name}.parquet"
        self._path = f"arrival_date={arrival_date}/{name}"
        self._arrival_date = arrival_date
        self._rows = 0
        self._bounds: dict[str, tuple[Any, Any]] = {}
        self.sink = write_new(table.files, self._path)
        self._writer = pq.ParquetWriter(
            self.sink,
            schema,
            compression=REWRITTEN_FILES.codec,
            compression_level=REWRITTEN_FILES.level,
            use_dictionary=DICTIONARIES,
            write_statistics=STATISTICS,
        )

    def write(self, rows: pa.Table) -> None:
        """Write rows as a row group."""
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._rows += rows.num_rows
        for name in STATISTICS:
            found = pc.min_max(rows[name]).as_py()
            low, high = self._bounds.get(name, (found["min"], found["max"]))
            self._bounds[name] = min(low, found["min"]), max(high, found["max"])

    def close(self, location: str) -> IcebergFile:
        """Complete the file, and return its description."""
        self._writer.close()
        size = int(self.sink.tell())
        self.sink.close()
        return described(
            location,
            self._path,
            arrival_date=self._arrival_date,
            rows=self._rows,
            size=size,
            smallest={name: low for name, (low, _) in self._bounds.items()},
            greatest={name: high for name, (_, high) in self._bounds.items()},
        )
