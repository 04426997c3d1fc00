"""Finds the records that a table lacks, from the statistics and keys of its data files.

Spark tasks import this module, so it does not read the table's log: the driver passes the files to it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date, datetime

    from pyarrow.fs import FileSystem

    from kinesis_assets.table.data_files.file_stats import FileStats

_KEYS = ["sequence_number", "sub_sequence_number"]
_COLUMNS = ["shard_id", *_KEYS]
_BATCH_ROWS = 16_384

_OPEN_FILES = 4
"""Files that a task reads at once. Each takes memory for the key columns of one row group."""


class ExistingKeys:
    """Finds the records of a page that the table lacks. Safe to share between threads.

    A record has the same arrival time in the stream and in the table. So only files and row groups that may
    have rows with the page's arrival times are read, and only keys of the page are kept: memory use does not
    depend on the size of the table or of the range.

    Args:
        filesystem: The table's folder.
        files: The data files of one version of the table.
    """

    def __init__(self, filesystem: FileSystem, files: Sequence[FileStats]) -> None:
        self._filesystem = filesystem
        self._by_date: defaultdict[date, list[FileStats]] = defaultdict(list)
        for file in files:
            self._by_date[file.arrival_date].append(file)
        self._open_files = threading.BoundedSemaphore(_OPEN_FILES)

    def missing(self, shard_id: str, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return, for each record of a batch, whether it is missing from the table.

        Args:
            shard_id: The shard that all records belong to.
            batch: Records, as `RECORD_SCHEMA`; at least one.
        """
        arrivals = pc.min_max(batch["approximate_arrival_timestamp"])
        first, last = arrivals["min"].as_py(), arrivals["max"].as_py()
        numbers = pc.unique(batch["sequence_number"])
        existing: set[tuple[str, int]] = set()
        for file in self._files(shard_id, first, last):
            with self._open_files, self._filesystem.open_input_file(file.path) as source:
                for found in _rows(pq.ParquetFile(source), shard_id, first, last):
                    existing.update(_keys(found.filter(pc.is_in(found["sequence_number"], numbers))))
        return pa.array([key not in existing for key in _keys(batch)], pa.bool_())

    def _files(self, shard_id: str, first: datetime, last: datetime) -> Iterator[FileStats]:
        for days in range((last.date() - first.date()).days + 1):
            for file in self._by_date.get(first.date() + timedelta(days), ()):
                if file.may_contain_shard(shard_id) and file.may_contain_arrivals(first, last):
                    yield file


def _rows(
    parquet: pq.ParquetFile, shard_id: str, first: datetime, last: datetime
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of a shard's rows from the row groups that may have these arrival times."""
    groups = [
        index
        for index in range(parquet.num_row_groups)
        if _group_may_contain(parquet.metadata.row_group(index), shard_id, first, last)
    ]
    # One group at a time: an iteration over all of them would read ahead.
    for group in groups:
        for batch in parquet.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[group], columns=_COLUMNS, use_threads=False
        ):
            # Other writers may have used another type of text column.
            shards, numbers = (batch[name].cast(pa.string()) for name in ("shard_id", "sequence_number"))
            rows = pa.record_batch([numbers, batch["sub_sequence_number"]], _KEYS)
            yield rows.filter(pc.equal(shards, shard_id))


def _group_may_contain(group: pq.RowGroupMetaData, shard_id: str, first: datetime, last: datetime) -> bool:
    wanted: dict[str, tuple[Any, Any]] = {
        "shard_id": (shard_id, shard_id),
        "approximate_arrival_timestamp": (first, last),
    }
    for index in range(group.num_columns):
        column = group.column(index)
        if column.path_in_schema not in wanted:
            continue
        smallest, largest = wanted[column.path_in_schema]
        statistics = column.statistics
        known = statistics is not None and statistics.has_min_max
        if known and (statistics.min > largest or statistics.max < smallest):
            return False
    return True


def _keys(batch: pa.RecordBatch) -> Iterator[tuple[str, int]]:
    return zip(*(batch[name].to_pylist() for name in _KEYS), strict=True)
