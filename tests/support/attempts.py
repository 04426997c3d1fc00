"""Commits to a table without a stream, of records with chosen sequence numbers.

Other processes import this module too, so it does not import pytest.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import PositionConflict
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.records import Record, checksum, record_batch
from kinesis_assets.kinesis.stream import Shard, StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.commits.commit import commit, freeze
from kinesis_assets.table.data_file_writer import DataFileWriter, FileLayout
from kinesis_assets.table.positions.range_stats import RangeStats
from support.formats import raw_table, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.synchronize import Barrier

    from kinesis_assets.table.commits.commit import CommitResult
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.raw_table import PositionedTable

BEGINNING = Position(PositionKind.TRIM_HORIZON)
STREAM = StreamIdentity(
    "arn:aws:kinesis:us-east-1:000000000000:stream/orders", datetime(2026, 1, 1, tzinfo=UTC)
)
LISTED_AT = datetime(2026, 2, 2, 12, tzinfo=UTC)
NOON = 1_770_033_600
"""2026-02-02 12:00:00 UTC."""


def shards(*names: str) -> list[Shard]:
    """Return shards without parents."""
    return [Shard(name, (), ("0", "9"), "1") for name in names]


def listing(listed: Sequence[Shard], identity: StreamIdentity = STREAM) -> StreamListing:
    """Return a listing of a stream."""
    return StreamListing(StreamSummary(identity, LISTED_AT, retention_hours=24), listed)


def current_summary(identity: StreamIdentity = STREAM) -> StreamSummary:
    """Return the summary of a stream, by this machine's clock."""
    return StreamSummary(identity, datetime.now(UTC), retention_hours=24)


def freeze_all(
    table: PositionedTable,
    listed: Sequence[Shard],
    start: Position = BEGINNING,
    identity: StreamIdentity = STREAM,
) -> StreamPositions:
    """Freeze a stream with the same start for all shards."""
    return freeze(table, listing(listed, identity), {shard.shard_id: start for shard in listed})


def records(first: int, count: int, seconds: float = NOON) -> list[Record]:
    """Return records with consecutive sequence numbers, one millisecond apart."""
    return [
        Record(str(number), seconds + (number % 1000) / 1000, b"%d" % number, "k")
        for number in range(first, first + count)
    ]


def land(
    table: PositionedTable, batch_id: int, rows: dict[str, Sequence[Record]], layout: FileLayout | None = None
) -> list[DataFile]:
    """Write the records of each shard to data files."""
    writer = DataFileWriter(table.files, batch_id, layout or table.layout)
    for shard_id, of_shard in rows.items():
        writer.write(shard_id, record_batch(STREAM.name, shard_id, of_shard))
    return writer.close()


def landed_from(start: Position, rows: Sequence[Record]) -> RangeStats:
    """Return the stats of new rows of one shard."""
    return RangeStats(
        start=start,
        through=Position.after(rows[-1].sequence_number),
        first_sequence_number=rows[0].sequence_number,
        last_sequence_number=rows[-1].sequence_number,
        rows=len(rows),
        bytes=sum(len(record.data) for record in rows),
        checksum=sum(map(checksum, rows)),
    )


def last_number(positions: StreamPositions, shard_id: str) -> int:
    """Return the sequence number of a shard's position, or 0 if it has none."""
    return int(positions.shards[shard_id].position.sequence_number or 0)


class Attempt:
    """One attempt to commit the next records of some shards.

    Args:
        expected: The positions that it starts from.
        counts: Number of records by shard.
        batch_id: Its id; a new one by default.
        arrived: When the records arrived, in seconds since the epoch.
    """

    def __init__(
        self,
        table: PositionedTable,
        expected: StreamPositions,
        counts: dict[str, int],
        batch_id: int = 0,
        arrived: float = NOON,
    ) -> None:
        self.table = table
        self.expected = expected
        self.batch_id = batch_id or new_id()
        self.moved: dict[str, ShardPosition] = {}
        self.added: dict[str, RangeStats] = {}
        rows = {}
        for shard_id, count in counts.items():
            first = last_number(expected, shard_id) + 1
            rows[shard_id] = records(first, count, arrived)
            if count:
                self.added[shard_id] = landed_from(expected.shards[shard_id].position, rows[shard_id])
            self.moved[shard_id] = msgspec.structs.replace(
                expected.shards[shard_id], position=Position.after(str(first + count - 1))
            )
        self.files = land(table, self.batch_id, rows)

    def commit(self) -> CommitResult:
        return commit(
            self.table,
            expected=self.expected,
            listing=listing(shards(*self.expected.shards)),
            batch_id=self.batch_id,
            moved=self.moved,
            files=self.files,
            added=self.added,
        )


def current_positions(table: PositionedTable) -> StreamPositions:
    """Return the table's current positions."""
    found = table.snapshot().positions(STREAM)
    assert found is not None
    return found


def rows_by_shard(table: PositionedTable) -> dict[str, list[int]]:
    """Return the sequence numbers in the table by shard, sorted. Shards without rows are omitted."""
    found: dict[str, list[int]] = {}
    for row in rows_of(table, ["shard_id", "sequence_number"]).to_pylist():
        found.setdefault(row["shard_id"], []).append(int(row["sequence_number"]))
    return {shard_id: sorted(numbers) for shard_id, numbers in sorted(found.items())}


def assert_rows_are_what_positions_say(table: PositionedTable) -> None:
    """Each record is in the table exactly once if its shard's position has passed it, and not otherwise."""
    positions = current_positions(table)
    passed = {shard_id: last_number(positions, shard_id) for shard_id in sorted(positions.shards)}
    assert rows_by_shard(table) == {
        shard_id: list(range(1, last + 1)) for shard_id, last in passed.items() if last
    }


# Functions of racing processes


_barrier: Barrier | None = None


def initialize_racer(barrier: Barrier) -> None:
    """Initialize a process, which then waits at the barrier before each race."""
    global _barrier  # noqa: PLW0603  # an initializer is the only way to pass it to a pool
    _barrier = barrier


def wait_for_others() -> None:
    """Wait at the barrier."""
    assert _barrier is not None
    _barrier.wait(timeout=SECONDS)


def race_to_freeze(uri: str, start: str) -> StreamPositions:
    """Freeze a stream at the same moment as the other processes."""
    table = raw_table(uri)
    wait_for_others()
    return freeze_all(table, shards("a", "b"), Position.parse(start))


def race_to_commit(uri: str, shard_id: str, rounds: int) -> tuple[int, int]:
    """Commit to a shard repeatedly, each time from its current position.

    Returns:
        The number of commits that won, and of those that lost.
    """
    table = raw_table(uri)
    won = 0
    for _ in range(rounds):
        attempt = Attempt(table, current_positions(table), {shard_id: 3})
        wait_for_others()
        result = attempt.commit()
        assert all(isinstance(error, PositionConflict) for error in result.conflicts.values())
        won += not result.conflicts
    return won, rounds - won
