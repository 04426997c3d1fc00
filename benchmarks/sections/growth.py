"""How cost grows: with shards, record size, page size, latency, and the size of the table."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.data.grown_table import grown_table, seconds_of_commits, seconds_of_loads
from benchmarks.harness.charts import growth_chart
from benchmarks.harness.section import Section, markdown_table
from benchmarks.harness.single_process import ProcessUsage, land, run
from benchmarks.harness.spread import Spread
from benchmarks.harness.units import GB
from benchmarks.servers.replay_client import replay_server
from benchmarks.servers.replay_streams import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.harness.charts import Chart
    from benchmarks.servers.replay_client import ReplayServer

ROUNDS = 5

WARM_UP = StreamSpec("growth-warm-up", shards=4, pages=2, page_records=100)
SHARD_COUNTS = (1, 10, 100, 1000)
LATENCY = StreamSpec("latency", shards=64, pages=4, page_records=100)


@dataclass(frozen=True)
class Point:
    """A point of a curve that is to be measured.

    Attributes:
        x: The quantity that grows.
        spec: The stream.
        latency_ms: The latency of the server.
    """

    x: float
    spec: StreamSpec
    latency_ms: float = 0.0


@dataclass(frozen=True)
class Growth:
    """The measured curves of one chart.

    Attributes:
        name: Name of the file of the chart.
        title: The quantity that grows.
        x_label: Label of the x-axis.
        y_label: Label of the y-axis.
        description: What was measured.
        curves: Points by the name of the curve.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    description: str
    curves: Mapping[str, Sequence[tuple[float, Spread]]]


