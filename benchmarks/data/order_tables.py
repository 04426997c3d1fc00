"""Tables of orders: raw tables with any number of records, and tables with a row for each order.

A file with the same rows as another one is a link to it, so that large tables are created quickly.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from benchmarks.data.derivations import DERIVED, ITEMS, KEY, NEWEST_BY, RAW
from benchmarks.data.one_record_commits import LISTING, SHARDS, load_positions
from kinesis_assets.derive.commit import Attempt
from kinesis_assets.derive.commit import commit as commit_derived
from kinesis_assets.derive.data_files import (
    BATCH_COLUMN,
    Manifest,
    WritingJob,
)
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.writing_task import writing_task
from kinesis_assets.ingest.manifest import decode_all
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records.records import Record, checksum, record_batch
from kinesis_assets.schemas.ddl import KEEPING
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import commit
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.iceberg.columns import evolved, with_ids
from kinesis_assets.table.positions.range_stats import RangeStats
from kinesis_assets.table.store.storage import TableFolder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kinesis_assets.table.format import DerivedIn
    from kinesis_assets.table.raw_table import PositionedTable

_TYPES = {
    KEY: "long",
    NEWEST_BY: "timestamp",
    "item": "string",
    "amount": "double",
    **dict.fromkeys(KEEPING, "string"),
    "sub_sequence_number": "long",
    "data": "binary",
    BATCH_COLUMN: "long",
}
"""The columns of a table that `decoders.from_json` makes of orders."""

_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _TYPES.items()
    ],
}

_FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_BATCH_ROWS = 10_000


def land(table: PositionedTable, payloads: Iterable[bytes], *, copies: int = 1) -> None:
    """Commit records to a raw table, as one batch of one shard.

    Args:
        table: A table of `one_record_commits.create_table`.
        payloads: The payloads of the records.
        copies: Number of data files with these records.
    """
    shard_id, expected, batch_id = SHARDS[0], load_positions(table), new_id()
    before = expected.shards[shard_id]
    first = int(before.position.sequence_number or 0) + 1
    arrival = LISTING.summary.service_time.timestamp()
    records = [
        Record(str(number), arrival, payload, "k") for number, payload in enumerate(payloads, start=first)
    ]
    with DataFileWriter(table.files, batch_id) as writer:
        for start in range(0, len(records), _BATCH_ROWS):
            writer.write(shard_id, record_batch("orders", shard_id, records[start : start + _BATCH_ROWS]))
        (file,) = writer.close()
    paths = _linked(_local(table.folder), file.path, _local(table.folder), copies)
    through = Position.after(records[-1].sequence_number)
    stats = RangeStats(
        start=before.position,
        through=through,
        first_sequence_number=records[0].sequence_number,
        last_sequence_number=records[-1].sequence_number,
        rows=copies * len(records),
        bytes=copies * sum(len(record.data) for record in records),
        checksum=copies * sum(map(checksum, records)),
    )
    result = commit(
        table,
        expected=expected,
        listing=LISTING,
        batch_id=batch_id,
        moved={shard_id: msgspec.structs.replace(before, position=through)},
        files=[msgspec.structs.replace(file, path=path) for path in paths],
        added={shard_id: stats},
    )
    assert not result.conflicts, result


@dataclass(frozen=True)
class OrderFiles:
    """Data files of derived tables, with orders whose keys are the numbers from 0.

    Attributes:
        folder: Their folder.
        batch_id: The batch id of their rows.
    """

    folder: Path
    batch_id: int
    manifest: Manifest

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(file.rows for file in self.manifest.files)

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return sum(file.size for file in self.manifest.files)

    @classmethod
    def write(cls, folder: Path, files: int, file_rows: int, *, field_ids: bool = False) -> OrderFiles:
        """Write files with the same number of rows, in order of the key, as a derivation writes them.

        Args:
            field_ids: Whether the columns of the files have the ids of an Iceberg table.
        """
        schema = with_ids(_arrow_schema(), evolved(None, _SCHEMA)) if field_ids else _arrow_schema()
        job = WritingJob(TableFolder.at(str(folder)), schema, (), new_id())
        contents = []
        for number in range(files):
            batches = _batches(number * file_rows, file_rows, job.batch_id)
            contents += [batch["manifest"][0].as_py() for batch in writing_task(job)(batches)]
        return cls(folder, job.batch_id, sum(decode_all("orders", contents, Manifest), Manifest()))

    def create_derived(self, folder: Path, *, copies: int = 1, format: DerivedIn | None = None) -> None:  # noqa: A002
        """Create a derived table with these rows, which has consumed the raw table beside it to its end.

        Args:
            folder: The folder of both tables.
            copies: How often the table has each file.
            format: The format of the derived table; None for Delta Lake.
        """
        source = open_source(str(folder / RAW))
        table = DerivedTable(str(folder / DERIVED), format=format)
        table.open_or_create(source.id, _SCHEMA, ())
        commit_derived(
            table,
            Attempt(
                cursor=source.end, batch_id=self.batch_id, manifest=self._linked(folder / DERIVED, copies)
            ),
            expected=None,
        )

    def create_delta(self, folder: Path) -> None:
        """Create a Delta table with these rows for another program."""
        uri = str(folder / DERIVED)
        delta = DeltaTable.create(uri, Schema.from_json(json.dumps(_SCHEMA)))
        delta.create_write_transaction(
            [
                AddAction(
                    path=file.path,
                    size=file.size,
                    partition_values={},
                    modification_time=int(_FIRST_DAY.timestamp() * 1000),
                    data_change=True,
                    stats=file.statistics,
                )
                for file in self._linked(folder / DERIVED, 1).files
            ],
            mode="append",
            schema=delta.schema(),
        )

    def _linked(self, folder: Path, copies: int) -> Manifest:
        return Manifest(
            tuple(
                msgspec.structs.replace(file, path=path)
                for file in self.manifest.files
                for path in _linked(self.folder, file.path, folder, copies)
            )
        )


def _arrow_schema() -> pa.Schema:
    return pa.schema(Schema.from_json(json.dumps(_SCHEMA)).to_arrow())


def _batches(first: int, count: int, batch_id: int) -> Iterator[pa.RecordBatch]:
    """Yield rows as `writing_task` expects them."""
    schema = _arrow_schema()
    random = np.random.default_rng(first)
    items = pa.array([f"item {number}" for number in range(ITEMS)], schema.field("item").type)
    for start in range(first, first + count, _BATCH_ROWS):
        numbers = np.arange(start, min(start + _BATCH_ROWS, first + count))
        seconds = random.integers(0, int(timedelta(days=100).total_seconds()), len(numbers))
        known = {
            KEY: numbers,
            NEWEST_BY: (seconds + int(_FIRST_DAY.timestamp())) * 1_000_000,
            "item": items.take(pa.array(random.integers(0, len(items), len(numbers)))),
            "amount": random.random(len(numbers)) * 1000,
            BATCH_COLUMN: np.full(len(numbers), batch_id),
        }
        columns = [
            pa.array(known[field.name], field.type)
            if field.name in known
            else pa.nulls(len(numbers), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _linked(origin: Path, path: str, folder: Path, copies: int) -> Sequence[str]:
    """Link a file into a folder some times, where it may be already, and return the paths in the folder."""
    paths = [path]
    prefix, suffix = path.rsplit("-", 1)[0], path.split(".", 1)[1]
    paths += [f"{prefix}-{uuid4().hex}.{suffix}" for _ in range(copies - 1)]
    for each in paths:
        if not (folder / each).exists():
            os.link(origin / path, folder / each)
    return paths


def _local(folder: TableFolder) -> Path:
    return Path(folder.uri.removeprefix("file://"))
