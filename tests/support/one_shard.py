"""A stream of one shard: its range, and what a reading of it returns."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.position import Position, PositionKind

if TYPE_CHECKING:
    from kinesis_assets.kinesis.reading.reading import ShardReading

SHARD = "shardId-000000000000"
LAST_KEY = (1 << 128) - 1
ALL_KEYS = ("0", str(LAST_KEY))
MIDDLE = str(1 << 127)
BEGINNING = Position(PositionKind.TRIM_HORIZON)


def data(reading: ShardReading) -> list[bytes]:
    """Read to the end of the range and return the data."""
    return [record.data for record in chain.from_iterable(reading)]


def items(reading: ShardReading) -> list[int]:
    """Read to the end of the range and return the data, which are numbers."""
    return [int(each) for each in data(reading)]
