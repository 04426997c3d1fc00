"""The manifest that a task of a replay returns to the driver."""

from __future__ import annotations

import msgspec

from kinesis_assets.ingest.manifest import Count, ShardResult
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.data_file import DataFile


class ShardFillResult(ShardResult, frozen=True, forbid_unknown_fields=True):
    """The result of reading one shard again. Its rows are the records that the table lacked.

    Attributes:
        start: The position at which the range started.
        through: The position up to which the range was read; the next read would start there.
        read: Records read.
        first_read: Sequence number of the first record read; None if none was read.
        last_sequence_number: The last row's; None if there are no rows.
    """

    start: Position
    through: Position
    read: Count
    first_read: str | None
    last_sequence_number: str | None


class FillResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a replay's Spark job: its files and its shards. Nothing is committed yet."""

    files: tuple[DataFile, ...] = ()
    shards: tuple[ShardFillResult, ...] = ()

    def __add__(self, other: FillResult) -> FillResult:
        return FillResult(self.files + other.files, self.shards + other.shards)
