"""Scan the keys of all rows in a Spark job, for the comparison with the commits.

Tasks read the data files themselves, and only their key columns.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kinesis_assets.spark.session import balanced, parallelism

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kinesis_assets.spark.arrow_steps import ArrowStep
    from kinesis_assets.table.store.storage import TableFolder

_KEYS = ["shard_id", "sequence_number", "sub_sequence_number"]
_COUNTS = pa.schema(
    {"batch_id": pa.int64(), "shard_id": pa.string(), "rows": pa.int64(), "checksum": pa.int64()}
)
_BATCH_ROWS = 65_536

_TASK_BYTES = 1 << 30
"""Target size of the files that one task reads, together."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The rows of one batch and shard.

    Attributes:
        checksum: Checksum over all of them, see `records.checksum`.
    """

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.rows + other.rows, self.checksum + other.checksum)


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a stream.

    Attributes:
        counted: The rows by batch id and shard id.
        duplicates: Number of records that are in the table more than once, by shard id, without zeros.
    """

    counted: Mapping[tuple[int, str], Counted]
    duplicates: Mapping[str, int]


def scan(spark: SparkSession, folder: TableFolder, stream: str, files: Sequence[tuple[str, int]]) -> Scan:
    """Read the keys of a stream's rows.

    Args:
        files: Path and size in bytes of each data file of one version.
    """
    if not files:
        return Scan({}, {})
    sizes = [size for _, size in files]
    tasks = min(len(files), max(parallelism(spark), sum(sizes) // _TASK_BYTES))
    groups = [[files[number][0] for number in numbers] for numbers in balanced(sizes, tasks)]
    numbers = spark.range(0, len(groups), 1, len(groups))
    counts = numbers.mapInArrow(
        _counting(folder, stream, groups), "batch_id long, shard_id string, rows long, checksum long"
    )
    counted: defaultdict[tuple[int, str], Counted] = defaultdict(Counted)
    for row in counts.collect():
        counted[row.batch_id, row.shard_id] += Counted(row.rows, row.checksum)
    keys = numbers.mapInArrow(
        _keys(folder, stream, groups), "shard_id string, sequence_number string, sub_sequence_number long"
    )
    doubles = keys.groupBy(*_KEYS).count().where("count > 1").groupBy("shard_id").count()
    return Scan(
        counted=dict(counted),
        duplicates={row["shard_id"]: row["count"] for row in doubles.collect()},
    )


def _counting(folder: TableFolder, stream: str, groups: Sequence[Sequence[str]]) -> ArrowStep:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch["id"].to_pylist()):
            totals: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
            for rows in _rows(folder, stream, groups[number], ["batch_id", *_KEYS]):
                for batch_id, shard_id, sequence_number, sub in zip(
                    *(column.to_pylist() for column in rows.columns), strict=True
                ):
                    total = totals[batch_id, shard_id]
                    total[0] += 1
                    total[1] += crc32(f"{sequence_number}:{sub}".encode())
            counts = ((*key, *total) for key, total in totals.items())
            yield pa.RecordBatch.from_pylist(
                [dict(zip(_COUNTS.names, each, strict=True)) for each in counts], _COUNTS
            )

    return run


def _keys(folder: TableFolder, stream: str, groups: Sequence[Sequence[str]]) -> ArrowStep:
    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in numbers for number in batch["id"].to_pylist()):
            yield from _rows(folder, stream, groups[number], _KEYS)

    return run


def _rows(
    folder: TableFolder, stream: str, paths: Sequence[str], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Read some columns of the stream's rows, one batch at a time."""
    filesystem = folder.open()
    for path in paths:
        with filesystem.open_input_file(path) as source:
            parquet = pq.ParquetFile(source)
            # One row group at a time, because iterating over all of them would read ahead.
            for group in range(parquet.num_row_groups):
                for batch in parquet.iter_batches(
                    batch_size=_BATCH_ROWS,
                    row_groups=[group],
                    columns=["stream", *columns],
                    use_threads=False,
                ):
                    # Other writers may store text as another type, such as a dictionary.
                    plain = pa.RecordBatch.from_arrays(
                        [_plain(column) for column in batch.columns], batch.schema.names
                    )
                    yield plain.filter(pc.equal(plain["stream"], stream)).select(list(columns))


def _plain(column: pa.Array) -> pa.Array:
    return column if pa.types.is_integer(column.type) else column.cast(pa.string())
