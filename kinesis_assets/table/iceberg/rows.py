"""Reads and rewrites rows of an Iceberg table by its data files, one row group at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes

from kinesis_assets.errors import TableUnreachable
from kinesis_assets.table.data_file import (
    DICTIONARIES,
    FIELD_IDS,
    FILE_SCHEMA,
    REWRITTEN_FILES,
    STATISTICS,
)
from kinesis_assets.table.data_file_writer import with_field_ids
from kinesis_assets.table.iceberg.columns import TYPES
from kinesis_assets.table.iceberg.manifests import described
from kinesis_assets.table.snapshot import NewestRow
from kinesis_assets.table.store.storage import write_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.manifest import DataFile as IcebergFile

    from kinesis_assets.table.data_file import FileStats
    from kinesis_assets.table.row_predicates import RowPredicate
    from kinesis_assets.table.snapshot import TableFiles

_KEYS = ["stream", "shard_id", "sequence_number", "sub_sequence_number", "approximate_arrival_timestamp"]
_BATCH_ROWS = 16_384


def _batches(
    table: TableFiles, file: FileStats, columns: Sequence[str] = FILE_SCHEMA.names
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data file.

    Raises:
        TableUnreachable: They cannot be read.
    """
    schema = pa.schema([FILE_SCHEMA.field(name) for name in columns])
    try:
        with table.files.open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            for group in range(parquet.num_row_groups):  # reading all of them would read ahead
                for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=list(columns)):
                    yield batch.select(columns).cast(schema)
    except (OSError, pa.ArrowException) as error:
        raise TableUnreachable(table.uri, f"its rows cannot be read: {error}") from None


def count_rows(table: TableFiles, files: Iterable[FileStats], predicate: RowPredicate) -> dict[str, int]:
    """Count the rows that match a predicate, by shard id."""
    found: Counter[str] = Counter()
    for file in filter(predicate.may_include, files):
        for batch in _batches(table, file, _KEYS):
            found.update(batch["shard_id"].filter(predicate.matches(batch)).to_pylist())
    return dict(found)


def newest_rows(table: TableFiles, files: Iterable[FileStats]) -> Mapping[str, Mapping[str, NewestRow]]:
    """Return the newest row of each shard, by stream name and shard id."""
    found: dict[str, dict[str, NewestRow]] = {}
    for file in files:
        for batch in _batches(table, file, _KEYS):
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
        deleted: The number of deleted rows.
    """

    replaced: set[str] = field(default_factory=set)
    written: list[IcebergFile] = field(default_factory=list)
    deleted: int = 0


def rewrite(
    table: TableFiles, location: str, files: Iterable[FileStats], predicate: RowPredicate
) -> Rewritten:
    """Write the files with rows that match a predicate again, without these rows. No file is deleted."""
    found = Rewritten()
    for file in filter(predicate.may_include, files):
        deleted = sum(predicate.matches(batch).true_count for batch in _batches(table, file, _KEYS))
        if not deleted:
            continue
        found.deleted += deleted
        found.replaced.add(file.path)
        found.written += _copy(table, location, file, predicate)
    return found


def _copy(table: TableFiles, location: str, file: FileStats, predicate: RowPredicate) -> list[IcebergFile]:
    path = f"arrival_date={file.arrival_date}/rewritten-{uuid4().hex}.{REWRITTEN_FILES.name}.parquet"
    bounds: dict[str, tuple[Any, Any]] = {}
    rows = 0
    writer: pq.ParquetWriter | None = None
    sink = None
    try:
        for batch in _batches(table, file):
            kept = batch.filter(pc.invert(predicate.matches(batch)))
            if not kept.num_rows:
                continue
            if writer is None:
                sink = write_new(table.files, path)
                writer = pq.ParquetWriter(
                    sink,
                    with_field_ids(FILE_SCHEMA),
                    compression=REWRITTEN_FILES.codec,
                    compression_level=REWRITTEN_FILES.level,
                    use_dictionary=DICTIONARIES,
                    write_statistics=STATISTICS,
                )
            writer.write_batch(kept)
            rows += kept.num_rows
            for name in STATISTICS:
                found = pc.min_max(kept[name])
                low, high = bounds.get(name, (found["min"].as_py(), found["max"].as_py()))
                bounds[name] = min(low, found["min"].as_py()), max(high, found["max"].as_py())
        if writer is None or sink is None:
            return []
        writer.close()
        size = int(sink.tell())
    finally:
        if sink is not None:
            sink.close()
    lower, upper = (
        {FIELD_IDS[name]: to_bytes(TYPES[name], bounds[name][end]) for name in STATISTICS} for end in (0, 1)
    )
    return [
        described(
            location,
            path,
            arrival_date=file.arrival_date.isoformat(),
            rows=rows,
            size=size,
            lower=lower,
            upper=upper,
        )
    ]
