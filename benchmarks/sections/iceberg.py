"""Tables in the format Iceberg, beside Delta: landings, many commits, competing runs, and upserts."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data.derivations import DERIVED, RAW, UPSERT, UPSERT_ICEBERG, payload_of_order
from benchmarks.data.iceberg_tables import derived_format, iceberg_table
from benchmarks.data.one_record_commits import SHARDS, create_table, load_positions, prepare_commit
from benchmarks.data.order_tables import OrderFiles, land
from benchmarks.harness.host_memory import reclaim_from_host
from benchmarks.harness.rounds import Input, measure_in_turn
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.spread import Spread
from benchmarks.harness.worker import Command
from benchmarks.sections.derived.upserts import CLUSTERED, FILE_ROWS, KEYS, SCATTERED, keys
from benchmarks.sections.derived.workers import OURS, workers
from benchmarks.sections.fairness import commits_of_each
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness.cpu import Usage
    from benchmarks.harness.rounds import ReaderRounds
    from benchmarks.harness.worker import Worker
    from benchmarks.servers.replay_client import ReplayServer

DELTA, ICEBERG = "Delta", "Iceberg"
FORMATS = {DELTA: PositionedTable, ICEBERG: iceberg_table}
"""Opens a table, by format."""

COMMANDS = [
    Command.module(DELTA, "benchmarks.workers.landing", "land"),
    Command.module(ICEBERG, "benchmarks.workers.landing", "land-iceberg"),
]

WARM_UP = StreamSpec("warm-up", shards=4, pages=1, page_records=1000)
LANDED = StreamSpec("orders", shards=128, pages=4, page_records=1000)
"""Records of 1 KB."""

MAX_LANDING = 1.1
"""Maximum CPU of a landing relative to Delta."""

COUNTS = (100, 1_000, 10_000)
ROUNDS = 64
"""Number of commits that are measured at each count; eight or nine of them merge manifests."""

KEPT = 60
"""Number of commits before the first that is measured: more than the snapshots that are kept."""

FILES = 1_000
"""Maximum number of files that one commit adds, instead of as many commits."""

FEW = 1_000
MAX_MS, MAX_KB, MAX_GROWTH = 60, 100, 1.2

WRITERS, COMMITS = 4, 400

MAX_UPSERT = 1.5
"""Maximum CPU of an upsert relative to Delta."""


def landings(server: ReplayServer, stream: StreamSpec, *, rounds: int) -> Mapping[str, ReaderRounds]:
    """Let both formats land a stream in turn, and return their rounds by format."""
    for spec in (WARM_UP, stream):
        server.create(spec)
    warm_up, landed = (
        Input(server.url, spec.name, spec.records, spec.data_bytes) for spec in (WARM_UP, stream)
    )
    measured, failed = measure_in_turn(COMMANDS, warm_up, dict.fromkeys(FORMATS, landed), rounds)
    for spec in (WARM_UP, stream):
        server.delete(spec.name)
    assert not failed, failed
    return {reader.name: reader for reader in measured}


def ratio(measured: Mapping[str, ReaderRounds]) -> Spread:
    """Return the CPU of landings in Iceberg relative to Delta, round by round."""
    pairs = zip(measured[ICEBERG].rounds, measured[DELTA].rounds, strict=True)
    return Spread.of([iceberg.cpu_per_gb / delta.cpu_per_gb for iceberg, delta in pairs])


@dataclass(frozen=True)
class Row:
    """What a commit costs at a number of commits.

    Attributes:
        format: The format of the table.
        commits: Number of files in the table, each as of one commit.
        load: Mean CPU to open the table and read the positions, in milliseconds.
        commit: Mean CPU to commit one small file and positions, in milliseconds.
        kb: Mean size of what the commit writes besides the data file, in units of 1,000 bytes.
    """

    format: str
    commits: int
    load: float
    commit: float
    kb: float


def commits(format_: str, counts: Sequence[int] = COUNTS, *, rounds: int = ROUNDS) -> list[Row]:
    """Measure commits at several numbers of commits, in ascending order."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        table = create_table(f"{folder}/raw", FORMATS[format_])
        files = 0
        for count in counts:
            while files < count:
                added = 1 if files < KEPT else min(FILES, count - files)
                prepare_commit(table, load_positions(table), SHARDS[0], added)()
                files += added
            if format_ == DELTA:
                DeltaOperations(table).checkpoint()
            measured = [_load_and_commit(table) for _ in range(rounds)]
            load, commit, size = (statistics.fmean(values) for values in zip(*measured, strict=True))
            rows.append(Row(format_, count, load * 1000, commit * 1000, size / 1000))
            files += rounds
    return rows


