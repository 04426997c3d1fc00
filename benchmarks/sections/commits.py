"""What it costs to open a table and commit to it as commits grow in number, with and without maintenance.

Most of the commits are written directly (`long_log`). A log with many commits is then compared with a log
with few, in a folder and in a bucket, and with copies without entries or tombstones, which shows what these
cost.
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

from benchmarks.data import long_log
from benchmarks.data.one_record_commits import SHARDS, STREAM, create_table, load_positions, prepare_commit
from benchmarks.harness.charts import growth_chart
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.servers.bucket import bucket, upload
from kinesis_assets.kinesis.stream import StreamSummary
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.maintenance.run import maintain
from kinesis_assets.table.policy import HISTORY_RETENTION
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

COUNTS = (1, 10, 100, 1_000, 3_000, 10_000)
ROUNDS = 40
"""Number of commits that are measured at each count; two of them write a checkpoint."""

COMMITS_PER_DAY = 1_000
"""Number of commits with records of the same day, after which maintenance runs."""

ONE_SECOND = timedelta(seconds=1)

FEW = 1_000
"""Number of commits from which on the cost of a load and a commit should not grow."""

MAX_GROWTH = 1.2
"""Maximum CPU relative to that at `FEW` commits."""

MAX_MS = 100

FOLDER, BUCKET = "a folder", "a bucket"

_DELETIONS: Mapping[str, Sequence[Callable[[Path], None]]] = {
    "without the entries that a checkpoint covers": (long_log.delete_old_entries,),
    "without tombstones": (long_log.delete_tombstones,),
    "without both": (long_log.delete_old_entries, long_log.delete_tombstones),
}


@dataclass(frozen=True)
class Row:
    """What a load and a commit cost at a number of commits.

    Attributes:
        commits: Number of commits in the log.
        files: Number of data files in the table.
        load_cpu: Median CPU of all threads to open the table and read the positions, in milliseconds.
        load: Median wall-clock time of the same.
        commit_cpu: Median CPU to commit one small file and positions, in milliseconds.
        commit: Median wall-clock time of the same.
        p95: 95th percentile of the wall-clock time of both together, in milliseconds.
    """

    commits: int
    files: int
    load_cpu: float
    load: float
    commit_cpu: float
    commit: float
    p95: float

    @property
    def cpu(self) -> float:
        """CPU of both, in milliseconds."""
        return self.load_cpu + self.commit_cpu


@dataclass(frozen=True)
class Log:
    """What a load and a commit cost with one of several logs that were measured in turn.

    Attributes:
        location: A folder or a bucket.
        content: Which parts of the log are left.
        entries: Number of entries, including those that a checkpoint covers.
        tombstones: Number of removed files in the newest checkpoint.
        row: The costs.
    """

    location: str
    content: str
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
    """Measure loads and commits at several numbers of commits, in ascending order.

    Args:
        counts: The numbers of commits.
        rounds: Number of commits that are measured at each.
        maintained: Whether maintenance runs after each day of records.
        copies: A folder that receives a copy of the table at each number of commits, with the number as its
            name and without the data files, which are not read again.
    """
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(folder)
        _load_and_commit(table)
        DeltaOperations(table).checkpoint()
        rows, filled = [], 0
        for count in counts:
            while filled < count:
                until = min(count, (filled // COMMITS_PER_DAY + 1) * COMMITS_PER_DAY)
                long_log.age(Path(folder), until - filled)
                long_log.fill(Path(folder), until - filled, filled // COMMITS_PER_DAY)
                filled = until
                DeltaOperations(table).checkpoint()
                if maintained and filled % COMMITS_PER_DAY == 0:
                    list(maintain(table, StreamSummary(STREAM, datetime.now(UTC), retention_hours=24)))
            if copies is not None:
                shutil.copytree(folder, copies / str(count), ignore=shutil.ignore_patterns("arrival_date=*"))
            files = len(table.snapshot().data_files())
            rows.append(_row(count, files, [_load_and_commit(table) for _ in range(rounds)]))
        return rows


def compare(copies: Path, few: int, many: int, *, rounds: int) -> list[Log]:
    """Measure logs in turn, so that other load on the machine affects all of them.

    Args:
        copies: The copies that `measure` has made.
        few: Number of commits of one log.
        many: Number of commits of the other.
        rounds: Number of commits that are measured with each log.

    Returns:
        Few and many commits in a folder, few and many in a bucket, and many without entries, tombstones and
        both.
    """
    variants = [(location, "everything", count) for location in (FOLDER, BUCKET) for count in (few, many)]
    variants += [(FOLDER, content, many) for content in _DELETIONS]
    tables, sizes = [], []
    with bucket() as uri:
        for index, (location, content, count) in enumerate(variants):
            copy = shutil.copytree(copies / str(count), copies / f"copy-{index}")
            log = copy / "_delta_log"
            for delete in _DELETIONS.get(content, ()):
                delete(log)
            sizes.append((long_log.count_entries(log), long_log.count_tombstones(log)))
            if location == BUCKET:
                upload(copy, copy.name)
            tables.append(PositionedTable(f"{uri}/{copy.name}" if location == BUCKET else str(copy)))
        files = [len(table.snapshot().data_files()) for table in tables]
        turns = [[_load_and_commit(table) for table in tables] for _ in range(rounds)]
    return [
        Log(location, content, *size, _row(count, active, times))
        for (location, content, count), size, active, times in zip(
            variants, sizes, files, zip(*turns, strict=True), strict=True
        )
    ]


def _row(count: int, files: int, times: Sequence[tuple[float, float, float, float]]) -> Row:
    load_cpu, load, commit_cpu, committed = (
        statistics.median(values) * 1000 for values in zip(*times, strict=True)
    )
    both = [(wall + more) * 1000 for _, wall, _, more in times]
    p95 = statistics.quantiles(both, n=20, method="inclusive")[-1] if len(both) > 1 else both[0]
    return Row(count, files, load_cpu, load, commit_cpu, committed, p95)


def _load_and_commit(table: PositionedTable) -> tuple[float, float, float, float]:
    """Return the seconds of a load and of a commit, each as CPU and as wall-clock time."""
    started = time.process_time(), time.perf_counter()
    expected = load_positions(table)
    loaded = time.process_time(), time.perf_counter()
    commit = prepare_commit(table, expected, SHARDS[0])
    ready = time.process_time(), time.perf_counter()
    commit()
    done = time.process_time(), time.perf_counter()
    return loaded[0] - started[0], loaded[1] - started[1], done[0] - ready[0], done[1] - ready[1]


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    rounds = ROUNDS if full else ROUNDS // 2
    with tempfile.TemporaryDirectory() as folder:
        curves = {
            "with maintenance": measure(rounds=rounds, copies=Path(folder)),
            "without maintenance": measure(rounds=rounds, maintained=False),
        }
        logs = compare(Path(folder), FEW, COUNTS[-1], rounds=rounds)
    chart, exponents = growth_chart(
        "commits",
        "Cost of a load and a commit over the number of commits",
        "commits",
        "CPU of a load and a commit, ms",
        {curve: [(float(row.commits), row.cpu) for row in rows] for curve, rows in curves.items()},
    )
    text = (
        "Each commit adds one small file. By the dates of the log's entries, there is one commit every "
        f"{long_log.COMMIT_INTERVAL.seconds} s. Maintenance runs every {COMMITS_PER_DAY:,} commits, whose "
        f"records arrived on one day. The number of commits is that before the {rounds} commits that are "
        f"measured. Exponents: {', '.join(f'{curve} {value:.2f}' for curve, value in exponents.items())}."
    )
    return Section(
        "Commits in a long log",
        "\n\n".join([text, _describe_logs(logs), _curves_table(curves), _logs_table(logs)]),
        targets=[_target(logs)],
        charts=[chart],
    )


def _describe_logs(logs: Sequence[Log]) -> str:
    """Return the text about the cost of the parts of the longest log."""
    cpu = [log.row.cpu for log in logs]
    _, everything, few, many, no_entries, no_tombstones, neither = cpu
    entries = statistics.mean((everything - no_entries, no_tombstones - neither))
    tombstones = statistics.mean((everything - no_tombstones, no_entries - neither))
    _, longest, short, *_ = logs
    hours = HISTORY_RETENTION // timedelta(hours=1)
    return (
        f"At {longest.row.commits:,} commits in a folder, a load and a commit take {everything:.0f} ms of "
        f"CPU. Of these, {entries:.0f} ms are for the {longest.entries:,} entries of the log, which every "
        f"load of a folder lists; {tombstones:.0f} ms are for the {longest.tombstones:,} tombstones of "
        f"compacted files, which every load skips; and {neither:.0f} ms are for the rest. In a bucket, a "
        f"load lists only the entries after the newest checkpoint: it takes {many:.0f} ms, and {few:.0f} ms "
        f"at {short.row.commits:,} commits. Entries and tombstones are kept for {hours} hours, so that older "
        f"versions can be read during this time. At one commit every {long_log.COMMIT_INTERVAL.seconds} s "
        f"there are never many more than {HISTORY_RETENTION // long_log.COMMIT_INTERVAL:,} of each, and the "
        "cost is flat from there on in a folder, too. A continuous run with one commit per second reaches "
        f"{HISTORY_RETENTION // ONE_SECOND:,}. The second table shows logs that were measured in turn; parts "
        "of the last three were deleted."
    )


def _curves_table(curves: Mapping[str, Sequence[Row]]) -> str:
    columns = ["", "commits", "files", "load, CPU ms", "commit, CPU ms", "both, ms", "both, p95, ms"]
    cells = [
        [
            curve,
            f"{row.commits:,}",
            f"{row.files:,}",
            f"{row.load_cpu:.1f}",
            f"{row.commit_cpu:.1f}",
            f"{row.load + row.commit:.1f}",
            f"{row.p95:.1f}",
        ]
        for curve, rows in curves.items()
        for row in rows
    ]
    return markdown_table(columns, cells)


def _logs_table(logs: Sequence[Log]) -> str:
    columns = ["location", "log", "commits", "entries", "tombstones"]
    columns += ["load, CPU ms", "commit, CPU ms", "both, CPU ms"]
    cells = [
        [log.location, log.content]
        + [f"{count:,}" for count in (log.row.commits, log.entries, log.tombstones)]
        + [f"{cpu:.1f}" for cpu in (log.row.load_cpu, log.row.commit_cpu, log.row.cpu)]
        for log in logs
    ]
    return markdown_table(columns, cells)


def _target(logs: Sequence[Log]) -> Target:
    few, many, few_in_bucket, many_in_bucket, *_ = logs
    milliseconds = many.row.load + many.row.commit
    folder, in_bucket = many.row.cpu / few.row.cpu, many_in_bucket.row.cpu / few_in_bucket.row.cpu
    measured = (
        f"{milliseconds:.0f} ms; {folder:.1f} times the CPU at {FEW:,} commits in a folder, {in_bucket:.1f} "
        "times in a bucket"
    )
    return Target(Goal.COMMITS, measured, met=milliseconds <= MAX_MS and max(folder, in_bucket) <= MAX_GROWTH)
