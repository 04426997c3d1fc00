"""What is loaded before anything is done: CPU of new processes that import, and end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from benchmarks.harness.import_times import besides, medians, milliseconds
from benchmarks.harness.section import Goal, Section, Target, table

MOST_SECONDS = 0.3

DAGSTER = "import dagster"
LOADED = f"{DAGSTER}; import kinesis_assets.dagster.component"
BUILT = f"{LOADED}; kinesis_assets.build_kinesis_stream('clicks', table='s3://lake/clicks')"
RUN = f"{LOADED}; import kinesis_assets.ingest.continuous_run, kinesis_assets.dagster.spark_resource"
WHAT = {
    DAGSTER: "Dagster",
    LOADED: "and the package, as a code location loads it",
    BUILT: "and a stream's definitions",
    RUN: "Dagster, the package, and what a run needs besides",
}

PROCESSES = 5
"""Of each kind that tell what their imports take."""

_WAYS = ("median", "least", "most")


def cpu(statement: str) -> float:
    """CPU seconds of a new interpreter that does only that.

    Raises:
        RuntimeError: It failed.
    """
    with subprocess.Popen([sys.executable, "-c", statement]) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{statement!r} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime


def by_package() -> str:
    """Where the imports' time goes, for the report."""
    location, run = [], []
    for _ in range(PROCESSES):
        location.append(milliseconds(BUILT))
        run.append(besides(milliseconds(RUN), location[-1]))
    of_location, of_run = medians(location), medians(run)
    both = (of_location, of_run)
    names = sorted(of_location, key=lambda name: -sum(of[name] for of in both))
    rows = [
        [name, *(f"{of[name]:,.0f} ms, {of[name] / sum(of.values()):.0%}" if of[name] else "" for of in both)]
        for name in names
        if any(of[name] for of in both)
    ]
    return (
        "Where the time of these imports goes, by package: on the wall, and the share of all; median of "
        f"{PROCESSES} processes each, as `python -X importtime` tells it of each module without what that "
        "imports itself. What a run needs besides is what a code location does not import.\n\n"
        + table(["package", "a code location, with a stream's definitions", "a run, besides"], rows)
    )


def section(full: bool) -> Section:
    """The report's."""
    rounds = 11 if full else 5
    taken: dict[str, list[float]] = {statement: [] for statement in WHAT}
    for _ in range(rounds):
        for statement, seconds in taken.items():
            seconds.append(cpu(statement))
    rows = [
        [what, *(f"{way(taken[statement]):.2f} s" for way in (statistics.median, min, max))]
        for statement, what in WHAT.items()
    ]
    pairs = zip(taken[BUILT], taken[DAGSTER], strict=True)
    added = statistics.median(built - dagster for built, dagster in pairs)
    return Section(
        "Imports: what a code location's start costs",
        f"CPU of a new process, {rounds} of each in turn; each line is of a process of its own, whole.\n\n"
        + table(["what is imported", *_WAYS], rows)
        + (f"\n\n{by_package()}" if full else ""),
        [Target(Goal.IMPORTS, f"{added:.2f} s", met=added <= MOST_SECONDS)],
    )
