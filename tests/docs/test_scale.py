"""The days of docs/scale.md agree with simulations in which the time passes at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.data.simulated_stream import STREAM, SimulatedStream
from benchmarks.servers.bucket import bucket
from benchmarks.servers.request_log import RequestLog
from docs.scale_table import CONTINUOUS, IDLE, RUNS, TASKS, values
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.store.storage import files_in
from support.fixtures.dagster import Source
from support.shard_ids import A, B, C
from support.simulated_deployment import SimulatedDeployment
from support.virtual_deployment import INTERVAL, VirtualDeployment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import dagster as dg

    from kinesis_assets.table.snapshot import TableSnapshot
    from kinesis_assets.testing import Faults
    from support.fixtures.dagster import MakeProject
    from support.fixtures.stream import Clocked

    Simulate = Callable[..., SimulatedDeployment]

pytestmark = pytest.mark.thorough

HOUR = 3600
DAY = 24 * HOUR
ABOUT = 0.25
IDS = A, B, C


@pytest.fixture
def simulate(instance_in_memory: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """Builds the deployment of a simulated stream with a table that has one commit, and continuous runs."""

    def simulate(table: str, shards: int, seconds: float) -> SimulatedDeployment:
        stream = SimulatedStream(shards, TASKS)
        project = StreamProject.from_settings(
            stream=STREAM, table=table, follow_for=seconds, commit_interval=10
        )
        deployment = SimulatedDeployment(project, instance_in_memory, stream, monkeypatch)
        deployment.tick()
        stream.run(deployment.opened.table)
        stream.calls.clear()
        stream.tasks = deployment.ticks = 0
        return deployment

    return simulate


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[PositionedTable]:
    """The tables that are opened, in order."""
    found: list[PositionedTable] = []
    snapshot = PositionedTable.snapshot

    def counted(table: PositionedTable) -> TableSnapshot:
        found.append(table)
        return snapshot(table)

    monkeypatch.setattr(PositionedTable, "snapshot", counted)
    return found


@pytest.fixture
def source(clocked: Clocked, stream: str) -> Source:
    """A stream with three shards, in which the time is that of the deployment."""
    source = Source(clocked.kinesis, stream)
    source.create(len(IDS))
    return source


@pytest.fixture
def deployment(
    make_project: MakeProject, instance_in_memory: dg.DagsterInstance, clocked: Clocked, source: Source
) -> VirtualDeployment:
    """The deployment of that stream, of which all shards have been read to their tips."""
    del source  # it exists now
    project = make_project(endpoint_url=clocked.settings.endpoint_url)
    deployment = VirtualDeployment(project, instance_in_memory, clocked.clock)
    assert deployment.tick() == [IDS]
    return deployment


@pytest.mark.parametrize("shards", [1, 10])
def test_twenty_minutes_of_a_continuous_run_are_a_72nd_of_the_day(
    simulate: Simulate, opened: list[PositionedTable], shards: int, tmp_path: Path
) -> None:
    seconds = HOUR // 3
    deployment = simulate(str(tmp_path), shards, seconds)
    stream, table = deployment.stream, deployment.opened.table
    version, positions = table.snapshot().version, bytes_of_positions(table)
    opened.clear()

    deployment.run(seconds)

    opens = len(opened)
    commits = table.snapshot().version - version
    found = {
        "commits": commits,
        "ticks": deployment.ticks,
        "lists": stream.calls["ListShards"],
        "opens": opens - 2 * commits,  # a commit opens it for its plan and for itself
        "day_calls": stream.calls.total(),
        "day_tasks": stream.tasks,
        "day_events": deployment.events(),
        "megabytes": (bytes_of_positions(table) - positions) / 1e6,
    }
    page = values(shards, day=CONTINUOUS)
    assert found == pytest.approx({name: page[name] * seconds / DAY for name in found}, rel=ABOUT)


def test_the_requests_of_ten_minutes_of_a_continuous_run_are_a_144th_of_the_day(
    simulate: Simulate, tmp_path: Path
) -> None:
    seconds, shards = 600, 10
    with bucket(tmp_path / "requests") as uri:
        log = RequestLog(tmp_path / "requests")
        deployment = simulate(f"{uri}/raw", shards, seconds)
        log.take()
        deployment.run(seconds)
        requests = log.take()
    found = {
        "puts": requests.put + requests.list,
        "gets": requests.get + requests.head,
        "dollars": requests.dollars,
    }
    page = values(shards, day=CONTINUOUS)
    assert found == pytest.approx({name: page[name] * seconds / DAY for name in found}, rel=ABOUT)


def test_six_hours_with_a_run_every_five_minutes_are_a_quarter_of_the_day(
    deployment: VirtualDeployment, source: Source, faults: Faults
) -> None:
    table = deployment.daemon.opened.table
    version, calls, runs = table.snapshot().version, 0, 0
    for _ in range(DAY // 4 // INTERVAL):
        for shard_id in IDS:
            source.put(shard_id, 1)
        faults.clear()
        runs += len(deployment.pass_time(INTERVAL))
        calls += len(faults.calls)
    assert table.snapshot().version - version == runs
    page = values(len(IDS), tasks=1, day=RUNS)
    found = {"runs": runs, "day_calls": calls, "day_tasks": len(table.snapshot().data_files())}
    assert found == pytest.approx({name: page[name] / 4 for name in found}, rel=ABOUT)


def test_four_hours_without_records_are_a_sixth_of_the_day(
    deployment: VirtualDeployment, faults: Faults
) -> None:
    deployment.interval = HOUR
    deployment.pass_time(DAY)
    deployment.interval = 30
    faults.clear()
    runs = deployment.pass_time(DAY // 6)
    page = values(len(IDS), day=IDLE)
    found = {"runs": len(runs), "day_calls": len(faults.calls)}
    assert found == pytest.approx({name: page[name] / 6 for name in found}, rel=ABOUT)


def bytes_of_positions(table: PositionedTable) -> int:
    """Return the size of all positions files."""
    return sum(info.size for info in files_in(table.files, POSITIONS_FOLDER))
