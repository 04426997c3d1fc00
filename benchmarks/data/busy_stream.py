"""Positions of a stream with many shards that move, with realistic numbers."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from benchmarks.data.one_record_commits import STREAM
from kinesis_assets.emulator.shards import SequenceNumber
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions.positions import FORMAT, ShardPosition, StreamPositions
from kinesis_assets.table.positions.range_stats import RangeStats

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_ID = "5f0c7f8e-8d2b-4c1e-9d67-1f0a3b5c7d9e"

_ERA = 0x5BF4E5C2
_START = 1_700_000_000


class BusyStream:
    """Shards whose sequence numbers have the layout of Kinesis and are random otherwise.

    Args:
        count: Number of shards.

    Attributes:
        shards: The current position of each shard.
    """

    def __init__(self, count: int) -> None:
        self._random = random.Random(19)  # the same in every run
        self._ordinals = [self._random.randrange(1 << 40) for _ in range(count)]
        self._second = _START
        self.shards = {
            f"shardId-{shard:012}": ShardPosition(
                parents=(f"shardId-{shard + count:012}",),
                hash_range=(str(shard << 118), str((shard + 1 << 118) - 1)),
                position=self._position(shard),
                wanted_from=datetime.fromtimestamp(_START, UTC),
                retention_hours=24,
            )
            for shard in range(count)
        }

    def advance(self, moving: int) -> Mapping[str, RangeStats]:
        """Let one second pass in which some shards are read, and return what was written for each of them."""
        self._second += 1
        now = datetime.fromtimestamp(self._second, UTC)
        added: dict[str, RangeStats] = {}
        after: dict[str, ShardPosition] = {}
        for shard in self._random.sample(range(len(self._ordinals)), moving):
            shard_id = f"shardId-{shard:012}"
            before, rows = self.shards[shard_id], self._random.randint(2, 1000)
            first = self._position(shard, self._random.randint(1, 1000))
            through = self._position(shard, self._random.randint(rows, 4 * rows))
            after[shard_id] = msgspec.structs.replace(
                before,
                position=through,
                tip_time=now,
                last_arrival=now - timedelta(milliseconds=self._random.randrange(1000)),
                bytes_per_second=self._random.randrange(1 << 20),
            )
            added[shard_id] = RangeStats(
                start=before.position,
                through=through,
                first_sequence_number=first.sequence_number or "",
                last_sequence_number=through.sequence_number or "",
                rows=rows,
                bytes=self._random.randint(100 * rows, 1000 * rows),
                checksum=self._random.randrange(rows << 32),
            )
        self.shards = self.shards | after
        return added

    def positions(self, previous: StreamPositions | None, added: Mapping[str, RangeStats]) -> StreamPositions:
        """Return the positions that the next commit stores."""
        commit_id = new_id()
        return StreamPositions(
            format=FORMAT,
            identity=STREAM,
            commit_id=commit_id,
            previous=None if previous is None else previous.commit_id,
            generation=0 if previous is None else previous.generation + 1,
            batch_id=commit_id,
            shards=self.shards,
            added=dict(added),
            by=RUN_ID,
            listed_at=datetime.fromtimestamp(_START, UTC),
        )

    def _position(self, shard: int, later: int = 0) -> Position:
        self._ordinals[shard] += later
        return Position.after(str(SequenceNumber(_ERA, shard, self._ordinals[shard], self._second)))
