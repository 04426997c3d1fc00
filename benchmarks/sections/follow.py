"""The time from the put of a record to its row in the table, in a continuous run with a steady trickle of
records.
"""

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

from benchmarks.harness.cpu import tree_cpu
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from kinesis_assets.dagster.settings import StreamSettings
from kinesis_assets.emulator import LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

STREAM = "trickle"
SHARDS = 4
FULL_ROUNDS = 5
RECORDS_PER_SECOND = 10
MAX_SECONDS = 3.0

_START_SECONDS = 180.0
"""The start of a run takes a few seconds. After this time it counts as failed."""

_REFRESH_INTERVAL = 0.02
"""Seconds between two refreshes of the reader of the table."""

_COMMIT_INTERVAL = StreamSettings.model_fields["commit_interval"].default


@dataclass(frozen=True)
class Freshness:
    """How long records took to become visible.

    Attributes:
        seconds: Time of each record from its put to the first refresh that found its row, in ascending order.
        commits: Number of commits in the measured time.
        window: The measured time, in seconds.
        cpu: CPU seconds of the run and its Spark in the measured time.
    """

    seconds: list[float]
    commits: int
    window: float
    cpu: float

    def quantile(self, share: float) -> float:
        """Return the time within which this share of the records became visible."""
        return self.seconds[min(len(self.seconds) - 1, int(len(self.seconds) * share))]


def measure(window: float) -> Freshness:
    """Put records for some seconds as soon as the run reads, and wait for their rows."""
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalKinesis() as local,
        _continuous_run(local, Path(folder), window) as process,
    ):
        kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
        reader = _TableReader(Path(folder, "table"))
        _put(kinesis, 0)
        deadline = time.monotonic() + _START_SECONDS
        while not reader.refresh():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the continuous run ended, or read nothing")
            time.sleep(_REFRESH_INTERVAL)
        puts: dict[int, float] = {}
        finished = threading.Event()

        def trickle() -> None:
            number, started = 1, time.monotonic()
            while not finished.is_set():
                puts[number] = time.monotonic()
                _put(kinesis, number)
                number += 1
                finished.wait(max(0.0, started + number / RECORDS_PER_SECOND - time.monotonic()))

        producer = threading.Thread(target=trickle, daemon=True)
        version, cpu, started = reader.version, tree_cpu(process.pid), time.monotonic()
        producer.start()
        while time.monotonic() - started < window:
            reader.refresh()
            time.sleep(_REFRESH_INTERVAL)
        cpu, commits, seconds = (
            tree_cpu(process.pid) - cpu,
            reader.version - version,
            time.monotonic() - started,
        )
        finished.set()
        producer.join()
        deadline = time.monotonic() + _START_SECONDS
        while not puts.keys() <= reader.rows.keys() and time.monotonic() < deadline:
            reader.refresh()
            time.sleep(_REFRESH_INTERVAL)
        latencies = sorted(reader.rows[number] - put for number, put in puts.items())
        return Freshness(latencies, commits, seconds, cpu)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    window, rounds = (60.0, FULL_ROUNDS) if full else (20.0, 1)
    return describe([measure(window) for _ in range(rounds)])


def describe(rounds: Sequence[Freshness]) -> Section:
    """Return the section of the report for some rounds."""

    def spread(value: Callable[[Freshness], float]) -> Spread:
        return Spread.of([value(each) for each in rounds])

    p95 = spread(lambda each: each.quantile(0.95))
    rows = [
        ["put to row, median", f"{spread(lambda each: statistics.median(each.seconds)).text(2)} s"],
        ["put to row, p95", f"{p95.text(2)} s"],
        ["put to row, slowest record", f"{max(each.seconds[-1] for each in rounds):.2f} s"],
        ["commits", f"{spread(lambda each: each.commits / each.window).text(2)} per second"],
        ["CPU of the run and its Spark", f"{spread(lambda each: each.cpu / each.window).text(2)} of a core"],
        ["CPU per commit", f"{spread(lambda each: each.cpu / max(1, each.commits)).text(2)} s"],
    ]
    markdown = (
        f"One continuous run (`follow_for`) reads {SHARDS} shards every {_COMMIT_INTERVAL:.0f} s, in its own "
        f"local Spark session, with Dagster's events in SQLite. A producer puts {RECORDS_PER_SECOND} records "
        f"per second for {rounds[0].window:.0f} s, and a reader refreshes the table every "
        f"{_REFRESH_INTERVAL * 1000:.0f} ms. {describe_rounds(len(rounds))}; each round has its own run. "
        f"There are {sum(len(each.seconds) for each in rounds):,} records in total.\n\n"
        + markdown_table(["measurement", "measured"], rows)
    )
    return Section(
        "Continuous runs: how fresh the table is",
        markdown,
        [Target(Goal.FRESHNESS, f"{p95.text(2)} s", met=p95.median <= MAX_SECONDS)],
    )


class _TableReader:
    """A reader of the table, which notes when it finds each record (monotonic clock)."""

    def __init__(self, folder: Path) -> None:
        self.rows: dict[int, float] = {}
        self.version = -1
        self._folder = folder
        self._table: DeltaTable | None = None
        self._files: set[str] = set()

    def refresh(self) -> bool:
        """Read new rows, and return whether the table has any row.

        Raises:
            RuntimeError: A record is in the table twice.
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
            payloads = pq.read_table(file, columns=["data"], partitioning=None)["data"].to_pylist()
            now = time.monotonic()
            for data in payloads:
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
def _continuous_run(local: LocalKinesis, folder: Path, window: float) -> Iterator[subprocess.Popen[bytes]]:
    """Start a continuous run that lasts longer than the measured time."""
    kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
    kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
    seconds = str(window + 2 * _START_SECONDS)
    home = folder / "home"
    home.mkdir()
    command = [sys.executable, "-m", "benchmarks.workers.continuous_run", local.endpoint_url, STREAM]
    with subprocess.Popen(
        [*command, str(folder / "table"), str(home), seconds],
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
