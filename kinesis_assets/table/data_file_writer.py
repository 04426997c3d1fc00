"""Writes the table's data files.

Spark tasks import this module, so it does not read the table's log.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from kinesis_assets.kinesis.records.records import RECORD_SCHEMA, same_integer
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    FILE_BYTES,
    FILE_SCHEMA,
    FILE_SCHEMA_WITH_IDS,
    NEW_FILES,
    ROW_GROUP_BYTES,
    STATISTICS,
    DataFile,
)
from kinesis_assets.table.store.storage import write_new

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_ARRIVAL = RECORD_SCHEMA.get_field_index("approximate_arrival_timestamp")
_INT64_BYTES = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The sizes of data files. Can be pickled.

    Attributes:
        row_group_bytes: See `ROW_GROUP_BYTES`.
        file_bytes: See `FILE_BYTES`.
        open_files: Maximum number of files that a task has open, each for another arrival date. The oldest is
            closed first.
        open_seconds: Age of a file in seconds from which it gets no further rows: the credentials with which
            it was opened expire, see `role_credentials`.
        field_ids: Whether the schema of a file has the ids of its columns, as Iceberg tables need.
    """

    row_group_bytes: int = ROW_GROUP_BYTES
    file_bytes: int = FILE_BYTES
    open_files: int = 4
    open_seconds: float = 1800.0
    field_ids: bool = False


class DataFileWriter:
    """Writes record batches to new Parquet files in a table's folder; `close` returns these files.

    Use it in a `with` block: if the block ends before `close`, no further write is started. Threads open and
    close files and write row groups while the next row group is collected. Their errors are raised by a later
    call, by `close` at the latest.

    Memory is bounded by two row groups for each open file and for one that is being closed.
    """

    def __init__(
        self, filesystem: pyarrow.fs.FileSystem, batch_id: int, layout: FileLayout = FileLayout()
    ) -> None:
        self._layout = layout
        self._filesystem = filesystem
        self._batch_id = batch_id
        self._open: dict[str, _OpenFile] = {}
        self._closed: list[DataFile] = []
        self._closing: Future[DataFile] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.leave()

    def write(self, shard_id: str, batch: pa.RecordBatch) -> None:
        """Add records of one shard, as `RECORD_SCHEMA`, to the open files of their arrival dates."""
        if not batch.num_rows:
            return
        seconds = self._layout.open_seconds
        for arrival_date in [date for date, file in self._open.items() if file.age >= seconds]:
            self._close(arrival_date)
        for arrival_date, part, arrivals in _by_arrival_date(batch):
            file = self._file(arrival_date)
            file.write(shard_id, part, arrivals)
            if file.written >= self._layout.file_bytes:
                self._close(arrival_date)

    def close(self) -> list[DataFile]:
        """Finish all files. When this returns, they are complete in the folder."""
        for arrival_date in list(self._open):
            self._close(arrival_date)
        self._wait_for_closing()
        return self._closed

    def _file(self, arrival_date: str) -> _OpenFile:
        if arrival_date not in self._open:
            if len(self._open) >= self._layout.open_files:
                self._close(next(iter(self._open)))
            self._open[arrival_date] = _OpenFile(self._filesystem, self._batch_id, arrival_date, self._layout)
        return self._open[arrival_date]

    def _close(self, arrival_date: str) -> None:
        """Start to close a file, after the previous one is closed."""
        self._wait_for_closing()
        self._closing = self._open.pop(arrival_date).close()

    def _wait_for_closing(self) -> None:
        if self._closing is not None:
            self._closed.append(self._closing.result())
            self._closing = None


