"""The positions files of a stream of many shards: their bytes, for few moving shards and for all."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.harness.section import Goal, Section, Target, table
from benchmarks.sections.contention import STREAM
from kinesis_assets.emulator.sequence_numbers import SequenceNumber
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.positions import FORMAT, ShardPosition, StreamPositions
from kinesis_assets.table.positions_chain import ChainPolicy
from kinesis_assets.table.range_stats import RangeStats
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Mapping

SHARDS = 1000
MOVING = (1, 10, 100, 1000)
CYCLE = ChainPolicy().max_files + 1
"""Commits from one base to the next, at the most."""

THREE_DAYS = 259_200
"""Commits of three days at one a second: files are kept for so long, whatever they take."""

MOST_BYTES = 10e9
RUN_ID = "5f0c7f8e-8d2b-4c1e-9d67-1f0a3b5c7d9e"

_ERA = 0x5BF4E5C2
_BEGAN = 1_700_000_000


class BusyStream:
    """Shards whose records have the numbers that Kinesis gives them, and are random in all else.

    Args:
        count: Of shards.

    Attributes:
        shards: As they stand.
    """

    def __init__(self, count: int) -> None:
        self._random = random.Random(19)  # the same each time
        self._ordinals = [self._random.randrange(1 << 40) for _ in range(count)]
        self._second = _BEGAN
        self.shards = {
            f"shardId-{shard:012}": ShardPosition(
                parents=(f"shardId-{shard + count:012}",),
                hash_range=(str(shard << 118), str((shard + 1 << 118) - 1)),
                position=self._position(shard),
                wanted_from=datetime.fromtimestamp(_BEGAN, UTC),
                retention_hours=24,
            )
            for shard in range(count)
        }

    def a_second(self, moving: int) -> Mapping[str, RangeStats]:
        """Let a second pass, after which so many shards were read on; what was written of them."""
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

    def _position(self, shard: int, later: int = 0) -> Position:
        self._ordinals[shard] += later
        return Position.after(str(SequenceNumber(_ERA, shard, self._ordinals[shard], self._second)))


def positions_of(
    stream: BusyStream, previous: StreamPositions | None, added: Mapping[str, RangeStats]
) -> StreamPositions:
    """The positions after a commit."""
    commit_id = new_id()
    return StreamPositions(
        format=FORMAT,
        identity=STREAM,
        commit_id=commit_id,
        previous=None if previous is None else previous.commit_id,
        generation=0 if previous is None else previous.generation + 1,
        batch_id=commit_id,
        shards=stream.shards,
        added=dict(added),
        by=RUN_ID,
        listed_at=datetime.fromtimestamp(_BEGAN, UTC),
    )


def mean_bytes(shards: int, moving: int, commits: int = CYCLE) -> float:
    """Bytes of a positions file, the mean over some commits, bases among them."""
    with tempfile.TemporaryDirectory() as folder:
        chain = PositionedTable(folder).chain
        stream, newest = BusyStream(shards), None
        for number in range(commits):
            added = stream.a_second(moving) if number else {}
            newest = positions_of(stream, newest, added)
            chain.write(newest)
        return sum(path.stat().st_size for path in Path(folder).rglob("*.json")) / commits


def section(full: bool) -> Section:
    """Of the report."""
    del full
    sizes = {moving: mean_bytes(SHARDS, moving) for moving in MOVING}
    what = (
        f"Positions files of {SHARDS:,} shards; sequence numbers are laid out as the service's, and random "
        f"in what the service does not fix. Each mean is of {CYCLE} commits, bases among them."
    )
    rows = [
        [f"{moving:,}", f"{size / 1000:.1f}", f"{size * THREE_DAYS / 1e9:.1f}"]
        for moving, size in sizes.items()
    ]
    columns = ["shards that move with each commit", "KB of a commit", "GB of 3 days at a commit a second"]
    most = max(sizes.values()) * THREE_DAYS
    return Section(
        "Positions files",
        f"{what}\n\n{table(columns, rows)}",
        targets=[Target(Goal.CHAIN_BYTES, f"{most / 1e9:.1f} GB", met=most <= MOST_BYTES)],
    )
