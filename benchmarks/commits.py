"""What opening a table and committing to it cost as its commits grow in number, with maintenance and without.

Between the commits that are measured, the log is filled by hand with entries as delta-rs writes them, each
with a tiny data file of its own: ten thousand real ones would take as long as all the rest of the suite. They
are dated as if one had been made every `PACE`, which counts: what is old in the log goes. Of the longest log
it is then told what makes it dear, by taking away by hand what is suspected.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import charts
from benchmarks.contention import BEGINNING, LISTING, SHARDS, STREAM
from benchmarks.section import Goal, Section, Target
from benchmarks.section import table as tabulated
from kinesis_assets.kinesis.pages import Record
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.records import checksum, record_batch
from kinesis_assets.table.commit import commit, freeze
from kinesis_assets.table.delta import LOG_RETENTION, VACUUM_RETENTION, PositionedTable, Upkeep
from kinesis_assets.table.files import DataFileWriter
from kinesis_assets.table.maintenance import maintain
from kinesis_assets.table.positions import Landed
from kinesis_assets.table.tokens import draw_token

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COUNTS = (10, 100, 1_000, 3_000, 10_000)
ROUNDS = 40
"""Commits measured at each count: two checkpoints are among them."""

A_DAY = 1_000
"""Commits whose records arrived on the same day; then maintenance runs."""

PACE = timedelta(seconds=30)
"""From one commit to the next: as a sensor with its default settings makes them, at the most."""

A_SECOND = timedelta(seconds=1)

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


@dataclass(frozen=True)
class Part:
    """What a load and a commit cost with something taken out of the log by hand.

    Attributes:
        of: What is left.
        entries: Of the log, summed up or not.
        tombstones: Files that the checkpoint tells to have been taken out of the table.
        row: What they cost then.
    """

    of: str
    entries: int
    tombstones: int
    row: Row


def measure(
    counts: Sequence[int] = COUNTS,
    *,
    rounds: int = ROUNDS,
    maintained: bool = True,
    parts: list[Part] | None = None,
) -> list[Row]:
    """Measure at each of some numbers of commits, ascending.

    Args:
        counts: Of commits.
        rounds: Commits that are measured at each.
        maintained: Let maintenance run once a day of records.
        parts: Takes what makes the last of them dear.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = PositionedTable(folder)
        freeze(table, LISTING, dict.fromkeys(SHARDS, BEGINNING))
        _load_and_commit(table)
        rows, filled = [], 0
        for count in counts:
            while filled < count:
                until = min(count, (filled // A_DAY + 1) * A_DAY)
                _age(Path(folder), until - filled)
                _fill(Path(folder), until - filled, filled // A_DAY)
                filled = until
                Upkeep(table).checkpoint()
                if maintained and filled % A_DAY == 0:
                    list(maintain(table, STREAM))
            rows.append(_measured(table, count, rounds))
        if parts is not None:
            parts += _parts(Path(folder), counts[-1], rounds)
        return rows


def _measured(table: PositionedTable, count: int, rounds: int) -> Row:
    files = len(table.snapshot().standing_files())
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


def _parts(folder: Path, count: int, rounds: int) -> list[Part]:
    """Measure copies of a table, with what may make its log dear and without."""
    takes: dict[str, Sequence[Callable[[Path], None]]] = {
        "all": (),
        "without entries that are summed up": (_take_entries,),
        "without tombstones": (_take_tombstones,),
        "without either": (_take_entries, _take_tombstones),
    }
    with tempfile.TemporaryDirectory() as other:
        found, tables = [], []
        for of, taken in takes.items():
            copy = Path(other) / of.replace(" ", "-")
            # Data files are not looked at again; of the rest, whoever changes a file writes a new one.
            shutil.copytree(
                folder, copy, copy_function=os.link, ignore=shutil.ignore_patterns("arrival_date=*")
            )
            for take in taken:
                take(copy / "_delta_log")
            tables.append(PositionedTable(str(copy)))
            entries = sum(1 for path in (copy / "_delta_log").glob("*.json"))
            found.append((of, entries, _tombstones(_checkpoint(copy / "_delta_log"))))
        files = len(tables[0].snapshot().standing_files())
        # By turns, so that what else the machine does is everyone's.
        times = zip(*([_load_and_commit(table) for table in tables] for _ in range(rounds)), strict=True)
        return [Part(*what, _row(count, files, of)) for what, of in zip(found, times, strict=True)]


def _tombstones(checkpoint: Path) -> int:
    told = pq.ParquetFile(checkpoint).read(columns=["remove.path"])
    return told["remove"].drop_null().length() if "remove" in told.column_names else 0


def _checkpoint(log: Path) -> Path:
    """The newest."""
    return max(log.glob("*.checkpoint.parquet"))


def _version(path: Path) -> int:
    return int(path.name.split(".")[0])


def _take_entries(log: Path) -> None:
    newest = _version(_checkpoint(log))
    for path in [*log.glob("*.json"), *log.glob("*.checkpoint.parquet")]:
        if _version(path) < newest:
            path.unlink()


def _take_tombstones(log: Path) -> None:
    path, last = _checkpoint(log), log / "_last_checkpoint"
    rows = pq.read_table(path)
    left = rows.filter(pc.is_null(rows["remove"]))
    told = json.loads(last.read_text(encoding="utf-8"))
    path.unlink()
    last.unlink()
    pq.write_table(left, path)
    last.write_text(json.dumps(told | {"size": left.num_rows}), encoding="utf-8")


def _age(folder: Path, commits: int) -> None:
    """Let what is in the log be older by so many commits' time."""
    for path in (folder / "_delta_log").iterdir():
        _date(path, path.stat().st_mtime - commits * PACE.total_seconds())


def _date(path: Path, at: float) -> None:
    # The log's retention goes by this, not by what an entry says.
    os.utime(path, (at, at))


def _fill(folder: Path, count: int, day: int) -> None:
    """Append entries to the log, each with a data file of some day, and with the txn that stands."""
    now = time.time()
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
        written = log / f"{version:020}.json"
        written.write_text(lines, encoding="utf-8")
        _date(written, now - (newest + count - version) * PACE.total_seconds())


def _newest_with_a_file(log: Path) -> list[dict[str, Any]]:
    """The newest entry with one data file and positions: as every commit here writes it."""
    for path in sorted(log.glob("*.json"), reverse=True):
        entry = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        kinds = [kind for action in entry for kind in action]
        if kinds.count("add") == 1 and "txn" in kinds and "remove" not in kinds:
            return entry
    raise AssertionError("no commit of one file is in the log")


def _told(parts: Sequence[Part]) -> str:
    """What makes the longest log dear, in words."""
    all_of_it, no_entries, no_tombstones, neither = parts
    first = [all_of_it.row.cpu - no_entries.row.cpu, no_tombstones.row.cpu - neither.row.cpu]
    second = [all_of_it.row.cpu - no_tombstones.row.cpu, no_entries.row.cpu - neither.row.cpu]
    entries, tombstones = statistics.mean(first), statistics.mean(second)
    days, hours = VACUUM_RETENTION.days, LOG_RETENTION // timedelta(hours=1)
    return (
        f"Of the {all_of_it.row.cpu:.0f} ms of CPU at {all_of_it.row.commits:,} commits with maintenance, "
        f"{tombstones:.0f} are for the {all_of_it.tombstones:,} tombstones of compacted files, which whoever "
        f"opens the table passes over; {entries:.0f} are for the {all_of_it.entries:,} entries of the log, "
        "which a local folder lists at each look (a bucket lists what follows the newest checkpoint); "
        f"{neither.row.cpu:.0f} are the rest. A tombstone is kept for {days} days: Delta has one setting for "
        "them and for how long a vacuum leaves files alone that no commit names yet. An entry is kept "
        f"for {hours} hours. So at this pace there are never many more than {VACUUM_RETENTION // PACE:,} and "
        f"{LOG_RETENTION // PACE:,}, from where on it is flat; a run that follows with a commit a second has "
        f"{VACUUM_RETENTION // A_SECOND:,} and {LOG_RETENTION // A_SECOND:,} at last. The second table is of "
        "the same log with the one, the other or both taken out by hand."
    )


def section(full: bool) -> Section:
    """Of the report."""
    rounds = ROUNDS if full else ROUNDS // 2
    parts: list[Part] = []
    measured = {
        "with maintenance": measure(rounds=rounds, parts=parts),
        "without": measure(rounds=rounds, maintained=False),
    }
    chart, exponents = charts.growth(
        "commits",
        "commits",
        "CPU of a load and a commit, ms",
        {who: [(float(row.commits), row.cpu) for row in rows] for who, rows in measured.items()},
    )
    what = (
        f"Each commit adds one small file; by the dates that the log's entries are given, one is made every "
        f"{PACE.seconds} s. Maintenance runs every {A_DAY:,} commits, whose records arrived on one day. "
        f"Exponents: {', '.join(f'{who} {value:.2f}' for who, value in exponents.items())}."
    )
    what += f"\n\n{_told(parts)}"
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
    makes = ["in the log", "entries", "tombstones", "load, CPU ms", "commit, CPU ms", "both, CPU ms"]
    made = [
        [
            part.of,
            f"{part.entries:,}",
            f"{part.tombstones:,}",
            f"{part.row.load_cpu:.1f}",
            f"{part.row.commit_cpu:.1f}",
            f"{part.row.cpu:.1f}",
        ]
        for part in parts
    ]
    *_, last = kept = measured["with maintenance"]
    (before,) = (row for row in kept if row.commits == A_DAY)
    both = last.load + last.commit
    grown = last.cpu / before.cpu
    told = f"{both:.0f} ms, {grown:.1f} times the CPU of {A_DAY:,}"
    return Section(
        "Commits in a long log",
        f"{what}\n\n{tabulated(columns, cells)}\n\n{tabulated(makes, made)}",
        targets=[Target(Goal.COMMITS, told, met=both <= MOST_MS and grown <= FLAT)],
        charts={"What a load and a commit cost as commits grow in number": chart},
    )
