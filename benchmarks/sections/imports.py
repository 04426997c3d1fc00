"""CPU of new processes that import the package, and end."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

from benchmarks.harness.section import Goal, Section, Target, markdown_table

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
        "other.\n\n" + markdown_table(["imported", "median", "lowest", "highest"], rows),
        [Target(Goal.IMPORTS, f"{added:.2f} s", met=added <= MAX_SECONDS)],
    )
