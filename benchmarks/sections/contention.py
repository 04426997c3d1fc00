"""Commits a second, and how long one takes, when eight processes commit to one table at once."""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import cycle, islice
from multiprocessing import get_context
from typing import TYPE_CHECKING

import msgspec

from benchmarks.harness.section import Section, table
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.checksums import checksum
from kinesis_assets.kinesis.records.record import Record
from kinesis_assets.kinesis.shards import Shard
from kinesis_assets.kinesis.stream import StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.table.commit import commit, freeze
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.range_stats import RangeStats
from kinesis_assets.table.table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.synchronize import Barrier

    from kinesis_assets.table.commit import CommitResult
    from kinesis_assets.table.positions import StreamPositions

PROCESSES = 8
ROUNDS = 20
"""Attempts of each process."""

STREAM = StreamIdentity(
    "arn:aws:kinesis:us-east-1:000000000000:stream/orders", datetime(2026, 1, 1, tzinfo=UTC)
)
SHARDS = [f"shardId-{number:012}" for number in range(PROCESSES)]
LISTING = StreamListing(
    StreamSummary(STREAM, datetime(2026, 2, 2, tzinfo=UTC), retention_hours=24),
    [Shard(shard_id, (), ("0", "9"), "1") for shard_id in SHARDS],
)
BEGINNING = Position(PositionKind.TRIM_HORIZON)

_barrier: Barrier | None = None


@dataclass(frozen=True)
class Attempts:
    """What became of some attempts.

    Attributes:
        won: Seconds of each commit that landed.
        lost: How many found their shard moved by another.
        seconds: Of all of them, wall clock.
    """

    won: Sequence[float]
    lost: int
    seconds: float

    @property
    def p95(self) -> float:
        """Seconds that 19 of 20 commits took at most."""
        return statistics.quantiles(self.won, n=20, method="inclusive")[-1]

    @property
    def rate(self) -> float:
        """Commits a second."""
        return len(self.won) / self.seconds


def attempt(table: PositionedTable, shard_id: str) -> tuple[float, bool]:
    """Land one record of a shard and commit it; seconds of the commit, and whether it landed."""
    expected = standing(table)
    start = expected.shards[shard_id].position
    number = str(int(start.sequence_number or 0) + 1)
    record = Record(number, LISTING.summary.service_time.timestamp(), b"order", "k")
    batch_id = new_id()
    writer = DataFileWriter(table.files, batch_id)
    writer.write(shard_id, record_batch("orders", shard_id, [record]))
    through = Position.after(number)
    stats = RangeStats(
        start=start,
        through=through,
        first_sequence_number=number,
        last_sequence_number=number,
        rows=1,
        bytes=len(record.data),
        checksum=checksum(record),
    )
    files = writer.close()
    began = time.perf_counter()
    result: CommitResult = commit(
        table,
        expected=expected,
        listing=LISTING,
        batch_id=batch_id,
        moved={shard_id: msgspec.structs.replace(expected.shards[shard_id], position=through)},
        files=files,
        added={shard_id: stats},
    )
    return time.perf_counter() - began, not result.conflicts


def attempts(uri: str, shard_id: str) -> Attempts:
    """One process' attempts, one after the other, begun when all others are there."""
    table = PositionedTable(uri)
    if _barrier is not None:
        _barrier.wait(timeout=60)
    began = time.perf_counter()
    results = [attempt(table, shard_id) for _ in range(ROUNDS)]
    won = [seconds for seconds, landed in results if landed]
    return Attempts(won, ROUNDS - len(won), time.perf_counter() - began)


def alone() -> Attempts:
    """One process, one shard."""
    with tempfile.TemporaryDirectory() as folder:
        frozen(folder)
        return attempts(folder, SHARDS[0])


def together(shard_ids: Sequence[str]) -> Attempts:
    """All processes at once, the shards dealt out to them in turn."""
    context = get_context("spawn")  # what the table's library needs: it does not survive a fork
    barrier = context.Barrier(PROCESSES)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(PROCESSES, context, initializer=_enter, initargs=(barrier,)) as pool,
    ):
        frozen(folder)
        dealt = list(islice(cycle(shard_ids), PROCESSES))
        of_each = list(pool.map(partial(attempts, folder), dealt))
        won = [seconds for one in of_each for seconds in one.won]
        shards = standing(PositionedTable(folder)).shards.values()
        passed = sum(int(shard.position.sequence_number or 0) for shard in shards)
        assert passed == len(won), "the positions are not what was told"
    return Attempts(won, sum(one.lost for one in of_each), max(one.seconds for one in of_each))


def _enter(barrier: Barrier) -> None:
    global _barrier  # noqa: PLW0603  # the one thing that a process pool hands to its processes at their start
    _barrier = barrier


def frozen(uri: str) -> None:
    """Make a table whose stream has all shards at their beginnings."""
    freeze(PositionedTable(uri), LISTING, dict.fromkeys(SHARDS, BEGINNING))


def standing(table: PositionedTable) -> StreamPositions:
    """Open the table and read its positions."""
    found = table.snapshot().positions(STREAM)
    assert found is not None
    return found


def section(full: bool) -> Section:
    """The measures as a table."""
    del full
    uncontended = alone()
    cases = {
        "1 process, 1 shard": uncontended,
        f"{PROCESSES} processes, a shard each": together(SHARDS),
        f"{PROCESSES} processes, one shard": together(SHARDS[:1]),
    }
    what = (
        f"Each process makes {ROUNDS} attempts of one record, as fast as it can, on a table on the local "
        "disk. The 95th percentile is of commits that landed, with all their tries."
    )
    columns = ["who", "committed", "conflicts", "commits/s", "p95 of a commit, ms", "of the uncontended"]
    rows = [
        [
            name,
            str(len(case.won)),
            str(case.lost),
            f"{case.rate:.1f}",
            f"{case.p95 * 1000:,.0f}",
            f"{case.p95 / uncontended.p95:.1f}",
        ]
        for name, case in cases.items()
    ]
    return Section("Commits under contention", f"{what}\n\n{table(columns, rows)}")
