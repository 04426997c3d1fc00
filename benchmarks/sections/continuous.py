"""The time from the put of a record to its row in the raw table, and in a typed table below it, in continuous
runs with a steady trickle of records.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import boto3
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.harness.cpu import tree_cpu
from benchmarks.harness.section import Goal, Section, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.emulator import LocalKinesis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from kinesis_assets.emulator.app import KinesisApp
    from kinesis_assets.emulator.asgi import App

STREAM = "trickle"
SHARDS = 4
FULL_ROUNDS = 5
RECORDS_PER_SECOND = 10
MAX_SECONDS = 3.0
MAX_DERIVED_SECONDS = 5.0

_START_SECONDS = 180.0
"""The start of a run takes a few seconds. After this time it counts as failed."""

_RAW, _TYPED = "raw", "typed"

_REFRESH_INTERVAL = 0.02
"""Seconds between two refreshes of the reader of the table."""

_COMMIT_INTERVAL = StreamSettings.model_fields["commit_interval"].default


@dataclass(frozen=True)
class Freshness:
    """How long records took to become visible.

    Attributes:
        seconds: Time of each record from its put to the first refresh that found its row in the raw table, in
            ascending order.
        derived: Likewise for the typed table; empty if there is none.
        commits: Number of commits of the raw table in the measured time.
        window: The measured time, in seconds.
        cpu: CPU seconds of the run and its Spark in the measured time.
    """

    seconds: list[float]
    derived: list[float]
    commits: int
    window: float
    cpu: float


def p95(seconds: Sequence[float]) -> float:
    """Return the time within which 95% of the records became visible."""
    return seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]


@contextmanager
def _alone(local: LocalKinesis) -> Iterator[None]:
    """Let nobody else read the stream."""
    del local
    yield


def measure(
    window: float,
    *,
    derived: bool = False,
    consumer: str = "",
    wrap: Callable[[KinesisApp], App] = lambda app: app,
    others: Callable[[LocalKinesis], AbstractContextManager[None]] = _alone,
) -> Freshness:
    """Put records for some seconds as soon as the run reads, and wait for their rows.

    Args:
        window: The number of seconds.
        derived: Whether the run moves a typed table too.
        consumer: The name of the consumer by which the run reads, if it does.
        wrap: See `LocalKinesis`.
        others: Lets others read the stream meanwhile.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalKinesis(wrap=wrap) as local,
        _continuous_run(local, Path(folder), window, derived=derived, consumer=consumer) as process,
        others(local),
    ):
        kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
        raw = _TableReader(Path(folder, _RAW), "data", _number)
        typed = _TableReader(Path(folder, _TYPED), "number", int)
        readers = [raw, typed] if derived else [raw]

        def refresh() -> bool:
            have_rows = [reader.refresh() for reader in readers]
            return all(have_rows)

        _put(kinesis, 0)
        deadline = time.monotonic() + _START_SECONDS
        while not refresh():
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
        version, cpu, started = raw.version, tree_cpu(process.pid), time.monotonic()
        producer.start()
        while time.monotonic() - started < window:
            refresh()
            time.sleep(_REFRESH_INTERVAL)
        cpu, commits, seconds = (
            tree_cpu(process.pid) - cpu,
            raw.version - version,
            time.monotonic() - started,
        )
        finished.set()
        producer.join()
        deadline = time.monotonic() + _START_SECONDS
        while (
            not all(puts.keys() <= reader.rows.keys() for reader in readers) and time.monotonic() < deadline
        ):
            refresh()
            time.sleep(_REFRESH_INTERVAL)
        latencies = [sorted(reader.rows[number] - put for number, put in puts.items()) for reader in readers]
        return Freshness(latencies[0], latencies[1] if derived else [], commits, seconds, cpu)


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    window, rounds = (60.0, FULL_ROUNDS) if full else (20.0, 1)
    alone, both = [], []
    for _ in range(rounds):
        alone.append(measure(window))
        both.append(measure(window, derived=True))
    return describe(alone, both)


