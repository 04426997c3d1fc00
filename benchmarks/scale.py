"""A thousand shards: idle, with a backlog, in the sensor's tick; and small pages over a long way."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from benchmarks.alone import REGION, landing_of, unpaced, whole_run
from benchmarks.empty_calls import cpu_of_empty_calls
from benchmarks.measure import ROOT, Command, Spread, of_rounds, started, tree_cpu
from benchmarks.replay import replay_server
from benchmarks.replay_pages import StreamSpec
from benchmarks.sampled import hottest, sampled
from benchmarks.section import Goal, Section, Target, table
from kinesis_assets.dagster.build import build_kinesis_stream
from kinesis_assets.dagster.in_process import StreamProject
from kinesis_assets.dagster.names import shard_partitions
from kinesis_assets.dagster.sensor import evaluate
from kinesis_assets.ingest.shard_group import CALLS
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.reading import PAGE_LIMIT
from kinesis_assets.kinesis.settings import ClientSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.replay import ReplayServer

ROUNDS = 5
THOUSAND = 1000
TASKS = 2

WARM_UP = StreamSpec("scale-warm-up", shards=4, pages=1, page_records=1000)
IDLE = StreamSpec("idle", shards=THOUSAND, pages=1, page_records=1, record_bytes=100)
BACKLOG = StreamSpec("backlog", shards=THOUSAND, pages=1, page_records=1000)
PAGE_RECORDS = 100
FULL_PAGE_RECORDS = 1000
LATENCY_MS = 100
TICK_LATENCY_MS = 20

MOST_IDLE_CPU_MS = 5
MOST_IDLE_CALLS = 3
MOST_BACKLOG_SECONDS = 40
MOST_FILES_A_DATE = 8
MOST_TICK_SECONDS = 8
LEAST_RATE = 60_000
CALLS_A_SECOND = 5

PLANNED = "Dagster's events of what is planned"
DONE = "Dagster's events of what is done"


@dataclass(frozen=True)
class Idle:
    """Runs of which nothing was new.

    Attributes:
        cpu_ms: CPU of the process tree for each shard, milliseconds.
        wall: Seconds of a run.
        calls: API calls of the last of them, by operation.
    """

    cpu_ms: Spread
    wall: Spread
    calls: dict[str, int]


def idle(server: ReplayServer, rounds: int) -> Idle:
    """Runs of a warm session over a thousand shards that were read to their tips before."""
    server.create(IDLE)
    works, calls = [], {}
    with started(Command.module("idle", "benchmarks.scale_child", "idle")) as child:
        for _ in range(rounds):
            works.append(child.work(server.url, IDLE.name, IDLE.records))
            calls = server.calls()
    server.delete(IDLE.name)
    return Idle(
        Spread.of([work.usage.cpu / IDLE.shards * 1e3 for work in works]),
        Spread.of([work.usage.wall for work in works]),
        calls,
    )


@dataclass(frozen=True)
class Whole:
    """A whole run, from the start of its process to its end.

    Attributes:
        seconds: On the wall.
        records: In the table.
        commits: Of the table that brought data files.
        files: Data files by arrival date.
        phases: Seconds of its parts, in their order.
    """

    seconds: float
    records: int
    commits: int
    files: Counter[str]
    phases: dict[str, float]


def wholes(server: ReplayServer, spec: StreamSpec, rounds: int) -> list[Whole]:
    """`kinesis-assets run` over a stream, from nothing: its process, Dagster with SQLite, Spark, the table.

    Raises:
        RuntimeError: One failed; the message is what it wrote last.
    """
    server.create(spec)
    told = [_whole(server, spec) for _ in range(rounds)]
    server.delete(spec.name)
    return told


def _whole(server: ReplayServer, spec: StreamSpec) -> Whole:
    with tempfile.TemporaryDirectory() as home:
        Path(home, "dagster.yaml").touch()
        folder = Path(home, "table")
        cli = str(Path(sys.executable).with_name("kinesis-assets"))
        command = [cli, "run", "--json", "--stream", spec.name]
        where = ["--table", str(folder), "--endpoint-url", server.url, "--region", REGION]
        began = time.time()
        done = subprocess.run(
            [*command, *where],
            cwd=ROOT,
            env=os.environ | {"DAGSTER_HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
        ended = time.time()
        if done.returncode:
            raise RuntimeError(f"kinesis-assets run exited {done.returncode}: {done.stderr[-500:]}")
        records = sum(json.loads(line)["rows"] for line in done.stdout.splitlines())
        assert records == spec.records, records
        commits, files = _added(folder)
        phases = _phases(home, folder, began, ended)
    return Whole(ended - began, records, commits, files, phases)


def _phases(home: str, folder: Path, began: float, ended: float) -> dict[str, float]:
    """The parts of a run that Dagster and the table tell of; times are seconds since the epoch."""
    planned = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    told = dg.DagsterEventType.ASSET_MATERIALIZATION
    with dg.DagsterInstance.from_config(home) as instance:
        (run,) = instance.get_runs()
        events = instance.get_records_for_run(run.run_id, of_type={planned, told}).records
    times: dict[dg.DagsterEventType, list[float]] = {planned: [], told: []}
    for event in events:
        times[event.event_log_entry.get_dagster_event().event_type].append(event.timestamp)
    moments = {
        "imports and the first look": min(times[planned]),
        PLANNED: max(times[planned]),
        "plan, Spark's start, landing, commit": max(
            path.stat().st_mtime for path in Path(folder, "_delta_log").glob("*.json")
        ),
        DONE: max(times[told]),
        "the end": ended,
    }
    phases, before = {}, began
    for phase, moment in moments.items():
        phases[phase], before = moment - before, moment
    return phases


def _added(folder: Path) -> tuple[int, Counter[str]]:
    """Entries of a table's log that add data files, and those files by arrival date."""
    commits, files = 0, Counter[str]()
    for entry in Path(folder, "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in entry.read_text(encoding="utf-8").splitlines()]
        dates = [line["add"]["partitionValues"]["arrival_date"] for line in lines if "add" in line]
        commits += bool(dates)
        files.update(dates)
    return commits, files


@dataclass(frozen=True)
class Tick:
    """One tick of the sensor.

    Attributes:
        when: What it met.
        seconds: Until its result was there, which Dagster bounds.
        stored: Seconds in which its partitions and events were stored then, as the daemon does.
        events: That it gave.
        runs: That it asked for.
    """

    when: str
    seconds: float
    stored: float
    events: int
    runs: int


def ticks(server: ReplayServer, rounds: int) -> list[list[Tick]]:
    """By round, ticks over a thousand shards, their results stored as the daemon does: when all shards are
    new; once all were committed without an event, until none is missing; and when nothing is new.
    """
    server.create(IDLE)
    told = [_ticks(server) for _ in range(rounds)]
    server.delete(IDLE.name)
    return told


def _ticks(server: ReplayServer) -> list[Tick]:
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        Path(home, "dagster.yaml").touch()
        folder = str(Path(home, "table"))
        instance = stack.enter_context(dg.DagsterInstance.from_config(home))
        definitions = build_kinesis_stream(
            IDLE.name, table=folder, endpoint_url=server.url, region_name=REGION
        )
        opened = stack.enter_context(StreamProject(IDLE.name, definitions).open_stream())
        partitions = shard_partitions(IDLE.name)
        cursor: str | None = None

        def tick(when: str) -> Tick:
            nonlocal cursor
            server.latency(TICK_LATENCY_MS)
            began = time.monotonic()
            result = evaluate(opened, instance, cursor)
            seconds = time.monotonic() - began
            server.latency(0)
            cursor = result.cursor
            for request in result.dynamic_partitions_requests or []:
                instance.add_dynamic_partitions(str(partitions.name), list(request.partition_keys))
            for event in result.asset_events:
                assert isinstance(event, dg.AssetMaterialization)
                instance.report_runless_asset_event(event)
            stored = time.monotonic() - began - seconds
            return Tick(when, seconds, stored, len(result.asset_events), len(result.run_requests or []))

        told = [tick("1,000 shards are new")]
        whole_run(server.url, IDLE.name, folder)
        told.append(tick("1,000 shards are committed, no event"))
        while told[-1].events:
            told.append(tick("the next one"))
        told.append(tick("nothing is new"))
    return told


@dataclass(frozen=True)
class Rates:
    """Small pages over a long way, read by two tasks.

    Attributes:
        shards: Of both tasks.
        pages: Of each shard.
        paced: As the service paces a shard.
        rate: Records a second.
        most: Records a second if so many calls at once took as long as one alone, those for shard iterators
            among them.
        cpu_us: CPU of the tasks for a record, microseconds, median.
        tasks_cores: Cores that both tasks kept busy, median.
        server_cores: Cores that the replay server kept busy, median.
    """

    shards: int
    pages: int
    paced: bool
    rate: Spread
    most: float
    cpu_us: float
    tasks_cores: float
    server_cores: float


def small_pages(server: ReplayServer, shards: int, pages: int, *, paced_rounds: int) -> list[Rates]:
    """Two tasks, half of the shards each, as fast as pages come; and at the service's pace."""
    specs = [
        StreamSpec(f"small-{shards}-{task}", shards // TASKS, pages, PAGE_RECORDS) for task in range(TASKS)
    ]
    for spec in (WARM_UP, *specs):
        server.create(spec)
    records = sum(spec.records for spec in specs)
    told = []
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(TASKS))
        for kind in ("unpaced", "group"):
            command = Command.module(kind, "benchmarks.scale_child", kind)
            children = [stack.enter_context(started(command)) for _ in specs]
            server.latency(0)
            for child in children:
                child.work(server.url, WARM_UP.name, WARM_UP.records)
            server.latency(LATENCY_MS)
            alone = _seconds_alone(server, specs[0])
            rates, spent, busy, served = [], [], [], []
            paced = kind == "group"
            for _ in range(paced_rounds if paced else ROUNDS):
                before = tree_cpu(server.pid)
                orders = [
                    pool.submit(child.work, server.url, spec.name, spec.records)
                    for child, spec in zip(children, specs, strict=True)
                ]
                usages = [order.result().usage for order in orders]
                wall = max(usage.wall for usage in usages)
                rates.append(records / wall)
                spent.append(sum(usage.cpu for usage in usages))
                busy.append(spent[-1] / wall)
                served.append((tree_cpu(server.pid) - before) / wall)
            told.append(
                Rates(
                    shards,
                    pages,
                    paced,
                    Spread.of(rates),
                    _most(shards, pages, alone, paced=paced),
                    statistics.median(spent) / records * 1e6,
                    statistics.median(busy),
                    statistics.median(served),
                )
            )
    server.latency(0)
    for spec in specs:
        server.delete(spec.name)
    return told


def _seconds_alone(server: ReplayServer, spec: StreamSpec) -> float:
    """What a call takes with nothing beside it, median."""
    client = StreamClient(spec.name, ClientSettings(REGION, server.url))
    iterator: str | None = client.shard_iterator(
        client.list_shards()[0].shard_id, Position(PositionKind.TRIM_HORIZON)
    )
    seconds = []
    for _ in range(min(10, spec.pages)):
        assert iterator is not None
        began = time.perf_counter()
        page, _ = client.get_records(iterator, PAGE_LIMIT)
        seconds.append(time.perf_counter() - began)
        iterator = page.next_shard_iterator
    return statistics.median(seconds)


def _most(shards: int, pages: int, alone: float, *, paced: bool) -> float:
    calls_a_second = min(shards, TASKS * CALLS) / alone
    if paced:
        calls_a_second = min(calls_a_second, shards * CALLS_A_SECOND)
    return calls_a_second * PAGE_RECORDS * pages / (pages + 1)


def profiles(server: ReplayServer) -> str:
    """Where the CPU of a task goes with full pages and with small ones, and of a run over idle shards."""
    backlogs = [
        StreamSpec(f"profiled-{records}", shards=64, pages=pages, page_records=records)
        for records, pages in ((FULL_PAGE_RECORDS, 4), (PAGE_RECORDS, 20))
    ]
    of: dict[str, Mapping[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, unpaced():
        for spec in backlogs:
            server.create(spec)
            _, spent = sampled(landing_of(server.url, spec.name, f"{folder}/{spec.name}"))
            of[f"a task, pages of {spec.page_records:,} records"] = spent
            server.delete(spec.name)
        server.create(IDLE)
        whole_run(server.url, IDLE.name, f"{folder}/idle")
        _, of["a run over idle shards"] = sampled(lambda: whole_run(server.url, IDLE.name, f"{folder}/idle"))
        server.delete(IDLE.name)
    told = "\n".join(
        f"- {what}: {'; '.join(f'{where} {share:.0%}' for where, share in hottest(spent))}."
        for what, spent in of.items()
    )
    return (
        "Where the CPU goes, by samples of all threads, without Spark and Dagster; what a thread did just "
        f"before it waited counts for where it waits:\n\n{told}"
    )


def section(full: bool) -> Section:
    """Measure it all, and tell."""
    rounds = ROUNDS if full else 1  # of what takes long
    with replay_server() as server:
        of_idle = idle(server, ROUNDS)
        of_calls = cpu_of_empty_calls(server, ROUNDS)
        of_wholes = wholes(server, BACKLOG, rounds)
        of_ticks = ticks(server, rounds)
        rates = [
            *small_pages(server, 64, 200 if full else 100, paced_rounds=rounds),
            *small_pages(server, 256, 10, paced_rounds=rounds),
        ]
        profile = profiles(server)
    text = [
        _about_idle(of_idle),
        _about_calls(of_calls),
        _about_wholes(of_wholes),
        *_about_ticks(of_ticks),
        *_about_rates(rates, paced_rounds=rounds),
        profile,
    ]
    return Section("A thousand shards", "\n\n".join(text), targets(of_idle, of_wholes, of_ticks, rates))


def _about_idle(of: Idle) -> str:
    calls = ", ".join(f"{count:,} {operation}" for operation, count in sorted(of.calls.items()))
    return (
        f"Nothing new in {IDLE.shards:,} shards: a run of a warm session in 2 tasks, its plan included, has "
        f"{of.cpu_ms.text(2)} ms of CPU (process tree, JVM and workers) a shard and takes "
        f"{of.wall.text(1)} s. {of_rounds(ROUNDS)}. Its calls: {calls}."
    )


def _about_calls(of: Mapping[str, Spread]) -> str:
    told = "; ".join(f"{spread.text(2)} ms {way}" for way, spread in of.items())
    return f"CPU of one call that brings nothing, without waits between calls: {told}."


def _about_wholes(of: Sequence[Whole]) -> str:
    phases = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in _phase_medians(of).items())
    return (
        f"{BACKLOG.shards:,} shards of {BACKLOG.page_records:,} records of {BACKLOG.record_bytes:,} bytes: "
        "`kinesis-assets run`, from the start of its process to its end, with Dagster on SQLite, a cold "
        f"Spark session and a new table: {Spread.of([each.seconds for each in of]).text()} s "
        f"(medians: {phases}). {of_rounds(len(of))}. At most {_most_commits(of)} commit with data and "
        f"{_most_files(of)} files of an arrival date."
    )


def _phase_medians(of: Sequence[Whole]) -> dict[str, float]:
    return {phase: statistics.median(each.phases[phase] for each in of) for phase in of[0].phases}


def _most_commits(of: Sequence[Whole]) -> int:
    return max(each.commits for each in of)


def _most_files(of: Sequence[Whole]) -> int:
    """Of an arrival date."""
    return max(max(each.files.values()) for each in of)


def _about_ticks(of: Sequence[Sequence[Tick]]) -> list[str]:
    what = (
        f"The sensor at {IDLE.shards:,} shards, {TICK_LATENCY_MS} ms latency, Dagster on SQLite; what it "
        f"gives is stored by the daemon, after the tick. {of_rounds(len(of))}:"
    )
    rows = [
        [
            alike[0].when,
            _seconds(alike).text(2),
            Spread.of([tick.stored for tick in alike]).text(),
            f"{alike[0].events:,}",
            str(alike[0].runs),
        ]
        for alike in zip(*of, strict=True)
    ]
    return [
        what,
        table(["tick", "seconds", "then stored, s", "events", "runs asked for"], rows),
    ]


def _seconds(of: Sequence[Tick]) -> Spread:
    return Spread.of([tick.seconds for tick in of])


def _about_rates(of: Sequence[Rates], *, paced_rounds: int) -> list[str]:
    most = 64 * CALLS_A_SECOND * PAGE_RECORDS
    less = "" if paced_rounds == ROUNDS else f"; at AWS's pace {of_rounds(paced_rounds).lower()}"
    what = (
        f"Pages of {PAGE_RECORDS} records of 1 KB, {LATENCY_MS} ms latency, 2 processes that do what a task "
        "in Spark does (a task's own process would not let the pace be lifted). AWS paces a shard at "
        f"{CALLS_A_SECOND} calls a second, so that nobody gets more than {most:,} records a second of 64 "
        f"shards of such pages: the target is for the pace lifted. {of_rounds(ROUNDS)}{less}."
    )
    rows = [
        [
            str(each.shards),
            str(each.pages),
            "AWS" if each.paced else "lifted",
            each.rate.text(0),
            f"{each.most:,.0f}",
            f"{each.cpu_us:.1f}",
            f"{each.tasks_cores:.2f}",
            f"{each.server_cores:.2f}",
        ]
        for each in of
    ]
    columns = [
        "shards",
        "pages of each",
        "pace",
        "records/s",
        "the calls allow",
        "CPU us/record",
        "cores busy, tasks",
        "cores busy, server",
    ]
    return [what, table(columns, rows)]


def targets(
    of_idle: Idle, of_wholes: Sequence[Whole], of_ticks: Sequence[Sequence[Tick]], rates: Sequence[Rates]
) -> list[Target]:
    """What it says of the goals."""
    calls = sum(of_idle.calls.values()) / IDLE.shards
    seconds = Spread.of([each.seconds for each in of_wholes])
    phases = _phase_medians(of_wholes)
    slowest = max(zip(*of_ticks, strict=True), key=lambda alike: _seconds(alike).median)
    few, many = ({each.shards: each for each in rates if not each.paced}[shards] for shards in (64, 256))
    ratio = many.rate.median / few.rate.median
    return [
        Target(
            Goal.SMALL_PAGES,
            f"{few.rate.text(0)} with the pace lifted; 64 calls at once allow {few.most:,.0f}; "
            f"{few.cpu_us:.0f} us of CPU each, tasks and server keep "
            f"{few.tasks_cores + few.server_cores:.1f} of {os.cpu_count()} cores busy",
            few.rate.median >= LEAST_RATE,
        ),
        # Not slower than the slowest round of the other is not slower.
        Target(
            Goal.SMALL_PAGES_256,
            f"{many.rate.text(0)}, {ratio:.2f} of it",
            many.rate.median >= few.rate.low,
        ),
        Target(
            Goal.IDLE_SHARD_CPU, f"{of_idle.cpu_ms.text(2)} ms", of_idle.cpu_ms.median <= MOST_IDLE_CPU_MS
        ),
        Target(Goal.IDLE_SHARD_CALLS, f"{calls:.2f}", calls <= MOST_IDLE_CALLS),
        Target(
            Goal.THOUSAND_SHARDS,
            f"{seconds.text()} s with the start of all processes, {phases[PLANNED] + phases[DONE]:.0f} s of "
            f"them Dagster's events; {_most_commits(of_wholes)} commit, {_most_files(of_wholes)} files",
            seconds.median <= MOST_BACKLOG_SECONDS
            and all(each.commits == 1 for each in of_wholes)
            and _most_files(of_wholes) <= MOST_FILES_A_DATE,
        ),
        Target(
            Goal.SENSOR_TICK,
            f"{_seconds(slowest).text()} s, the slowest: {slowest[0].when}; what it gives the daemon then "
            f"stores in {max(tick.stored for round_ in of_ticks for tick in round_):.1f} s at most",
            _seconds(slowest).median <= MOST_TICK_SECONDS,
        ),
    ]
