"""Attempts on a table without a stream: records of chosen numbers, landed and committed.

Other processes import this module too, so it knows nothing of pytest.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from deltalake import DeltaTable

from kinesis_assets.errors import PositionConflict
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.checksums import checksum
from kinesis_assets.kinesis.records.record import Record
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.table.commit import commit, freeze
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.data_file_writer import DataFileWriter, FileLayout
from kinesis_assets.table.range_stats import RangeStats
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.synchronize import Barrier

    from kinesis_assets.table.commit import CommitResult
    from kinesis_assets.table.data_file import DataFile
    from kinesis_assets.table.positions import ShardPosition, StreamPositions

BEGINNING = Position(PositionKind.TRIM_HORIZON)
STREAM = StreamIdentity(
    "arn:aws:kinesis:us-east-1:000000000000:stream/orders", datetime(2026, 1, 1, tzinfo=UTC)
)
LISTED_AT = datetime(2026, 2, 2, 12, tzinfo=UTC)
NOON = 1_770_033_600
"""2026-02-02 12:00:00 UTC."""


def shards(*names: str) -> list[Shard]:
    """Shards without parents."""
    return [Shard(name, (), ("0", "9"), "1") for name in names]


def listing(listed: Sequence[Shard], identity: StreamIdentity = STREAM) -> StreamListing:
    """A look at a stream."""
    return StreamListing(StreamSummary(identity, LISTED_AT, retention_hours=24), listed)


def described(identity: StreamIdentity = STREAM) -> StreamSummary:
    """A stream as the service describes it now."""
    return StreamSummary(identity, datetime.now(UTC), retention_hours=24)


def freeze_all(
    table: PositionedTable,
    listed: Sequence[Shard],
    start: Position = BEGINNING,
    identity: StreamIdentity = STREAM,
) -> StreamPositions:
    """Freeze a stream, all shards at the same start."""
    return freeze(table, listing(listed, identity), {shard.shard_id: start for shard in listed})


def records(first: int, count: int, seconds: float = NOON) -> list[Record]:
    """Records of consecutive numbers, a millisecond from each other."""
    return [
        Record(str(number), seconds + (number % 1000) / 1000, b"%d" % number, "k")
        for number in range(first, first + count)
    ]


def land(
    table: PositionedTable,
    batch_id: int,
    rows: dict[str, Sequence[Record]],
    layout: FileLayout = FileLayout(),
) -> list[DataFile]:
    """Write records, shard by shard, to data files."""
    writer = DataFileWriter(table.files, batch_id, layout)
    for shard_id, of_shard in rows.items():
        writer.write(shard_id, record_batch(STREAM.name, shard_id, of_shard))
    return writer.close()


def brought(start: Position, rows: Sequence[Record]) -> RangeStats:
    """What the positions keep of the rows of one shard."""
    return RangeStats(
        start=start,
        through=Position.after(rows[-1].sequence_number),
        first_sequence_number=rows[0].sequence_number,
        last_sequence_number=rows[-1].sequence_number,
        rows=len(rows),
        bytes=sum(len(record.data) for record in rows),
        checksum=sum(map(checksum, rows)),
    )


def number_of(positions: StreamPositions, shard_id: str) -> int:
    """The last sequence number that a position has passed; 0 for none."""
    return int(positions.shards[shard_id].position.sequence_number or 0)


class Attempt:
    """One attempt from given positions: some records of some shards."""

    def __init__(
        self, table: PositionedTable, expected: StreamPositions, counts: dict[str, int], batch_id: int = 0
    ) -> None:
        self.table = table
        self.expected = expected
        self.batch_id = batch_id or new_id()
        self.moved: dict[str, ShardPosition] = {}
        self.added: dict[str, RangeStats] = {}
        rows = {}
        for shard_id, count in counts.items():
            first = number_of(expected, shard_id) + 1
            rows[shard_id] = records(first, count)
            if count:
                self.added[shard_id] = brought(expected.shards[shard_id].position, rows[shard_id])
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


def standing(table: PositionedTable) -> StreamPositions:
    """The positions that stand now."""
    found = table.snapshot().positions(STREAM)
    assert found is not None
    return found


def rows_by_shard(table: PositionedTable) -> dict[str, list[int]]:
    """The sequence numbers in the table, sorted, by shard; shards without rows are left out."""
    found: dict[str, list[int]] = {}
    columns = DeltaTable(table.uri).to_pyarrow_table(columns=["shard_id", "sequence_number"])
    for row in columns.to_pylist():
        found.setdefault(row["shard_id"], []).append(int(row["sequence_number"]))
    return {shard_id: sorted(numbers) for shard_id, numbers in sorted(found.items())}


def assert_rows_are_what_positions_say(table: PositionedTable) -> None:
    """A record is in the table, once, if and only if its shard's position has passed it."""
    positions = standing(table)
    passed = {shard_id: number_of(positions, shard_id) for shard_id in sorted(positions.shards)}
    assert rows_by_shard(table) == {
        shard_id: list(range(1, last + 1)) for shard_id, last in passed.items() if last
    }


# What a racing process does


_barrier: Barrier | None = None


def enter_race(barrier: Barrier) -> None:
    """A process' start: from here on it waits for the others before each race."""
    global _barrier  # noqa: PLW0603  # the one thing that a process pool hands to its processes at their start
    _barrier = barrier


def _wait() -> None:
    assert _barrier is not None
    _barrier.wait(timeout=60)


def race_to_freeze(uri: str, start: str) -> StreamPositions:
    """Freeze a stream at the same moment as all others."""
    table = PositionedTable(uri)
    _wait()
    return freeze_all(table, shards("a", "b"), Position.parse(start))


def race_to_commit(uri: str, shard_id: str, rounds: int) -> tuple[int, int]:
    """Commit some attempts on a shard, each from where the table then stands; how many won and lost."""
    table = PositionedTable(uri)
    won = 0
    for _ in range(rounds):
        attempt = Attempt(table, standing(table), {shard_id: 3})
        _wait()
        result = attempt.commit()
        assert all(isinstance(error, PositionConflict) for error in result.conflicts.values())
        won += not result.conflicts
    return won, rounds - won
