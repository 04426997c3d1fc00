"""A table for a stream of eight shards, and commits of one record each."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.records import Record, checksum, record_batch
from kinesis_assets.kinesis.stream import Shard, StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import commit, freeze
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.positions.range_stats import RangeStats
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.table.commits.commit import CommitResult
    from kinesis_assets.table.positions.positions import StreamPositions

STREAM = StreamIdentity(
    "arn:aws:kinesis:us-east-1:000000000000:stream/orders", datetime(2026, 1, 1, tzinfo=UTC)
)
SHARDS = [f"shardId-{number:012}" for number in range(8)]
LISTING = StreamListing(
    StreamSummary(STREAM, datetime(2026, 2, 2, tzinfo=UTC), retention_hours=24),
    [Shard(shard_id, (), ("0", "9"), "1") for shard_id in SHARDS],
)
BEGINNING = Position(PositionKind.TRIM_HORIZON)


def create_table(uri: str, open_table: Callable[[str], PositionedTable] = PositionedTable) -> PositionedTable:
    """Create a table with all shards at TRIM_HORIZON."""
    table = open_table(uri)
    freeze(table, LISTING, dict.fromkeys(SHARDS, BEGINNING))
    return table


def load_positions(table: PositionedTable) -> StreamPositions:
    """Open the table and read its positions."""
    positions = table.snapshot().positions(STREAM)
    assert positions is not None
    return positions


def prepare_commit(
    table: PositionedTable, expected: StreamPositions, shard_id: str, copies: int = 1
) -> Callable[[], CommitResult]:
    """Write a data file with the next record of a shard, and return the function that commits it.

    Args:
        copies: How often the file is committed, as links with other names. More than one need a local folder.
    """
    start = expected.shards[shard_id].position
    number = str(int(start.sequence_number or 0) + 1)
    record = Record(number, LISTING.summary.service_time.timestamp(), b"order", "k")
    batch_id, through = new_id(), Position.after(number)
    writer = DataFileWriter(table.files, batch_id, table.layout)
    writer.write(shard_id, record_batch("orders", shard_id, [record]))
    stats = RangeStats(
        start=start,
        through=through,
        first_sequence_number=number,
        last_sequence_number=number,
        rows=1,
        bytes=len(record.data),
        checksum=checksum(record),
    )
    (file,) = writer.close()
    files = [file]
    for copied in range(1, copies):
        copy = msgspec.structs.replace(file, path=file.path.replace(".", f"-{copied}.", 1))
        os.link(Path(table.uri, file.path), Path(table.uri, copy.path))
        files.append(copy)

    def commit_it() -> CommitResult:
        return commit(
            table,
            expected=expected,
            listing=LISTING,
            batch_id=batch_id,
            moved={shard_id: msgspec.structs.replace(expected.shards[shard_id], position=through)},
            files=files,
            added={shard_id: stats},
        )

    return commit_it


def commit_one_record(table: PositionedTable, shard_id: str) -> bool:
    """Commit the next record of a shard, and return whether no other process had moved the shard."""
    return not prepare_commit(table, load_positions(table), shard_id)().conflicts
