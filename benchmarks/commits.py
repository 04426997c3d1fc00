"""What opening a table and committing to it cost as its commits grow in number, with maintenance and without.

Between the commits that are measured, the log is filled by hand with entries as delta-rs writes them, each
with a tiny data file of its own: ten thousand real ones would take as long as all the rest of the suite.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks import charts
from benchmarks.contention import BEGINNING, LISTING, SHARDS, STREAM
from benchmarks.section import Goal, Section, Target
from benchmarks.section import table as tabulated
from kinesis_assets.kinesis.pages import Record
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records import checksum, record_batch
from kinesis_assets.table.commit import commit, freeze
from kinesis_assets.table.delta import PositionedTable, Upkeep
from kinesis_assets.table.files import DataFileWriter
from kinesis_assets.table.maintenance import maintain
from kinesis_assets.table.positions import Landed
from kinesis_assets.table.tokens import draw_token

if TYPE_CHECKING:
    from collections.abc import Sequence

COUNTS = (10, 100, 1_000, 3_000, 10_000)
ROUNDS = 40
"""Commits measured at each count: two checkpoints are among them."""

A_DAY = 1_000
"""Commits whose records arrived on the same day; then maintenance runs."""

FLAT = 1.2
"""Times the CPU of a thousand commits, at the most."""

MOST_MS = 100


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


def measure(counts: Sequence[int] = COUNTS, *, rounds: int = ROUNDS, maintained: bool = True) -> list[Row]:
    """Measure at each of some numbers of commits, ascending."""
    with tempfile.TemporaryDirectory() as folder:
        table = PositionedTable(folder)
        freeze(table, LISTING, dict.fromkeys(SHARDS, BEGINNING))
        _load_and_commit(table)
        rows, filled = [], 0
        for count in counts:
            while filled < count:
                until = min(count, (filled // A_DAY + 1) * A_DAY)
                _fill(Path(folder), until - filled, filled // A_DAY)
                filled = until
                if maintained and filled % A_DAY == 0:
                    list(maintain(table, STREAM))
                else:
                    Upkeep(table).checkpoint()
            rows.append(_measured(table, count, rounds))
        return rows


def _measured(table: PositionedTable, count: int, rounds: int) -> Row:
    files = len(table.snapshot().standing_files())
    times = [_load_and_commit(table) for _ in range(rounds)]
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
    batch_id, through = draw_token(), Position.after(number)
    writer = DataFileWriter(table.files, batch_id)
    writer.write(shard_id, record_batch("orders", shard_id, [record]))
    files = writer.close()
    landed = Landed(
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
        landed={shard_id: landed},
    )
    done = time.process_time(), time.perf_counter()
    return loaded[0] - begun[0], loaded[1] - begun[1], done[0] - ready[0], done[1] - ready[1]


def _fill(folder: Path, count: int, day: int) -> None:
    """Append entries to the log, each with a data file of some day, and with the txn that stands."""
    log = folder / "_delta_log"
    newest = max(int(path.stem) for path in log.glob("*.json"))
    entry = _newest_with_a_file(log)
    (source,) = (action["add"]["path"] for action in entry if "add" in action)
    date = (datetime(2026, 2, 3, tzinfo=UTC) + timedelta(days=day)).date().isoformat()
    (folder / f"arrival_date={date}").mkdir(exist_ok=True)
    for version in range(newest + 1, newest + 1 + count):
        path = f"arrival_date={date}/part-{version}.zstd.parquet"
        os.link(folder / source, folder / path)
        for action in entry:
            if "add" in action:
                action["add"] |= {"path": path, "partitionValues": {"arrival_date": date}}
        lines = "".join(json.dumps(action) + "\n" for action in entry)
        (log / f"{version:020}.json").write_text(lines, encoding="utf-8")


def _newest_with_a_file(log: Path) -> list[dict[str, Any]]:
    """The newest entry with one data file and positions: as every commit here writes it."""
    for path in sorted(log.glob("*.json"), reverse=True):
        entry = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kinds = [kind for action in entry for kind in action]
        if kinds.count("add") == 1 and "txn" in kinds and "remove" not in kinds:
            return entry
    raise AssertionError("no commit of one file is in the log")


def section(full: bool) -> Section:
    """Of the report."""
    rounds = ROUNDS if full else ROUNDS // 2
    measured = {
        "with maintenance": measure(rounds=rounds),
        "without": measure(rounds=rounds, maintained=False),
    }
    chart, exponents = charts.growth(
        "commits",
        "commits",
        "CPU of a load and a commit, ms",
        {who: [(float(row.commits), row.cpu) for row in rows] for who, rows in measured.items()},
    )
    what = (
        f"Each commit adds one small file. Maintenance runs every {A_DAY:,} commits, whose records arrived "
        f"on one day. Exponents: {', '.join(f'{who} {value:.2f}' for who, value in exponents.items())}."
    )
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
    *_, last = kept = measured["with maintenance"]
    (before,) = (row for row in kept if row.commits == A_DAY)
    both = last.load + last.commit
    grown = last.cpu / before.cpu
    told = f"{both:.0f} ms, {grown:.1f} times the CPU of {A_DAY:,}"
    return Section(
        "Commits in a long log",
        f"{what}\n\n{tabulated(columns, cells)}",
        targets=[Target(Goal.COMMITS, told, met=both <= MOST_MS and grown <= FLAT)],
        charts={"What a load and a commit cost as commits grow in number": chart},
    )
