"""From a record's put to its row in the table, while one run follows the stream: a steady trickle."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import boto3
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.measure import Spread, of_rounds, tree_cpu
from benchmarks.section import Goal, Section, Target, table
from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.ingest.run_timing import COMMIT_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STREAM = "trickle"
SHARDS = 4
FULL_ROUNDS = 5
RECORDS_A_SECOND = 10
MOST_SECONDS = 3.0

_START_SECONDS = 180.0
"""A cold run's start takes seconds; this is where it counts as failed."""

_BETWEEN_LOOKS = 0.02


@dataclass(frozen=True)
class Freshness:
    """How long records took.

    Attributes:
        seconds: From the put to the first look that found the row, of each record, ascending.
        commits: In that time.
        window: Seconds of it.
        cpu: CPU seconds of the run and its Spark in that time.
    """

    seconds: list[float]
    commits: int
    window: float
    cpu: float

    def slowest_of(self, share: float) -> float:
        """What that share of the records took at most."""
        return self.seconds[min(len(self.seconds) - 1, int(len(self.seconds) * share))]


def measure(window: float) -> Freshness:
    """Put records for so many seconds, once the run reads, and wait for their rows."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalKinesis() as local,
        _following(local, Path(folder), window) as child,
    ):
        kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
        seen = _Seen(Path(folder, "table"))
        _put(kinesis, 0)
        deadline = time.monotonic() + _START_SECONDS
        while not seen.look():
            if child.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the run that follows ended, or read nothing")
            time.sleep(_BETWEEN_LOOKS)
        puts: dict[int, float] = {}
        over = threading.Event()

        def trickle() -> None:
            number, began = 1, time.monotonic()
            while not over.is_set():
                puts[number] = time.monotonic()
                _put(kinesis, number)
                number += 1
                over.wait(max(0.0, began + number / RECORDS_A_SECOND - time.monotonic()))

        producer = threading.Thread(target=trickle, daemon=True)
        version, cpu, began = seen.version, tree_cpu(child.pid), time.monotonic()
        producer.start()
        while time.monotonic() - began < window:
            seen.look()
            time.sleep(_BETWEEN_LOOKS)
        cpu, commits, took = tree_cpu(child.pid) - cpu, seen.version - version, time.monotonic() - began
        over.set()
        producer.join()
        deadline = time.monotonic() + _START_SECONDS
        while not puts.keys() <= seen.rows.keys() and time.monotonic() < deadline:
            seen.look()
            time.sleep(_BETWEEN_LOOKS)
        return Freshness(sorted(seen.rows[number] - at for number, at in puts.items()), commits, took, cpu)


def section(full: bool) -> Section:
    """The report's."""
    window, rounds = (60.0, FULL_ROUNDS) if full else (20.0, 1)
    return told([measure(window) for _ in range(rounds)])


def told(of: Sequence[Freshness]) -> Section:
    """What each round found."""

    def of_each(value: Callable[[Freshness], float]) -> Spread:
        return Spread.of([value(each) for each in of])

    p95 = of_each(lambda each: each.slowest_of(0.95))
    rows = [
        ["put to row, median", f"{of_each(lambda each: statistics.median(each.seconds)).text(2)} s"],
        ["put to row, p95", f"{p95.text(2)} s"],
        ["put to row, slowest of all", f"{max(each.seconds[-1] for each in of):.2f} s"],
        ["commits", f"{of_each(lambda each: each.commits / each.window).text(2)} a second"],
        ["CPU of the run and its Spark", f"{of_each(lambda each: each.cpu / each.window).text(2)} of a core"],
        ["CPU for each commit", f"{of_each(lambda each: each.cpu / max(1, each.commits)).text(2)} s"],
    ]
    markdown = (
        f"One run follows {SHARDS} shards, a look each {COMMIT_INTERVAL:.0f} s, in a local Spark of its own, "
        f"with Dagster's events on SQLite; {RECORDS_A_SECOND} records a second for {of[0].window:.0f} s. "
        f"Whoever reads the table looks every {_BETWEEN_LOOKS * 1000:.0f} ms. {of_rounds(len(of))}; each "
        f"has a run of its own. {sum(len(each.seconds) for each in of):,} records in all.\n\n"
        + table(["what", "measured"], rows)
    )
    return Section(
        "Follow mode: how fresh the table is",
        markdown,
        [Target(Goal.FRESHNESS, f"{p95.text(2)} s", met=p95.median <= MOST_SECONDS)],
    )


class _Seen:
    """What a reader of the table has found: each number, and when (monotonic clock)."""

    def __init__(self, folder: Path) -> None:
        self.rows: dict[int, float] = {}
        self.version = -1
        self._folder = folder
        self._table: DeltaTable | None = None
        self._files: set[str] = set()

    def look(self) -> bool:
        """Look once; whether there is any row.

        Raises:
            RuntimeError: A number is there twice.
        """
        if self._table is None:
            if not DeltaTable.is_deltatable(str(self._folder)):
                return False
            self._table = DeltaTable(str(self._folder))
        self._table.update_incremental()
        if self._table.version() == self.version:
            return bool(self.rows)
        self.version = self._table.version()
        files = {unquote(uri) for uri in self._table.file_uris()}
        for file in files - self._files:
            read = pq.read_table(file, columns=["data"], partitioning=None)["data"].to_pylist()
            now = time.monotonic()
            for data in read:
                if int(data) in self.rows:
                    raise RuntimeError(f"record {int(data)} is in the table twice")
                self.rows[int(data)] = now
        self._files = files
        return bool(self.rows)


def _put(kinesis: object, number: int) -> None:
    key = (number % SHARDS) * ((1 << 128) // SHARDS) + 1
    kinesis.put_record(  # type: ignore[attr-defined]
        StreamName=STREAM, Data=str(number).encode(), PartitionKey="k", ExplicitHashKey=str(key)
    )


@contextmanager
def _following(local: LocalKinesis, folder: Path, window: float) -> Iterator[subprocess.Popen[bytes]]:
    """A run that follows the stream, longer than the window."""
    kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
    kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
    seconds = str(window + 2 * _START_SECONDS)
    home = folder / "home"
    home.mkdir()
    command = [sys.executable, "-m", "benchmarks.follow_child", local.endpoint_url, STREAM]
    with subprocess.Popen(
        [*command, str(folder / "table"), str(home), seconds],
        stdout=subprocess.DEVNULL,
    ) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(60)
