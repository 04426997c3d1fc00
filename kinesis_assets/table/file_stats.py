"""Which of some records the table holds already, told from its data files.

This module runs in Spark tasks too, so it knows nothing of the table's log: the driver hands it the files.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow.fs import FileSystem

_KEYS = ["sequence_number", "sub_sequence_number"]
_COLUMNS = ["shard_id", *_KEYS]
_BATCH_ROWS = 16_384

_LOOKS = 4
"""Files looked through at once by a task: each costs the key columns of one row group."""


@dataclass(frozen=True, slots=True)
class StandingFile:
    """A data file of one version of the table.

    Attributes:
        path: Relative to the table's folder.
        size: Bytes.
        rows: Of all its shards.
        arrival_date: ISO date, UTC, of every row in it.
    """

    path: str
    size: int
    rows: int
    arrival_date: str


class HeldFile(msgspec.Struct, frozen=True):
    """A data file of one version of the table, with what its statistics say; None where they say nothing.

    Attributes:
        path: Relative to the table's folder.
        arrival_date: Of every row in it, UTC.
        first_arrival: No row in it arrived before,
        last_arrival: nor after.
        first_shard_id: No row in it has a smaller shard id,
        last_shard_id: nor a larger one, as text.
    """

    path: str
    arrival_date: date
    first_arrival: datetime | None
    last_arrival: datetime | None
    first_shard_id: str | None
    last_shard_id: str | None

    def may_hold_arrivals(self, first: datetime, last: datetime | None) -> bool:
        """Whether a row may be in it that arrived from `first` to `last`, both inclusive."""
        if self.arrival_date < first.date() or _above(first, self.last_arrival):
            return False
        return last is None or not (self.arrival_date > last.date() or _above(self.first_arrival, last))

    def may_hold_shard(self, shard_id: str) -> bool:
        """Whether a row of a shard may be in it."""
        return not (_above(self.first_shard_id, shard_id) or _above(shard_id, self.last_shard_id))


class HeldKeys:
    """Finds the records of a page that the table lacks. Safe to share between threads.

    A record arrived at the same time in the stream and in the table, so only those files and row groups are
    read that have rows of the page's arrivals, and of their keys only those in the page are kept: memory
    does not grow with the table or the range.

    Args:
        filesystem: The table's folder.
        files: The table's, at one version.
    """

    def __init__(self, filesystem: FileSystem, files: Sequence[HeldFile]) -> None:
        self._filesystem = filesystem
        self._by_date: defaultdict[date, list[HeldFile]] = defaultdict(list)
        for file in files:
            self._by_date[file.arrival_date].append(file)
        self._looks = threading.BoundedSemaphore(_LOOKS)

    def lacking(self, shard_id: str, batch: pa.RecordBatch) -> pa.BooleanArray:
        """For each record of one shard, a batch of `RECORD_SCHEMA`, whether the table lacks it."""
        arrivals = pc.min_max(batch["approximate_arrival_timestamp"])
        first, last = arrivals["min"].as_py(), arrivals["max"].as_py()
        numbers = pc.unique(batch["sequence_number"])
        held: set[tuple[str, int]] = set()
        for file in self._files(shard_id, first, last):
            with self._looks, self._filesystem.open_input_file(file.path) as source:
                for found in _rows(pq.ParquetFile(source), shard_id, first, last):
                    held.update(_keys(found.filter(pc.is_in(found["sequence_number"], numbers))))
        return pa.array([key not in held for key in _keys(batch)], pa.bool_())

    def _files(self, shard_id: str, first: datetime, last: datetime) -> Iterator[HeldFile]:
        for days in range((last.date() - first.date()).days + 1):
            for file in self._by_date.get(first.date() + timedelta(days), ()):
                if file.may_hold_shard(shard_id) and file.may_hold_arrivals(first, last):
                    yield file


def _rows(
    parquet: pq.ParquetFile, shard_id: str, first: datetime, last: datetime
) -> Iterator[pa.RecordBatch]:
    """The keys of a shard's rows, from the row groups that may have some of these arrivals."""
    groups = [
        index
        for index in range(parquet.num_row_groups)
        if _group_may_hold(parquet.metadata.row_group(index), shard_id, first, last)
    ]
    # One at a time: an iteration over all of them would read ahead.
    for group in groups:
        for batch in parquet.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[group], columns=_COLUMNS, use_threads=False
        ):
            # A writer may have left its own kind of text.
            shards, numbers = (batch[name].cast(pa.string()) for name in ("shard_id", "sequence_number"))
            rows = pa.record_batch([numbers, batch["sub_sequence_number"]], _KEYS)
            yield rows.filter(pc.equal(shards, shard_id))


def _group_may_hold(group: pq.RowGroupMetaData, shard_id: str, first: datetime, last: datetime) -> bool:
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


def _above(value: Any, other: Any) -> bool:
    """Whether a value is known to be above another; None is not known."""
    return value is not None and other is not None and value > other
