"""CPU of new processes that import the package, and end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.harness.import_times import difference, medians, milliseconds
from benchmarks.harness.section import Goal, Section, Target, markdown_table

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SECONDS = 0.3

DAGSTER = "import dagster"
LOADED = f"{DAGSTER}; import kinesis_assets.dagster.components.stream_component"
BUILT = f"{LOADED}; kinesis_assets.build_kinesis_stream('clicks', table='s3://lake/clicks')"
RUN = f"{LOADED}; import kinesis_assets.ingest.continuous_run, kinesis_assets.dagster.spark_resource"
DESCRIPTIONS = {
    DAGSTER: "Dagster",
    LOADED: "Dagster and the package, as a code location loads it",
    BUILT: "the same, and a stream's definitions",
    RUN: "Dagster, the package, and the modules that a run imports in addition",
}

PROFILED_PROCESSES = 5
"""Number of processes of each kind that report the time of their imports."""


def cpu(statement: str) -> float:
    """Return the CPU seconds of a new interpreter that runs a statement.

    Raises:
        RuntimeError: The statement failed.
    """
    with subprocess.Popen([sys.executable, "-c", statement]) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{statement!r} ended with {child.returncode}")
    return used.ru_utime + used.ru_stime


def by_package() -> str:
    """Return the part of the section that shows the import time by package."""
    location, run = [], []
    for _ in range(PROFILED_PROCESSES):
        location.append(milliseconds(BUILT))
        run.append(difference(milliseconds(RUN), location[-1]))
    both = (medians(location), medians(run))
    names = sorted(both[0], key=lambda name: -sum(times[name] for times in both))
    rows = [
        [name, *(_share(name, times) for times in both)]
        for name in names
        if any(times[name] for times in both)
    ]
    return (
        "The time of these imports by package: wall-clock time and its share, the median of "
        f"{PROFILED_PROCESSES} processes each, as `python -X importtime` reports it for each module without "
        "the modules that it imports. The last column contains only modules that a code location does not "
        "import.\n\n"
        + markdown_table(
            ["package", "a code location, with a stream's definitions", "a run, in addition"], rows
        )
    )


def _share(name: str, times: Mapping[str, float]) -> str:
    return f"{times[name]:,.0f} ms, {times[name] / sum(times.values()):.0%}" if times[name] else ""


def section(full: bool) -> Section:
    """Measure, and return the section of the report."""
    rounds = 11 if full else 5
    seconds_of: dict[str, list[float]] = {statement: [] for statement in DESCRIPTIONS}
    for _ in range(rounds):
        for statement, seconds in seconds_of.items():
            seconds.append(cpu(statement))
    rows = [
        [description, *(f"{figure(seconds_of[statement]):.2f} s" for figure in (statistics.median, min, max))]
        for statement, description in DESCRIPTIONS.items()
    ]
    pairs = zip(seconds_of[BUILT], seconds_of[DAGSTER], strict=True)
    added = statistics.median(built - dagster for built, dagster in pairs)
    return Section(
        "Imports: the start of a code location",
        f"CPU of a new process, from its start to its end; {rounds} processes of each kind, one after the "
        "other.\n\n"
        + markdown_table(["imported", "median", "lowest", "highest"], rows)
        + (f"\n\n{by_package()}" if full else ""),
        [Target(Goal.IMPORTS, f"{added:.2f} s", met=added <= MAX_SECONDS)],
    )
