"""The manifest that a task of a replay returns to the driver."""

from __future__ import annotations

import msgspec

from kinesis_assets.ingest.manifest import ShardResult
from kinesis_assets.ingest.reading_facts import Time
from kinesis_assets.table.data_files.data_file import DataFile
from kinesis_assets.table.positions.range_stats import Count


class ShardFillResult(ShardResult, frozen=True, forbid_unknown_fields=True):
    """The result of reading one shard again. Its rows are the records that the table lacked.

    Attributes:
        read: Number of records read.
        first_read: Sequence number of the first record read; None if none was read.
        last_arrival: Arrival of the last record read; None if none was read.
    """

    read: Count
    first_read: str | None
    last_arrival: Time | None


class FillResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a replay's Spark job: its files and its shards. Nothing is committed yet."""

    files: tuple[DataFile, ...] = ()
    shards: tuple[ShardFillResult, ...] = ()

    def __add__(self, other: FillResult) -> FillResult:
        return FillResult(self.files + other.files, self.shards + other.shards)
