"""A whole run over a thousand shards with a backlog, from the start of its process to its end."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from benchmarks.harness.paths import ROOT
from benchmarks.harness.section import Goal, Target
from benchmarks.harness.single_process import REGION
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.servers.replay_streams import StreamSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.servers.replay_client import ReplayServer

BACKLOG = StreamSpec("backlog", shards=1000, pages=1, page_records=1000)
MAX_SECONDS = 40
MAX_FILES_PER_DATE = 8

PLANNED = "Dagster's events of planned materializations"
MATERIALIZED = "Dagster's events of materializations"


@dataclass(frozen=True)
class WholeRun:
    """A whole run.

    Attributes:
        seconds: Wall-clock time.
        records: Records in the table.
        commits: Commits that added data files.
        files: Data files by arrival date.
        phases: Seconds of its phases, in order.
    """

    seconds: float
    records: int
    commits: int
    files: Counter[str]
    phases: dict[str, float]


def measure(server: ReplayServer, spec: StreamSpec, rounds: int) -> list[WholeRun]:
    """Measure `kinesis-assets run` with a cold start: its process, Dagster with SQLite, Spark, a new table.

    Raises:
        RuntimeError: A run failed; the message contains the end of its output.
    """
    server.create(spec)
    runs = [_run(server, spec) for _ in range(rounds)]
    server.delete(spec.name)
    return runs


def _run(server: ReplayServer, spec: StreamSpec) -> WholeRun:
    with tempfile.TemporaryDirectory() as home:
        Path(home, "dagster.yaml").touch()
        folder = Path(home, "table")
        cli = str(Path(sys.executable).with_name("kinesis-assets"))
        command = [cli, "run", "--json", "--stream", spec.name]
        options = ["--table", str(folder), "--endpoint-url", server.url, "--region", REGION]
        started = time.time()
        done = subprocess.run(
            [*command, *options],
            cwd=ROOT,
            env=os.environ | {"DAGSTER_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
        ended = time.time()
        if done.returncode:
            raise RuntimeError(f"kinesis-assets run exited with {done.returncode}: {done.stderr[-500:]}")
        records = sum(json.loads(line)["rows"] for line in done.stdout.splitlines())
        assert records == spec.records, records
        commits, files = _added_files(folder)
        phases = _phases(home, folder, started, ended)
    return WholeRun(ended - started, records, commits, files, phases)


def _phases(home: str, folder: Path, started: float, ended: float) -> dict[str, float]:
    """Return the phases of a run from Dagster's events and the log of the table; times are Unix times."""
    planned = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    materialized = dg.DagsterEventType.ASSET_MATERIALIZATION
    with dg.DagsterInstance.from_config(home) as instance:
        (run,) = instance.get_runs()
        events = instance.get_records_for_run(run.run_id, of_type={planned, materialized}).records
    times: dict[dg.DagsterEventType, list[float]] = {planned: [], materialized: []}
    for event in events:
        times[event.event_log_entry.get_dagster_event().event_type].append(event.timestamp)
    ends = {
        "imports and the first listing": min(times[planned]),
        PLANNED: max(times[planned]),
        "plan, start of Spark, landing, commit": max(
            path.stat().st_mtime for path in Path(folder, "_delta_log").glob("*.json")
        ),
        MATERIALIZED: max(times[materialized]),
        "the end of the process": ended,
    }
    phases, before = {}, started
    for phase, end in ends.items():
        phases[phase], before = end - before, end
    return phases


def _added_files(folder: Path) -> tuple[int, Counter[str]]:
    """Return the number of commits that added files, and the number of files by arrival date."""
    commits, files = 0, Counter[str]()
    for entry in Path(folder, "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
        dates = [line["add"]["partitionValues"]["arrival_date"] for line in lines if "add" in line]
        commits += bool(dates)
        files.update(dates)
    return commits, files


def describe(runs: Sequence[WholeRun]) -> str:
    """Return the text of the report."""
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in _median_phases(runs).items())
    return (
        f"`kinesis-assets run` over {BACKLOG.shards:,} shards with {BACKLOG.page_records:,} records of "
        f"{BACKLOG.record_bytes:,} bytes each, from the start of its process to its end, with Dagster on "
        "SQLite, a cold Spark session and a new table, takes "
        f"{Spread.of([run.seconds for run in runs]).text()} s (medians: {phases}). "
        f"{describe_rounds(len(runs))}. It makes at most {_max_commits(runs)} commit with data, with at most "
        f"{_max_files(runs)} files per arrival date."
    )


def target(runs: Sequence[WholeRun]) -> Target:
    """Return the result for the goal of a whole run."""
    seconds = Spread.of([run.seconds for run in runs])
    phases = _median_phases(runs)
    return Target(
        Goal.THOUSAND_SHARDS,
        f"{seconds.text()} s including the start of all processes, "
        f"{phases[PLANNED] + phases[MATERIALIZED]:.0f} s of them Dagster's events; {_max_commits(runs)} "
        f"commit, {_max_files(runs)} files",
        seconds.median <= MAX_SECONDS
        and all(run.commits == 1 for run in runs)
        and _max_files(runs) <= MAX_FILES_PER_DATE,
    )


def _median_phases(runs: Sequence[WholeRun]) -> dict[str, float]:
    return {phase: statistics.median(run.phases[phase] for run in runs) for phase in runs[0].phases}


def _max_commits(runs: Sequence[WholeRun]) -> int:
    return max(run.commits for run in runs)


def _max_files(runs: Sequence[WholeRun]) -> int:
    """Return the maximum number of files of an arrival date."""
    return max(max(run.files.values()) for run in runs)
