"""A sample of the records of a raw table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.table.table import PositionedTable

_MAX_FILES = 16
_MAX_BYTES = 64 << 20
"""The limit of a sample, in bytes of payload."""

_BATCH_ROWS = 1024


def sample_payloads(table: PositionedTable, snapshot: TableSnapshot, count: int) -> list[bytes]:
    """Return payloads of a raw table, from its newest files. Damaged aggregates are left out."""
    snapshot.refuse_unreadable()
    found: list[bytes] = []
    size = 0
    for payload in _payloads(table, snapshot, count):
        found.append(payload)
        size += len(payload)
        if len(found) == count or size > _MAX_BYTES:
            break
    return found


def _payloads(table: PositionedTable, snapshot: TableSnapshot, count: int) -> Iterator[bytes]:
    """Yield payloads, about the same number from each of the newest files."""
    files = sorted(
        snapshot.data_files(["batch_id"]), key=lambda each: each.greatest["batch_id"] or 0, reverse=True
    )[:_MAX_FILES]
    filesystem = table.folder.open()
    for number, file in enumerate(files):
        rest = -(-count // (len(files) - number))
        with filesystem.open_input_file(file.path) as opened:
            batches = pq.ParquetFile(opened).iter_batches(min(rest, _BATCH_ROWS), columns=["data", "error"])
            for row in (row for batch in batches for row in batch.to_pylist()):
                if row["error"] is None:
                    yield row["data"]
                    rest -= 1
                    count -= 1
                if not rest:
                    break