def describe(alone: Sequence[Freshness], both: Sequence[Freshness]) -> Section:
    """Return the section of the report.

    Args:
        alone: Rounds in which only the raw table moves.
        both: Rounds in which a typed table moves too.
    """

    def spread(rounds: Sequence[Freshness], value: Callable[[Freshness], float]) -> Spread:
        return Spread.of([value(each) for each in rounds])

    def row(name: str, unit: str, value: Callable[[Freshness], float]) -> list[str]:
        return [name, *(f"{spread(rounds, value).text(2)} {unit}" for rounds in (alone, both))]

    def typed_row(name: str, value: Callable[[Sequence[float]], float]) -> list[str]:
        return [name, "", f"{spread(both, lambda each: value(each.derived)).text(2)} s"]

    rows = [
        row("put to raw row, median", "s", lambda each: statistics.median(each.seconds)),
        row("put to raw row, p95", "s", lambda each: p95(each.seconds)),
        row("put to raw row, slowest record", "s", lambda each: each.seconds[-1]),
        typed_row("put to typed row, median", statistics.median),
        typed_row("put to typed row, p95", p95),
        typed_row("put to typed row, slowest record", max),
        row("commits of the raw table", "per second", lambda each: each.commits / each.window),
        row("CPU of the run and its Spark", "of a core", lambda each: each.cpu / each.window),
        row("CPU per commit of the raw table", "s", lambda each: each.cpu / max(1, each.commits)),
    ]
    markdown = (
        f"A continuous run (`follow_for`) reads {SHARDS} shards every {_COMMIT_INTERVAL:.0f} s, in its own "
        f"local Spark session, with Dagster's events in SQLite. A producer puts {RECORDS_PER_SECOND} records "
        f"per second for {alone[0].window:.0f} s, and a reader refreshes the tables every "
        f"{_REFRESH_INTERVAL * 1000:.0f} ms. In the second column, the same run moves a typed table that "
        f"decodes the records from JSON. {describe_rounds(len(alone))}; each round has its own run. There "
        f"are {sum(len(each.seconds) for each in (*alone, *both)):,} records in total.\n\n"
        + markdown_table(["measurement", "raw table alone", "with a typed table"], rows)
    )
    raw = spread(alone, lambda each: p95(each.seconds))
    typed = spread(both, lambda each: p95(each.derived))
    return Section(
        "Continuous runs: how fresh the tables are",
        markdown,
        [
            Target(Goal.FRESHNESS, f"{raw.text(2)} s", met=raw.median <= MAX_SECONDS),
            Target(Goal.DERIVED_FRESHNESS, f"{typed.text(2)} s", met=typed.median <= MAX_DERIVED_SECONDS),
        ],
    )


class _TableReader:
    """A reader of a table, which notes when it finds each record (monotonic clock).

    Args:
        column: The column that identifies a record.
        number_of: Returns the number of a record from its value.
    """

    def __init__(self, folder: Path, column: str, number_of: Callable[[Any], int]) -> None:
        self.rows: dict[int, float] = {}
        self.version = -1
        self._folder = folder
        self._column = column
        self._number_of = number_of
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
            values = pq.read_table(file, columns=[self._column], partitioning=None)[self._column].to_pylist()
            now = time.monotonic()
            for number in map(self._number_of, values):
                if number in self.rows:
                    raise RuntimeError(f"record {number} is in the table {self._folder.name} twice")
                self.rows[number] = now
        self._files = files
        return bool(self.rows)


def _number(data: bytes) -> int:
    return int(json.loads(data)["number"])


def _put(kinesis: object, number: int) -> None:
    key = (number % SHARDS) * ((1 << 128) // SHARDS) + 1
    kinesis.put_record(  # type: ignore[attr-defined]
        StreamName=STREAM,
        Data=json.dumps({"number": number}).encode(),
        PartitionKey="k",
        ExplicitHashKey=str(key),
    )


@contextmanager
def _continuous_run(
    local: LocalKinesis, folder: Path, window: float, *, derived: bool, consumer: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a continuous run that lasts longer than the measured time."""
    kinesis = boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region)
    kinesis.create_stream(StreamName=STREAM, ShardCount=SHARDS)
    if consumer:
        described = kinesis.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
        kinesis.register_stream_consumer(StreamARN=described["StreamARN"], ConsumerName=consumer)
    seconds = str(window + 2 * _START_SECONDS)
    home = folder / "home"
    home.mkdir()
    command = [sys.executable, "-m", "benchmarks.workers.continuous_run", local.endpoint_url, STREAM]
    with subprocess.Popen(
        [
            *(*command, str(folder / _RAW), str(home), seconds, consumer),
            *([str(folder / _TYPED)] if derived else []),
        ],
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
