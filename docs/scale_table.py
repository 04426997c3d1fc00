"""Writes the prices, the formulas and the tables of docs/scale.md between their marks.

A formula is a Python expression, which the page shows as it is evaluated here. Tests compare the
formulas with simulations and with real runs, see the page.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from benchmarks.servers.request_log import GET_DOLLARS, PUT_DOLLARS

SHARDS = (10, 1_000, 10_000)
TASKS = 2


@dataclass(frozen=True)
class Quantity:
    """Something that is counted.

    Attributes:
        symbol: Its name in the formulas below it.
        label: What it is.
        formula: A Python expression of `n` shards, `t` tasks and the symbols above it.
    """

    symbol: str
    label: str
    formula: str


@dataclass(frozen=True)
class Day:
    """A day of a stream.

    Attributes:
        title: The heading.
        quantities: What is counted.
    """

    title: str
    quantities: tuple[Quantity, ...]


RUN = (
    Quantity("calls", "calls to Kinesis of a run", "2 + ceil(n / 1000) + 2 * n"),
    Quantity("tasks", "tasks, and data files for each arrival date", "min(n, t)"),
    Quantity("events", "events in Dagster of a run", "2 * n + 22"),
    Quantity("positions", "bytes of its positions file", "1_000 + 30 * n"),
    Quantity("run_puts", "PUT and LIST requests of a run", "11 + tasks"),
    Quantity("run_gets", "GET and HEAD requests of a run", "194 + 2 * tasks"),
    Quantity("commit_calls", "calls to Kinesis of a commit of a continuous run", "1 + 2 * n"),
    Quantity("commit_puts", "PUT and LIST requests of a commit of a continuous run", "6.15 + tasks"),
    Quantity("commit_gets", "GET and HEAD requests of a commit of a continuous run", "78 + 2 * tasks"),
)
"""One run over shards that all have new records, or one commit of a continuous run."""

TICK = (
    Quantity("tick_calls", "calls to Kinesis of a tick, new records", "5 + ceil(n / 1000)"),
    Quantity("quiet_calls", "calls to Kinesis of a tick, nothing new", "1 + ceil(n / 1000) + 2 * n"),
    Quantity("tick_puts", "PUT and LIST requests of a tick", "1"),
    Quantity("tick_gets", "GET and HEAD requests of a tick", "61"),
)
"""One tick of the sensor."""

EVENT_SECONDS = 0.0106
"""Seconds in which Dagster stores an event in SQLite, as benchmarks/REPORT.md measures them."""

_HOURS = f"day_events * {EVENT_SECONDS} / 3600"
_DOLLARS = f"puts / 1000 * {PUT_DOLLARS} + gets / 1000 * {GET_DOLLARS}"

DAYS = RUNS, CONTINUOUS, IDLE = (
    Day(
        "A run every 5 minutes (`sensor_interval_seconds: 300`)",
        (
            Quantity("runs", "runs, ticks and commits", "288"),
            Quantity("day_calls", "calls to Kinesis", "runs * (calls + tick_calls)"),
            Quantity("day_tasks", "tasks, and data files before compaction", "runs * tasks"),
            Quantity("day_events", "events in Dagster", "runs * events"),
            Quantity("hours", "hours to store them in SQLite", _HOURS),
            Quantity("megabytes", "MB of positions files", "runs * positions / 1e6"),
            Quantity("puts", "PUT and LIST requests", "runs * (run_puts + tick_puts)"),
            Quantity("gets", "GET and HEAD requests", "runs * (run_gets + tick_gets)"),
            Quantity("dollars", "$ for these requests", _DOLLARS),
        ),
    ),
    Day(
        "Continuous runs with a commit every 10 seconds (`follow_for`, `commit_interval: 10`)",
        (
            Quantity("commits", "commits", "8640"),
            Quantity("ticks", "ticks", "2880"),
            Quantity("lists", "lists of the shards, by a tick or the run", "ticks + 8640"),
            Quantity("opens", "times the table is opened besides", "ticks + 2880 + 1440"),
            Quantity("beats", "heartbeats, and lists of them by a tick", "2880 + ticks"),
            Quantity(
                "day_calls", "calls to Kinesis", "commits * commit_calls + lists * (1 + ceil(n / 1000))"
            ),
            Quantity("day_tasks", "tasks, and data files before compaction", "commits * tasks"),
            Quantity("day_events", "events in Dagster", "commits * (n + 2) + 1440"),
            Quantity("hours", "hours to store them in SQLite", _HOURS),
            Quantity("megabytes", "MB of positions files", "commits * positions / 1e6"),
            Quantity("puts", "PUT and LIST requests", "commits * commit_puts + opens * tick_puts + beats"),
            Quantity("gets", "GET and HEAD requests", "commits * commit_gets + opens * tick_gets"),
            Quantity("dollars", "$ for these requests", _DOLLARS),
        ),
    ),
    Day(
        "No records (a tick every 30 seconds, a run every 4 hours)",
        (
            Quantity("runs", "runs", "6"),
            Quantity("ticks", "ticks", "2880"),
            Quantity("day_calls", "calls to Kinesis", "runs * calls + ticks * quiet_calls"),
            Quantity("day_events", "events in Dagster", "runs * (n + 22) + 24"),
            Quantity("megabytes", "MB of positions files", "runs * positions / 1e6"),
            Quantity("puts", "PUT and LIST requests", "runs * run_puts + ticks * tick_puts"),
            Quantity("gets", "GET and HEAD requests", "runs * run_gets + ticks * tick_gets"),
            Quantity("dollars", "$ for these requests", _DOLLARS),
        ),
    ),
)
"""Two days on which all shards have new records before each run, and one without records."""


def values(shards: int, tasks: int = TASKS, day: Day | None = None) -> dict[str, float]:
    """Return each quantity by its symbol.

    Args:
        shards: Number of open shards.
        tasks: Number of tasks of a landing.
        day: A day whose quantities are returned too.
    """
    found: dict[str, float] = {"n": shards, "t": tasks}
    for quantity in (*RUN, *TICK, *(day.quantities if day else ())):
        names = {"ceil": ceil, "min": min, **found}
        found[quantity.symbol] = eval(quantity.formula, {"__builtins__": {}}, names)  # noqa: S307  # from above
    return found


def tables() -> str:
    """Return the tables as Markdown."""
    charged = (
        f"Requests of S3 are counted as they are charged, at ${PUT_DOLLARS} for 1,000 PUT, POST or LIST, and "
        f"${GET_DOLLARS} for 1,000 GET or HEAD\n(S3 Standard in us-east-1). DELETE is free, and so are the "
        "calls to Kinesis.\n"
    )
    one = _table("one run, commit or tick", (*RUN, *TICK), None)
    return "\n".join(
        [charged, one, *(f"### {day.title}\n\n{_table('a day', day.quantities, day)}" for day in DAYS)]
    )


def _table(what: str, quantities: tuple[Quantity, ...], day: Day | None) -> str:
    columns = [values(shards, day=day) for shards in SHARDS]
    head = " | ".join(f"{shards:,} shards" for shards in SHARDS)
    lines = [f"| {what} | symbol | formula | {head} |", "|---|---|---|" + "--:|" * len(SHARDS)]
    lines += [
        f"| {each.label} | `{each.symbol}` | `{each.formula}` | "
        + " | ".join(_number(column[each.symbol]) for column in columns)
        + " |"
        for each in quantities
    ]
    return "\n".join([*lines, ""])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2g}"  # noqa: PLR2004


def with_tables(page: str) -> str:
    """Return a page with the present tables between its marks.

    Raises:
        ValueError: The page has no marks.
    """
    before, begin, rest = page.partition("<!-- tables: generated, do not edit -->\n")
    _, end, after = rest.partition("<!-- end of tables -->\n")
    if not end:
        raise ValueError("no marks of the tables in the page")
    return f"{before}{begin}\n{tables()}\n{end}{after}"


if __name__ == "__main__":
    written = Path(sys.argv[1])
    written.write_text(with_tables(written.read_text(encoding="utf-8")), encoding="utf-8")