class _OpenFile:
    """A file with a thread that opens it, writes its row groups and closes it."""

    def __init__(
        self, filesystem: pyarrow.fs.FileSystem, batch_id: int, arrival_date: str, layout: FileLayout
    ) -> None:
        self._row_group_bytes = layout.row_group_bytes
        self._schema = FILE_SCHEMA_WITH_IDS if layout.field_ids else FILE_SCHEMA
        self._filesystem = filesystem
        self._batch_id = batch_id
        self._arrival_date = arrival_date
        self._path = f"arrival_date={arrival_date}/part-{batch_id}-{uuid4().hex}.{NEW_FILES.name}.parquet"
        self.written = 0  # bytes, without the row group that is being written
        self._opened = time.monotonic()
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._thread = ThreadPoolExecutor(1)
        self._in_flight: Future[None] = self._thread.submit(self._begin)
        self._rows_by_shard: Counter[str] = Counter()
        self._arrivals: list[int] = []

    @property
    def age(self) -> float:
        return time.monotonic() - self._opened

    def write(self, shard_id: str, batch: pa.RecordBatch, arrivals: tuple[int, int]) -> None:
        self._pending.append(batch)
        self._pending_bytes += batch.get_total_buffer_size()
        self._rows_by_shard[shard_id] += batch.num_rows
        both = [*self._arrivals, *arrivals]
        self._arrivals = [min(both), max(both)]
        if self._pending_bytes >= self._row_group_bytes:
            self._in_flight.result()
            self._write_pending()

    def close(self) -> Future[DataFile]:
        """Start to write the pending records and to close the file."""
        if self._pending:
            self._write_pending()
        closed = self._thread.submit(self._end, self._in_flight)
        self._thread.shutdown(wait=False)
        return closed

    def leave(self) -> None:
        """Start no further operation."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        self._sink = write_new(self._filesystem, self._path)
        self._writer = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=NEW_FILES.codec,
            compression_level=NEW_FILES.level,
            use_dictionary=DICTIONARIES,
            write_statistics=STATISTICS,
        )

    def _end(self, before: Future[None]) -> DataFile:
        before.result()
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        return DataFile(
            path=self._path,
            size=size,
            arrival_date=self._arrival_date,
            rows_by_shard=dict(self._rows_by_shard),
            batch_id=self._batch_id,
            first_arrival=_time(self._arrivals[0]),
            last_arrival=_time(self._arrivals[1]),
        )

    def _write_pending(self) -> None:
        """Start to write the pending records as a row group."""
        table = pa.Table.from_batches(self._pending)
        batch_ids = same_integer(self._batch_id, table.num_rows)
        index = FILE_SCHEMA.get_field_index("batch_id")
        table = table.add_column(index, FILE_SCHEMA.field(index), batch_ids)
        self._pending, self._pending_bytes = [], 0
        self._in_flight = self._thread.submit(self._write_row_group, table, self._in_flight)

    def _write_row_group(self, table: pa.Table, before: Future[None]) -> None:
        before.result()
        self._writer.write_table(table)
        self.written = int(self._sink.tell())


def _arrivals(batch: pa.RecordBatch) -> tuple[int, int]:
    """Return the earliest and latest arrival time, in microseconds since the epoch."""
    column = batch.column(_ARRIVAL)
    arrivals = np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * _INT64_BYTES)
    return int(arrivals.min()), int(arrivals.max())


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _by_arrival_date(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch, tuple[int, int]]]:
    """Yield the records of each arrival date, with their earliest and latest arrival time."""
    first, last = _arrivals(batch)
    if first // _DAY == last // _DAY:
        yield _time(first).date().isoformat(), batch, (first, last)
        return
    dates = batch["approximate_arrival_timestamp"].cast(pa.date32())
    for arrival_date in dates.unique():
        part = batch.filter(pc.equal(dates, arrival_date))
        yield arrival_date.as_py().isoformat(), part, _arrivals(part)


def without_shards(
    filesystem: pyarrow.fs.FileSystem,
    file: DataFile,
    shard_ids: Collection[str],
    layout: FileLayout = FileLayout(),
) -> list[DataFile]:
    """Copy a file's rows except those of some shards to a new file. The file itself is not changed.

    Returns:
        The new file; the file itself if it has no row of these shards; nothing if it has no other row.
    """
    if file.rows_by_shard.keys().isdisjoint(shard_ids):
        return [file]
    kept = {shard: rows for shard, rows in file.rows_by_shard.items() if shard not in shard_ids}
    if not kept:
        return []
    copy = _OpenFile(filesystem, file.batch_id, file.arrival_date, layout)
    try:
        with filesystem.open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            for batch in parquet.iter_batches(batch_size=1024, columns=RECORD_SCHEMA.names):
                for shard_id in kept:
                    rows = batch.filter(pc.equal(batch["shard_id"], shard_id))
                    if rows.num_rows:
                        rows = rows.cast(RECORD_SCHEMA)
                        copy.write(shard_id, rows, _arrivals(rows))
        return [copy.close().result()]
    finally:
        copy.leave()