def shard_points() -> list[Point]:
    """Return streams with 64 MB in more and more shards."""

    def spec(shards: int) -> StreamSpec:
        pages = max(1, 64 // shards)
        return StreamSpec(f"shards-{shards}", shards, pages, 64_000 // (shards * pages))

    return [Point(shards, spec(shards)) for shards in SHARD_COUNTS]


def idle_points() -> list[Point]:
    """Return streams with more and more shards without records."""
    return [Point(shards, StreamSpec(f"idle-{shards}", shards, 0, 1)) for shards in SHARD_COUNTS]


def record_points() -> list[Point]:
    """Return streams with larger and larger records, in pages of about 1 MB, 16 to 42 MB in total."""
    return [
        Point(size, StreamSpec(f"records-{size}", 4, pages, page_records, size))
        for size, pages, page_records in (
            (100, 4, 10_000),
            (1_000, 8, 1_000),
            (10_000, 8, 100),
            (100_000, 8, 10),
            (1_000_000, 8, 1),
            (10_485_000, 1, 1),
        )
    ]


def page_points() -> list[Point]:
    """Return streams with the same records in larger and larger pages."""
    return [
        Point(page, StreamSpec(f"pages-{page}", shards, pages, page))
        for page, shards, pages in (
            (1, 16, 30),
            (10, 16, 30),
            (100, 16, 15),
            (1_000, 16, 3),
            (10_000, 4, 1),
        )
    ]


def latency_points() -> list[Point]:
    """Return the same stream with more and more latency."""
    return [Point(milliseconds, LATENCY, milliseconds) for milliseconds in (1, 10, 50, 200)]


def measure(
    server: ReplayServer,
    points: Sequence[Point],
    work: Callable[[str, str, str], ProcessUsage],
    value: Callable[[ProcessUsage], float],
    rounds: int,
) -> list[tuple[float, Spread]]:
    """Measure the points of a curve, one after the other in each round.

    Args:
        server: The replay server.
        points: The points.
        work: Reads a stream, given the URL of the server, the name of the stream, and a new folder.
        value: Returns the y value.
        rounds: Number of rounds.
    """
    specs = {point.spec.name: point.spec for point in points}
    for spec in specs.values():
        server.create(spec)
    values: dict[float, list[float]] = {point.x: [] for point in points}
    for _ in range(rounds):
        for point in points:
            server.set_latency(point.latency_ms)
            with tempfile.TemporaryDirectory() as folder:
                usage = work(server.url, point.spec.name, folder)
            assert usage.rows == point.spec.records, (usage, point)
            values[point.x].append(value(usage))
    server.set_latency(0)
    for name in specs:
        server.delete(name)
    return [(x, Spread.of(found)) for x, found in values.items()]


def measure_streams(server: ReplayServer) -> list[Growth]:
    """Measure how cost grows with the stream."""
    curve = partial(measure, server, rounds=ROUNDS)
    server.create(WARM_UP)
    with tempfile.TemporaryDirectory() as folder:
        run(server.url, WARM_UP.name, folder)

    def cpu(usage: ProcessUsage) -> float:
        return usage.cpu

    def cpu_per_gb(usage: ProcessUsage) -> float:
        return usage.cpu / usage.bytes * GB

    def cpu_per_record(usage: ProcessUsage) -> float:
        return usage.cpu / usage.rows * 1e6

    def rate(usage: ProcessUsage) -> float:
        return usage.rows / usage.wall

    return [
        Growth(
            "growth-shards",
            "shards",
            "shards of the stream",
            "CPU seconds of a run",
            "A first run with its plan and commit, over a stream with 64 MB in all shards together, and "
            "over a stream without records",
            {
                "64 MB in total": curve(shard_points(), run, cpu),
                "no records": curve(idle_points(), run, cpu),
            },
        ),
        Growth(
            "growth-record-size",
            "record size",
            "bytes of a record",
            "CPU seconds per GB",
            "A run with its plan and commit, over 4 shards with pages of 1 MB (at the end, one record of 10 "
            "MiB)",
            {"landing": curve(record_points(), run, cpu_per_gb)},
        ),
        Growth(
            "growth-page-size",
            "page size",
            "records of a page",
            "CPU microseconds per record of 1 KB",
            "A run with its plan and commit; a page is one HTTP response",
            {"landing": curve(page_points(), run, cpu_per_record)},
        ),
        Growth(
            "growth-latency",
            "latency",
            "latency of the server in milliseconds",
            "records per second",
            f"One task reads {LATENCY.shards} shards at once, each with one call for an iterator and "
            f"{LATENCY.pages} calls for pages of {LATENCY.page_records} records. 200 ms allow "
            f"{LATENCY.records / (0.2 * (LATENCY.pages + 1)):,.0f} records per second. 0 ms is not shown, "
            "because the axis is logarithmic",
            {"landing": curve(latency_points(), land, rate)},
        ),
    ]


def measure_tables() -> Growth:
    """Measure how cost grows with the table."""
    loads, commits = [], []
    for files in (10, 100, 1_000, 10_000):
        with grown_table(files) as table:
            count = 3 * ROUNDS
            loads.append((files, Spread.of(seconds_of_loads(table, count)).scaled(1e3)))
            commits.append((files, Spread.of(seconds_of_commits(table, count)).scaled(1e3)))
    return Growth(
        "growth-table",
        "table size",
        "data files in the table",
        "milliseconds",
        "Loads, which open the table and read its positions, and commits of one record, each of which opens "
        "the table as well",
        {"load": loads, "commit": commits},
    )


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    del full
    with replay_server() as server:
        measured = [*measure_streams(server), measure_tables()]
    rows: list[list[str]] = []
    charts: list[Chart] = []
    for growth in measured:
        medians = {
            curve: [(x, spread.median) for x, spread in points] for curve, points in growth.curves.items()
        }
        chart, exponents = growth_chart(
            growth.name, f"{growth.y_label}, over {growth.x_label}", growth.x_label, growth.y_label, medians
        )
        charts.append(chart)
        for curve, points in growth.curves.items():
            listed = ", ".join(f"{_number(x)}: {_spread(y)}" for x, y in points)
            slopes = [f"{slope:.2f}" for slope in (exponents[curve], _last_slope(medians[curve]))]
            rows.append([growth.title, curve, *slopes, f"{growth.y_label}: {listed}"])
    text = (
        "These are runs without Spark and Dagster: this process plans, lands as one task, and commits. "
        "Calls are not paced, because waiting costs time but no CPU. CPU is that of this process alone. The "
        "exponent is the slope of the regression line with both axes logarithmic: 0 is constant, and 1 is "
        "linear. Where a curve bends, it continues like between its last two points, whose slope is listed "
        f"separately. Median of {ROUNDS} rounds (three times as many for tables), with the lowest and the "
        "highest."
    )
    notes = "\n".join(f"- {growth.title}: {growth.description}." for growth in measured)
    columns = ["quantity", "curve", "exponent", "last slope", "points"]
    return Section("Growth", f"{text}\n\n{notes}\n\n{markdown_table(columns, rows)}", charts=charts)


def _last_slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the exponent between the last two points."""
    (x, y), (next_x, next_y) = points[-2:]
    return math.log(next_y / y) / math.log(next_x / x)


def _spread(spread: Spread) -> str:
    return f"{_number(spread.median)} ({_number(spread.low)} to {_number(spread.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004  # three digits
