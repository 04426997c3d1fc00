"""What a day of an idle stream costs: its runs and events, and their size in Dagster's databases on SQLite.

The time of a day passes at once, but ticks and runs are those of Dagster. `pytest -s` prints the figures.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.scale_table import IDLE, values
from kinesis_assets.dagster.stream_names import StreamNames
from support.fixtures.dagster import Source
from support.shard_ids import A, B, C, D, E, F, G, H
from support.stream_names import raw_key
from support.virtual_deployment import INTERVAL, VirtualDeployment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import dagster as dg

    from kinesis_assets.dagster.stream_project import StreamProject
    from support.daemon import Status
    from support.fixtures.stream import Clocked

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("spark")]

DAY = 24 * 3600
MAX_BYTES = 1_000_000


class Deployment(VirtualDeployment):
    """A deployment whose runs Dagster executes, and whose machines have the service's clock."""

    def __init__(self, project: StreamProject, instance: dg.DagsterInstance, clocked: Clocked) -> None:
        super().__init__(project, instance, clocked.clock)
        self.daemon.clock = clocked.clock
        self._instance = instance
        self._definitions = project.definitions
        self._stream = project.stream

    def maintain(self) -> None:
        """Run the maintenance job, as its schedule does once a day."""
        job = self._definitions.resolve_job_def(StreamNames(self._stream).job("maintenance"))
        assert job.execute_in_process(instance=self._instance).success

    def _run(self, tags: dict[str, str], shard_ids: Sequence[str], status: Status) -> None:
        del shard_ids, status
        job = self._definitions.resolve_implicit_global_asset_job_def()
        key = raw_key(self._stream)
        assert job.execute_in_process(instance=self._instance, tags=tags, asset_selection=[key]).success


@pytest.fixture
def source(clocked: Clocked, stream: str) -> Source:
    """The test's stream. The time of the service is that of this machine when the day is over."""
    clocked.clock.advance(-DAY)
    return Source(clocked.kinesis, stream)


@pytest.fixture
def deployment(make_project, home: dg.DagsterInstance, clocked: Clocked) -> Deployment:
    return Deployment(make_project(endpoint_url=clocked.settings.endpoint_url), home, clocked)


def bytes_of_rows(instance: dg.DagsterInstance) -> int:
    """Return the size of all rows in the databases of an instance, as text."""
    return sum(_bytes_in(path) for path in Path(instance.root_directory).rglob("*.db"))


def _bytes_in(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return sum(len(line.encode()) for line in database.iterdump() if line.startswith("INSERT"))


def number_of_events(instance: dg.DagsterInstance, stream: str) -> int:
    """Return the number of events of all runs, and of those about the whole stream outside of runs."""
    of_runs = sum(len(instance.get_records_for_run(run.run_id).records) for run in instance.get_runs())
    records = instance.fetch_materializations(StreamNames(stream).stream_key, limit=1000).records
    return of_runs + sum(record.partition_key is None for record in records)


def two_shards(source: Source, deployment: Deployment) -> None:
    """Read two shards that never have a record."""
    source.create(2)
    deployment.tick()


def split_shards(source: Source, deployment: Deployment) -> None:
    """Read four shards, and then the children of two of them; the parents stay listed for a day."""
    source.create(4)
    deployment.tick()
    source.split(B)
    source.split(D)
    deployment.pass_time(3 * INTERVAL)
    positions = deployment.daemon.positions.shards
    assert {shard_id for shard_id, shard in positions.items() if shard.finished} == {B, D}


@pytest.mark.parametrize(
    ("prepare", "shard_ids"),
    [
        pytest.param(two_shards, (A, B), id="two open shards"),
        pytest.param(split_shards, (A, B, C, D, E, F, G, H), id="finished parents between open shards"),
    ],
)
def test_a_day_of_an_idle_stream_costs_what_the_page_about_scale_says_and_at_most_1_mb(
    source, deployment, home, prepare: Callable[..., None], shard_ids
):
    prepare(source, deployment)
    deployment.interval = 900  # runs and observations are hours apart
    runs, rows, events = len(home.get_runs()), bytes_of_rows(home), number_of_events(home, source.name)

    idle_runs = deployment.pass_time(DAY)
    found = {"runs": len(idle_runs), "day_events": number_of_events(home, source.name) - events}
    deployment.maintain()

    new_runs = len(home.get_runs()) - runs
    new_bytes = bytes_of_rows(home) - rows
    print(f"{len(shard_ids)} partitions: {new_runs} runs, {new_bytes:,} bytes")  # noqa: T201  # see docs/cost.md
    assert {shards for _, shards in idle_runs} == {shard_ids}
    assert new_runs == len(idle_runs) + 1
    page = values(len(shard_ids), day=IDLE)
    assert found == pytest.approx({name: page[name] for name in found}, rel=0.25)
    assert new_bytes <= MAX_BYTES
