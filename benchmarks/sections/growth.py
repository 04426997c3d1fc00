"""How cost grows: with shards, record size, page size, latency, and the size of the table."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.data.grown_table import grown_table, seconds_of_commit, seconds_of_reading
from benchmarks.harness.charts import growth
from benchmarks.harness.measure import Spread
from benchmarks.harness.section import Section, table
from benchmarks.harness.single_process import Once, landing, unpaced, whole_run
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.servers.replay_client import ReplayServer

ROUNDS = 5
GB = 1e9

WARM_UP = StreamSpec("growth-warm-up", shards=4, pages=2, page_records=100)
SHARD_COUNTS = (1, 10, 100, 1000)
LATENCY = StreamSpec("latency", shards=64, pages=4, page_records=100)


@dataclass(frozen=True)
class Place:
    """A point of a curve: how much of what grows, the stream that has it, and the server's latency."""

    across: float
    spec: StreamSpec
    milliseconds: float = 0.0


@dataclass(frozen=True)
class Curves:
    """One chart.

    Attributes:
        name: Of its file.
        title: What grows.
        across: Of the axis across.
        label: Of the axis upwards.
        what: What was done, for the text.
        points: By curve's name.
    """

    name: str
    title: str
    across: str
    label: str
    what: str
    points: Mapping[str, Sequence[tuple[float, Spread]]]


