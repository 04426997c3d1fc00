"""The tasks that write the rows of a step, copy files of which rows are replaced without these, and copy
files with other types.

Rows that stay go from file to file here, and never enter the JVM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kinesis_assets.derive.data_files import (
    CHANGES_FOLDER,
    CopiedFile,
    DerivedFileWriter,
    Manifest,
    RecordCounts,
    counts_of,
)
from kinesis_assets.derive.read import FILE_COLUMN, POSITION_COLUMN, files_of_groups, rows_of_file
from kinesis_assets.ingest.manifest import encode
from kinesis_assets.kinesis.records.records import binaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kinesis_assets.derive.data_files import WritingJob
    from kinesis_assets.spark.arrow_steps import ArrowStep
    from kinesis_assets.table.data_file import TableFile

_COPIED_ROWS = 1 << 15
"""Maximum number of rows that are copied at once."""

_LARGE = 4
"""A file that has this fraction of the greatest size is not continued with the rows of the next copied file.
Small files are merged, and large ones keep their range of keys."""


def writing_task(job: WritingJob) -> ArrowStep:
    """Return the function that Spark's `mapInArrow` runs for each partition of the rows.

    Its input has the columns of the table. If files are replaced, it has the columns of `read` with each
    row's place too: a row with a position is the one of the table that is replaced there, and only its place
    is used. A row with a file, but without a position, is new, and is written after the rows of that file.
    All rows with the same file are in one partition, one after the other, those with a position first.
    Records are counted only if no files are replaced. The function returns a manifest.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept = DerivedFileWriter(job)
        replaced = DerivedFileWriter(replace(job, partition_by=(), prefix=f"{CHANGES_FOLDER}/"))
        copies = _Copies(job, kept, replaced)
        error_column, counts = job.error_column, RecordCounts()
        for batch in batches:
            if job.removed:
                copies.write(batch)
                continue
            rows = batch
            if error_column is not None:
                found = counts_of(batch, error_column)
                counts += found
                if found.errors and not job.keeps_errors:
                    rows = batch.filter(pc.is_null(batch[error_column]))
            kept.write(rows)
        copies.end_file()
        counted = None if error_column is None else counts
        manifest = Manifest(tuple(kept.close()), tuple(replaced.close()), counted)
        yield pa.RecordBatch.from_arrays([binaries([encode(manifest)])], ["manifest"])

    return run


class _Copies:
    """Copies files without the rows that are replaced, one after the other.

    Args:
        kept: Writes the rows that stay, and new rows.
        replaced: Writes the rows that are replaced.
    """

    def __init__(self, job: WritingJob, kept: DerivedFileWriter, replaced: DerivedFileWriter) -> None:
        self._job = job
        self._kept = kept
        self._replaced = replaced
        self._filesystem = job.folder.open()
        self._number: int | None = None
        self._is_copied = False
        self._positions: list[npt.NDArray[np.int64]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write new rows, and copy the files of rows that are replaced."""
        for number in pc.unique(batch[FILE_COLUMN]).to_pylist():  # in the order of the rows
            if number is None:
                self._kept.write(batch.filter(pc.is_null(batch[FILE_COLUMN])))
                continue
            if number != self._number:
                self.end_file()
                self._number, self._is_copied, self._positions = number, False, []
            rows = batch.filter(pc.equal(batch[FILE_COLUMN], number))
            self._positions.append(rows[POSITION_COLUMN].drop_null().to_numpy())
            new = rows.filter(pc.is_null(rows[POSITION_COLUMN]))
            if new.num_rows:
                self._copy()
                self._kept.write(new)

    def end_file(self) -> None:
        """Copy the current file, if it is not copied yet."""
        if self._number is not None:
            self._copy()
            self._kept.close_files_of(self._job.layout.file_bytes // _LARGE)
            self._number = None

    def _copy(self) -> None:
        if self._is_copied or self._number is None:
            return
        self._is_copied = True
        positions = np.concatenate(self._positions)
        start = 0
        file = self._job.removed[self._number]
        for rows in rows_of_file(self._filesystem, file, self._job.schema, batch_rows=_COPIED_ROWS):
            first, last = np.searchsorted(positions, (start, start + rows.num_rows))
            is_replaced = np.zeros(rows.num_rows, bool)
            is_replaced[positions[first:last] - start] = True
            start += rows.num_rows
            self._kept.write(rows.filter(pa.array(~is_replaced)))
            self._replaced.write(rows.filter(pa.array(is_replaced)))


def copying_task(job: WritingJob, groups: Sequence[Sequence[tuple[int, TableFile]]]) -> ArrowStep:
    """Return the function that copies the files of each task number, each to files of its own.

    The copies have the columns of the job. The function returns a `CopiedFile` for each file.
    """

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem = job.folder.open()
        for _, file in files_of_groups(numbers, groups):
            writer = DerivedFileWriter(job)
            for rows in rows_of_file(filesystem, file, job.schema, batch_rows=_COPIED_ROWS):
                writer.write(rows)
            copied = CopiedFile(file.path, tuple(writer.close()))
            yield pa.RecordBatch.from_arrays([binaries([encode(copied)])], ["copied"])

    return run
