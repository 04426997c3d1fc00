"""What opening a table and committing to it cost as its commits grow in number, with maintenance and without.

Most of the commits are made by hand (`long_log`). A log of many is then held against one of few, in a folder
and in a bucket, and it is told what makes it dear, by taking away by hand what is suspected.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.data import long_log
from benchmarks.harness import charts
from benchmarks.harness.section import Goal, Section, Target
from benchmarks.harness.section import table as tabulated
from benchmarks.sections.contention import BEGINNING, LISTING, SHARDS, STREAM
from benchmarks.servers.bucket import bucket, upload
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records.arrow import record_batch
from kinesis_assets.kinesis.records.checksums import checksum
from kinesis_assets.kinesis.records.record import Record
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.commit import commit, freeze
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.data_file_writer import DataFileWriter
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.properties import HISTORY_RETENTION
from kinesis_assets.table.range_stats import RangeStats
from kinesis_assets.table.table import PositionedTable
from kinesis_assets.table.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
ROUNDS = 40
"""Commits measured at each count: two checkpoints are among them."""

A_DAY = 1_000
"""Commits whose records arrived on the same day; then maintenance runs."""

A_SECOND = timedelta(seconds=1)

FEW = 1_000
"""Commits from which on a load and a commit are to cost no more."""

FLAT = 1.2
"""Times the CPU at `FEW`, at the most."""

MOST_MS = 100

FOLDER, BUCKET = "a folder", "a bucket"

_TAKES: Mapping[str, Sequence[Callable[[Path], None]]] = {
    "without entries that are summed up": (long_log.take_entries,),
    "without tombstones": (long_log.take_tombstones,),
    "without either": (long_log.take_entries, long_log.take_tombstones),
}


@dataclass(frozen=True)
class Row:
    """What one load and one commit cost at some number of commits.

    Attributes:
        commits: In the log.
        files: Data files that stand then.
        load_cpu: Milliseconds of CPU to open the table and read the positions, median; all threads.
        load: Likewise, wall clock.
        commit_cpu: Milliseconds of CPU to commit one small file and positions.
        commit: Likewise, wall clock.
        slowest: Milliseconds, wall clock, that 19 of 20 took at most for both.
    """

    commits: int
    files: int
    load_cpu: float
    load: float
    commit_cpu: float
    commit: float
    slowest: float

    @property
    def cpu(self) -> float:
        """Milliseconds of CPU for both."""
        return self.load_cpu + self.commit_cpu


@dataclass(frozen=True)
class Log:
    """What a load and a commit cost with one log of several that were measured by turns.

    Attributes:
        where: A folder or a bucket.
        of: What of the log is left.
        entries: Of it, summed up or not.
        tombstones: Files that its checkpoint tells to have been taken out of the table.
        row: What they cost.
    """

    where: str
    of: str
    entries: int
    tombstones: int
    row: Row


def measure(
    counts: Sequence[int] = COUNTS,
    *,
    rounds: int = ROUNDS,
    maintained: bool = True,
    copies: Path | None = None,
) -> list[Row]:
    """Measure at each of some numbers of commits, ascending.

    Args:
        counts: Of commits.
        rounds: Commits that are measured at each.
        maintained: Let maintenance run once a day of records.
        copies: Takes the table as it is at each of them, under its number; without data files, which are not
            looked at again.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = PositionedTable(folder)
        freeze(table, LISTING, dict.fromkeys(SHARDS, BEGINNING))
        _load_and_commit(table)
        Upkeep(table).checkpoint()
        rows, filled = [], 0
        for count in counts:
            while filled < count:
                until = min(count, (filled // A_DAY + 1) * A_DAY)
                long_log.age(Path(folder), until - filled)
                long_log.fill(Path(folder), until - filled, filled // A_DAY)
                filled = until
                Upkeep(table).checkpoint()
                if maintained and filled % A_DAY == 0:
                    list(maintain(table, StreamSummary(STREAM, datetime.now(UTC), retention_hours=24)))
            if copies is not None:
                shutil.copytree(folder, copies / str(count), ignore=shutil.ignore_patterns("arrival_date=*"))
            rows.append(_measured(table, count, rounds))
        return rows


def compare(copies: Path, few: int, many: int, *, rounds: int) -> list[Log]:
    """Measure logs by turns, so that what else the machine does is everyone's.

    Args:
        copies: As `measure` takes them.
        few: Commits of one log.
        many: Commits of the other.
        rounds: Commits that are measured in each.

    Returns:
        Few and many in a folder, few and many in a bucket, and many without entries, tombstones and either.
    """
    wanted = [(where, "all", count) for where in (FOLDER, BUCKET) for count in (few, many)]
    wanted += [(FOLDER, of, many) for of in _TAKES]
    tables, held = [], []
    with bucket() as uri:
        for index, (where, of, count) in enumerate(wanted):
            copy = shutil.copytree(copies / str(count), copies / f"copy-{index}")
            log = copy / "_delta_log"
            for take in _TAKES.get(of, ()):
                take(log)
            held.append((long_log.entries(log), long_log.tombstones(log)))
            if where == BUCKET:
                upload(copy, copy.name)
            tables.append(PositionedTable(f"{uri}/{copy.name}" if where == BUCKET else str(copy)))
        files = [len(table.snapshot().active_files()) for table in tables]
        turns = [[_load_and_commit(table) for table in tables] for _ in range(rounds)]
    return [
        Log(where, of, *numbers, _row(count, standing, times))
        for (where, of, count), numbers, standing, times in zip(
            wanted, held, files, zip(*turns, strict=True), strict=True
        )
    ]


def _measured(table: PositionedTable, count: int, rounds: int) -> Row:
    files = len(table.snapshot().active_files())
    return _row(count, files, [_load_and_commit(table) for _ in range(rounds)])


def _row(count: int, files: int, times: Sequence[tuple[float, float, float, float]]) -> Row:
    load_cpu, load, commit_cpu, committed = (
        statistics.median(values) * 1000 for values in zip(*times, strict=True)
    )
    both = [(wall + more) * 1000 for _, wall, _, more in times]
    slowest = statistics.quantiles(both, n=20, method="inclusive")[-1] if len(both) > 1 else both[0]
    return Row(count, files, load_cpu, load, commit_cpu, committed, slowest)


def _load_and_commit(table: PositionedTable) -> tuple[float, float, float, float]:
    """Seconds of a load and of a commit, each of CPU and by the clock."""
    begun = time.process_time(), time.perf_counter()
    expected = table.snapshot().positions(STREAM)
    loaded = time.process_time(), time.perf_counter()
    assert expected is not None
    shard_id, start = SHARDS[0], expected.shards[SHARDS[0]].position
    number = str(int(start.sequence_number or 0) + 1)
    record = Record(number, LISTING.summary.service_time.timestamp(), b"order", "k")
    batch_id, through = new_id(), Position.after(number)
    writer = DataFileWriter(table.files, batch_id)
    writer.write(shard_id, record_batch("orders", shard_id, [record]))
    files = writer.close()
    stats = RangeStats(
        start=start,
        through=through,
        first_sequence_number=number,
        last_sequence_number=number,
        rows=1,
        bytes=len(record.data),
        checksum=checksum(record),
    )
    ready = time.process_time(), time.perf_counter()
    commit(
        table,
        expected=expected,
        listing=LISTING,
        batch_id=batch_id,
        moved={shard_id: msgspec.structs.replace(expected.shards[shard_id], position=through)},
        files=files,
        added={shard_id: stats},
    )
    done = time.process_time(), time.perf_counter()
    return loaded[0] - begun[0], loaded[1] - begun[1], done[0] - ready[0], done[1] - ready[1]


def _told(logs: Sequence[Log]) -> str:
    """What makes the longest log dear, in words."""
    cpu = [log.row.cpu for log in logs]
    _, everything, few, many, no_entries, no_tombstones, neither = cpu
    entries = statistics.mean((everything - no_entries, no_tombstones - neither))
    tombstones = statistics.mean((everything - no_tombstones, no_entries - neither))
    _, longest, short, *_ = logs
    hours = HISTORY_RETENTION // timedelta(hours=1)
    return (
        f"Of the {everything:.0f} ms of CPU at {longest.row.commits:,} commits in a folder, {entries:.0f} "
        f"are for the {longest.entries:,} entries of the log, which a folder lists at each look; "
        f"{tombstones:.0f} are for the {longest.tombstones:,} tombstones of compacted files, which whoever "
        f"opens the table passes over; {neither:.0f} are the rest. A bucket lists what follows the newest "
        f"checkpoint: {many:.0f} ms there, and {few:.0f} at {short.row.commits:,} commits. Entries and "
        f"tombstones are kept for {hours} hours, so that older versions can be read for so long. At this "
        f"pace there are never many more than {HISTORY_RETENTION // long_log.PACE:,} of each, from where on "
        f"it is flat in a folder too; a run that follows with a commit a second has "
        f"{HISTORY_RETENTION // A_SECOND:,} at last. The second table is of logs measured by turns, the last "
        "three with parts taken out by hand."
    )


def section(full: bool) -> Section:
    """Of the report."""
    rounds = ROUNDS if full else ROUNDS // 2
    with tempfile.TemporaryDirectory() as folder:
        measured = {
            "with maintenance": measure(rounds=rounds, copies=Path(folder)),
            "without": measure(rounds=rounds, maintained=False),
        }
        logs = compare(Path(folder), FEW, COUNTS[-1], rounds=rounds)
    chart, exponents = charts.growth(
        "commits",
        "commits",
        "CPU of a load and a commit, ms",
        {who: [(float(row.commits), row.cpu) for row in rows] for who, rows in measured.items()},
    )
    what = (
        f"Each commit adds one small file; by the dates that the log's entries are given, one is made every "
        f"{long_log.PACE.seconds} s. Maintenance runs every {A_DAY:,} commits, whose records arrived on one "
        f"day. A number of commits is what there were before the {rounds} that were measured. "
        f"Exponents: {', '.join(f'{who} {value:.2f}' for who, value in exponents.items())}."
    )
    what += f"\n\n{_told(logs)}"
    columns = ["", "commits", "files", "load, CPU ms", "commit, CPU ms", "both, ms", "19 of 20 at most, ms"]
    cells = [
        [
            who,
            f"{row.commits:,}",
            f"{row.files:,}",
            f"{row.load_cpu:.1f}",
            f"{row.commit_cpu:.1f}",
            f"{row.load + row.commit:.1f}",
            f"{row.slowest:.1f}",
        ]
        for who, rows in measured.items()
        for row in rows
    ]
    makes = ["log in", "of", "commits", "entries", "tombstones"]
    makes += ["load, CPU ms", "commit, CPU ms", "both, CPU ms"]
    made = [
        [log.where, log.of]
        + [f"{count:,}" for count in (log.row.commits, log.entries, log.tombstones)]
        + [f"{cpu:.1f}" for cpu in (log.row.load_cpu, log.row.commit_cpu, log.row.cpu)]
        for log in logs
    ]
    few, many, few_far, many_far, *_ = logs
    both = many.row.load + many.row.commit
    near, far = many.row.cpu / few.row.cpu, many_far.row.cpu / few_far.row.cpu
    told = f"{both:.0f} ms; {near:.1f} times the CPU of {FEW:,} in a folder, {far:.1f} in a bucket"
    return Section(
        "Commits in a long log",
        f"{what}\n\n{tabulated(columns, cells)}\n\n{tabulated(makes, made)}",
        targets=[Target(Goal.COMMITS, told, met=both <= MOST_MS and max(near, far) <= FLAT)],
        charts={"What a load and a commit cost as commits grow in number": chart},
    )