def shard_places() -> list[Place]:
    """64 MB over more and more shards."""

    def spec(shards: int) -> StreamSpec:
        pages = max(1, 64 // shards)
        return StreamSpec(f"shards-{shards}", shards, pages, 64_000 // (shards * pages))

    return [Place(shards, spec(shards)) for shards in SHARD_COUNTS]


def idle_places() -> list[Place]:
    """More and more shards that hold no record."""
    return [Place(shards, StreamSpec(f"idle-{shards}", shards, 0, 1)) for shards in SHARD_COUNTS]


def record_places() -> list[Place]:
    """Larger and larger records, in pages of a MB while they go into one, 16 to 42 MB in all."""
    return [
        Place(size, StreamSpec(f"records-{size}", 4, pages, page_records, size))
        for size, pages, page_records in (
            (100, 4, 10_000),
            (1_000, 8, 1_000),
            (10_000, 8, 100),
            (100_000, 8, 10),
            (1_000_000, 8, 1),
            (10_485_000, 1, 1),
        )
    ]


def page_places() -> list[Place]:
    """The same records in larger and larger pages."""
    return [
        Place(page, StreamSpec(f"pages-{page}", shards, pages, page))
        for page, shards, pages in (
            (1, 16, 30),
            (10, 16, 30),
            (100, 16, 15),
            (1_000, 16, 3),
            (10_000, 4, 1),
        )
    ]


def latency_places() -> list[Place]:
    """The same stream behind a longer and longer way."""
    return [Place(milliseconds, LATENCY, milliseconds) for milliseconds in (1, 10, 50, 200)]


def measured(
    server: ReplayServer,
    places: Sequence[Place],
    once: Callable[[str, str, str], Once],
    value: Callable[[Once, Place], float],
    rounds: int,
) -> list[tuple[float, Spread]]:
    """What each place had in rounds in which all places take their turns."""
    specs = {place.spec.name: place.spec for place in places}
    for spec in specs.values():
        server.create(spec)
    values: dict[float, list[float]] = {place.across: [] for place in places}
    for _ in range(rounds):
        for place in places:
            server.latency(place.milliseconds)
            with tempfile.TemporaryDirectory() as folder:
                work = once(server.url, place.spec.name, folder)
            assert work.rows == place.spec.records, (work, place)
            values[place.across].append(value(work, place))
    server.latency(0)
    for name in specs:
        server.delete(name)
    return [(across, Spread.of(found)) for across, found in values.items()]


def of_streams(server: ReplayServer) -> list[Curves]:
    """What grows with the stream."""
    take = partial(measured, server, rounds=ROUNDS)
    server.create(WARM_UP)
    with tempfile.TemporaryDirectory() as folder:
        whole_run(server.url, WARM_UP.name, folder)

    def cpu(work: Once, _: Place) -> float:
        return work.cpu

    def cpu_per_gb(work: Once, _: Place) -> float:
        return work.cpu / work.bytes * GB

    def cpu_per_record(work: Once, _: Place) -> float:
        return work.cpu / work.rows * 1e6

    def rate(work: Once, _: Place) -> float:
        return work.rows / work.wall

    return [
        Curves(
            "growth-shards",
            "shards",
            "shards of the stream",
            "CPU seconds of a run",
            "A first run with its plan and commit: 64 MB in all shards together, and a stream without any",
            {
                "64 MB in all": take(shard_places(), whole_run, cpu),
                "nothing new": take(idle_places(), whole_run, cpu),
            },
        ),
        Curves(
            "growth-record-size",
            "record size",
            "bytes of a record",
            "CPU seconds for a GB",
            "A run with its plan and commit, 4 shards, pages of 1 MB (one record of 10 MiB in the end)",
            {"landing": take(record_places(), whole_run, cpu_per_gb)},
        ),
        Curves(
            "growth-page-size",
            "page size",
            "records of a page",
            "CPU microseconds for a record of 1 KB",
            "A run with its plan and commit; a page is an HTTP answer",
            {"landing": take(page_places(), whole_run, cpu_per_record)},
        ),
        Curves(
            "growth-latency",
            "latency",
            "milliseconds until the server answers",
            "records a second",
            f"One task over {LATENCY.shards} shards, all asked at once, {LATENCY.pages} pages of "
            f"{LATENCY.page_records} records each after an iterator, as fast as they come: 200 ms allow "
            f"{LATENCY.records / (0.2 * (LATENCY.pages + 1)):,.0f} records a second; 0 ms is left "
            "out, as the axis is logarithmic",
            {"landing": take(latency_places(), landing, rate)},
        ),
    ]


def of_tables() -> Curves:
    """What grows with the table."""
    reading, committing = [], []
    for files in (10, 100, 1_000, 10_000):
        with grown_table(files) as grown:
            times = 3 * ROUNDS
            reading.append((files, _milliseconds(seconds_of_reading(grown, times))))
            committing.append((files, _milliseconds(seconds_of_commit(grown, times))))
    return Curves(
        "growth-table",
        "table size",
        "data files in the table",
        "milliseconds",
        "Opening the table and reading its positions; and the commit of a record, with its own opening",
        {"reading positions": reading, "load and commit": committing},
    )


def section(full: bool) -> Section:
    """A chart and a line of a table for each curve."""
    del full
    with unpaced(), replay_server() as server:
        charts = [*of_streams(server), of_tables()]
    rows: list[list[str]] = []
    paths: dict[str, Path] = {}
    for each in charts:
        medians = {
            curve: [(x, spread.median) for x, spread in points] for curve, points in each.points.items()
        }
        path, exponents = growth(each.name, each.across, each.label, medians)
        paths[f"{each.label} over {each.across}"] = path
        for curve, points in each.points.items():
            told = ", ".join(f"{_number(x)}: {_spread(y)}" for x, y in points)
            slopes = [f"{slope:.2f}" for slope in (exponents[curve], _at_the_end(medians[curve]))]
            rows.append([each.title, curve, *slopes, f"{each.label}: {told}"])
    what = (
        "Runs without Spark and Dagster: plan, one task's landing in this process, commit, with the "
        "service's pace lifted, which costs time and no CPU. CPU is of this process alone. The exponent is "
        "the slope of the straight line through the points, by least squares, with both axes logarithmic: "
        "0 is flat, 1 grows alike. Where a curve bends, it grows on as between its last two points, whose "
        f"slope is beside it. Median of {ROUNDS} rounds (three times as many on tables), with the "
        "lowest and the highest."
    )
    notes = "\n".join(f"- {each.title}: {each.what}." for each in charts)
    columns = ["what grows", "curve", "exponent", "at the end", "points"]
    return Section("Growth", f"{what}\n\n{notes}\n\n{table(columns, rows)}", charts=paths)


def _at_the_end(points: Sequence[tuple[float, float]]) -> float:
    """The exponent between the last two points."""
    (x, y), (next_x, next_y) = points[-2:]
    return math.log(next_y / y) / math.log(next_x / x)


def _milliseconds(seconds: Sequence[float]) -> Spread:
    return Spread.of([each * 1e3 for each in seconds])


def _spread(of: Spread) -> str:
    return f"{_number(of.median)} ({_number(of.low)} to {_number(of.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