def _load_and_commit(table: PositionedTable) -> tuple[float, float, int]:
    """Return the CPU seconds of a load and of a commit, and the bytes that the commit has written."""
    started = time.process_time()
    expected = load_positions(table)
    loaded = time.process_time()
    commit = prepare_commit(table, expected, SHARDS[0])
    before = _sizes(table)
    ready = time.process_time()
    commit()
    done = time.process_time()
    written = sum(size for path, size in _sizes(table).items() if before.get(path) != size)
    return loaded - started, done - ready, written


def _sizes(table: PositionedTable) -> dict[Path, int]:
    folders = [Path(table.uri, name) for name in ("_delta_log", "_kinesis", "metadata")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return {path: path.stat().st_size for path in paths}


@dataclass(frozen=True)
class Upserts:
    """Upserts of some keys into tables with the same files.

    Attributes:
        rows: Number of rows before.
        usages: The usage of each round, by how the keys are spread over the table, and by format.
    """

    rows: int
    usages: Mapping[str, Mapping[str, Sequence[Usage]]]

    def target(self) -> Target:
        """Return the result of upserts."""
        ratios = {spread: _ratio(found[ICEBERG], found[DELTA]) for spread, found in self.usages.items()}
        text = ", ".join(f"{ratio.text(2)}x {spread}" for spread, ratio in ratios.items())
        return Target(
            Goal.ICEBERG_UPSERT,
            f"{text}, of {self.rows / 1e6:g} million rows",
            met=all(ratio.median <= MAX_UPSERT for ratio in ratios.values()),
        )


def _ratio(ours: Sequence[Usage], theirs: Sequence[Usage]) -> Spread:
    return Spread.of([our.cpu / their.cpu for our, their in zip(ours, theirs, strict=True)])


def upserts(
    worker: Worker, *, files: int, rounds: int, file_rows: int = FILE_ROWS, count: int = KEYS
) -> Upserts:
    """Measure upserts of this number of keys into new tables with this number of files, in turn."""
    usages: dict[str, dict[str, list[Usage]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        base = OrderFiles.write(Path(folder), files, file_rows, field_ids=True)
        for spread in (CLUSTERED, SCATTERED):
            payloads = [payload_of_order(number) for number in keys(spread, base.rows, count)]
            found = usages[spread] = {format_: [] for format_ in FORMATS}
            for number in range(rounds + 1):  # the first is a warm-up
                for format_ in FORMATS:
                    usage = _upsert(worker, base, payloads, format_)
                    if number:
                        found[format_].append(usage)
    return Upserts(base.rows, usages)


def _upsert(worker: Worker, base: OrderFiles, payloads: Sequence[bytes], format_: str) -> Usage:
    """Measure an upsert of records into a new table."""
    with tempfile.TemporaryDirectory() as folder:
        raw = create_table(f"{folder}/{RAW}")
        of_derived = derived_format(f"{folder}/{DERIVED}") if format_ == ICEBERG else None
        base.create_derived(Path(folder), format=of_derived)
        land(raw, payloads)
        reclaim_from_host(2 * base.bytes)
        kind = UPSERT_ICEBERG if format_ == ICEBERG else UPSERT
        usage = worker.read(folder, kind, len(payloads)).usage
        totals = DerivedTable(f"{folder}/{DERIVED}", format=of_derived).snapshot().totals()
        assert totals.rows == base.rows, totals
        return usage


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    with replay_server() as server:
        landed = landings(server, LANDED, rounds=5 if full else 3)
    rows = [row for format_ in FORMATS for row in commits(format_)]
    with tempfile.TemporaryDirectory() as folder:
        made = {
            format_: commits_of_each(
                f"{folder}/{format_}", writers=WRITERS, commits=COMMITS, open_table=opened
            )
            for format_, opened in FORMATS.items()
        }
    with workers(peer=False) as running:
        upserted = upserts(running.running[OURS], files=40 if full else 4, rounds=3 if full else 2)
    targets = [
        landing_target(ratio(landed)),
        commit_target(rows),
        fairness_target(made[ICEBERG]),
        upserted.target(),
    ]
    return Section("Iceberg tables beside Delta tables", _describe(landed, rows, made, upserted), targets)


def landing_target(measured: Spread) -> Target:
    """Return the result of landings."""
    return Target(Goal.ICEBERG_LANDING, f"{measured.text(2)}x", met=measured.median <= MAX_LANDING)


def commit_target(rows: Sequence[Row]) -> Target:
    """Return the result of commits."""
    found = {row.commits: row for row in rows if row.format == ICEBERG}
    few, many = found[min(found, key=lambda count: abs(count - FEW))], found[max(found)]
    growth = many.commit / few.commit
    return Target(
        Goal.ICEBERG_COMMITS,
        f"{many.commit:.0f} ms, {many.kb:.0f} KB, {growth:.2f} times that at {few.commits:,}",
        met=many.commit <= MAX_MS and many.kb <= MAX_KB and growth <= MAX_GROWTH,
    )


def fairness_target(made: Sequence[int]) -> Target:
    """Return the result of competing runs."""
    mean = statistics.fmean(made)
    measured = f"{made[0]}, which is {made[0] / mean:.2f} of the mean ({mean:.0f})"
    return Target(Goal.ICEBERG_FAIRNESS, measured, met=made[0] >= mean / 2)


def _describe(
    landed: Mapping[str, ReaderRounds],
    rows: Sequence[Row],
    made: Mapping[str, Sequence[int]],
    upserted: Upserts,
) -> str:
    text = (
        "Each format has its default settings; the catalog of the Iceberg tables is a file of SQLite. A "
        f"landing reads {LANDED.data_bytes / 1e6:,.0f} MB over HTTP with two tasks of Spark, and commits. A "
        "commit to a long table adds one small file; files before the first "
        f"{KEPT} were added by commits of up to {FILES:,} files, instead of one commit each. Its costs are "
        f"the means of {ROUNDS} commits, so that they include checkpoints of Delta's log, and manifests of "
        f"Iceberg's that are merged. {WRITERS} processes, each on its own shard, commit without a pause. "
        f"Upserts are those of the section about derived tables, of {KEYS:,} keys into {upserted.rows:,} "
        "rows."
    )
    return "\n\n".join(
        [
            text,
            markdown_table(
                ["table", "CPU s/GB of a landing"],
                [[name, reader.cpu_per_gb.text(2)] for name, reader in landed.items()],
            ),
            markdown_table(
                ["table", "commits", "load, CPU ms", "commit, CPU ms", "KB written"],
                [
                    [row.format, f"{row.commits:,}", f"{row.load:.1f}", f"{row.commit:.1f}", f"{row.kb:.0f}"]
                    for row in rows
                ],
            ),
            markdown_table(
                ["table", "commits of each process"],
                [[name, ", ".join(map(str, each))] for name, each in made.items()],
            ),
            markdown_table(
                ["table", "keys", "CPU s of an upsert", "wall-clock s"],
                [
                    [
                        name,
                        spread,
                        Spread.of([usage.cpu for usage in usages]).text(),
                        Spread.of([usage.wall for usage in usages]).text(),
                    ]
                    for spread, found in upserted.usages.items()
                    for name, usages in found.items()
                ],
            ),
        ]
    )
