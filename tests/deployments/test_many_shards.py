"""Dagster's daemon, the sensor and its runs over many shards, with Dagster's storage in PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from benchmarks.harness.waiting import wait_until
from benchmarks.servers.postgresql import storage_on
from docs.scale_table import values
from kinesis_assets.dagster.events.metadata import exact_values
from kinesis_assets.dagster.stream_names import StreamNames
from support.pipeline import SPARK_CONFIG
from support.postgresql import postgresql
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

pytestmark = pytest.mark.thorough

MANY = int(os.environ.get("SHARDS", "100"))
"""`make shards` tests the same with 1,000, and `python -m benchmarks scale` measures it."""

IDLE_TICKS = 3

DEFINITIONS = """
import dagster as dg
from kinesis_assets import build_kinesis_stream

defs = dg.Definitions.merge(
    build_kinesis_stream(
        {stream!r}, table={table!r}, endpoint_url={url!r}, sensor_interval_seconds=1, spark_config={spark!r}
    ),
    dg.Definitions(executor=dg.in_process_executor),
)
"""
SETTINGS = """
telemetry: {enabled: false}
run_queue: {dequeue_interval_seconds: 1}
"""


class Deployment:
    """A daemon with one stream, whose runs it launches.

    Attributes:
        instance: The instance of the daemon.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], log: Path, instance: dg.DagsterInstance, stream: str
    ) -> None:
        self.instance = instance
        self._process = process
        self._log = log
        self._stream = stream
        self._table = log.parent / "table"

    def wait_until_landed(self, rows: int) -> None:
        """Wait until the table has some number of rows and all runs have ended."""
        wait_until(lambda: self.rows().total() >= rows, self._process, failure=self._log)
        wait_until(
            lambda: all(run.is_finished for run in self.instance.get_runs()), self._process, failure=self._log
        )

    def rows(self) -> Counter[str]:
        """Return the number of rows in the table by shard id."""
        if not DeltaTable.is_deltatable(str(self._table)):
            return Counter()
        return Counter(DeltaTable(self._table).to_pyarrow_table(columns=["shard_id"])["shard_id"].to_pylist())

    def runs(self) -> dict[str, dg.DagsterRunStatus]:
        """Return the status of each run by its id."""
        return {run.run_id: run.status for run in self.instance.get_runs()}

    def reported(self, run_ids: Collection[str]) -> dict[str, int]:
        """Return the rows that materializations of some runs report, by shard id."""
        of_type = dg.DagsterEventType.ASSET_MATERIALIZATION
        found: Counter[str] = Counter()
        for run_id in run_ids:
            for record in self.instance.get_records_for_run(run_id, of_type=of_type).records:
                event = record.event_log_entry.asset_materialization
                assert event is not None
                if event.partition is None:  # the totals
                    continue
                exact = exact_values(event)
                assert exact["shard"] == event.partition
                found[str(event.partition)] += exact["rows"]
        return dict(found)

    def events(self, run_id: str) -> int:
        """Return the number of events that Dagster stored for a run."""
        found, cursor, more = 0, None, True
        while more:
            page = self.instance.get_records_for_run(run_id, cursor, limit=1000)
            found, cursor, more = found + len(page.records), page.cursor, page.has_more
        return found

    def wait_for_idle_ticks(self) -> None:
        """Wait for some ticks of the sensor that start from now on and request nothing."""
        (state,) = (
            state
            for state in self.instance.all_instigator_state()
            if state.instigator_name == StreamNames(self._stream).sensor
        )
        known = {tick.tick_id for tick in self._ticks(state)}

        def enough() -> bool:
            new = [tick for tick in self._ticks(state) if tick.tick_id not in known and tick.is_completed]
            assert not any(tick.run_ids for tick in new), new
            return len(new) >= IDLE_TICKS

        wait_until(enough, self._process, failure=self._log)

    def _ticks(self, state):
        return self.instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=100)


@pytest.fixture
def shard_ids() -> list[str]:
    return [f"shardId-{number:012}" for number in range(MANY)]


@pytest.fixture
def deployment(source, settings, shard_ids, tmp_path) -> Iterator[Deployment]:
    """The daemon of a stream with one record in each shard. All its processes end with the test."""
    source.create(len(shard_ids))
    for shard_id in shard_ids:
        source.put(shard_id, 1)
    code, log = tmp_path / "many_shards.py", tmp_path / "log"
    place = {"stream": source.name, "table": str(tmp_path / "table"), "url": settings.endpoint_url}
    code.write_text(DEFINITIONS.format(**place, spark=SPARK_CONFIG))
    with postgresql() as port:
        (tmp_path / "dagster.yaml").write_text(storage_on(port) + SETTINGS)
        with (
            dg.DagsterInstance.from_config(str(tmp_path)) as instance,
            log.open("wb") as output,
            subprocess.Popen(
                [sys.executable, "-m", "dagster._daemon", "run", "-f", str(code)],
                env=os.environ | {"DAGSTER_HOME": str(tmp_path)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield Deployment(process, log, instance, source.name)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.usefixtures("environment")
def test_busy_shards_land_with_an_event_each_and_idle_ones_request_no_run(deployment, source, shard_ids):
    deployment.wait_until_landed(len(shard_ids))
    first = deployment.runs()
    (run_id,) = first
    assert deployment.events(run_id) == pytest.approx(values(len(shard_ids))["events"], rel=0.25)
    assert deployment.reported(first) == dict.fromkeys(shard_ids, 1)
    assert deployment.instance.get_materialized_partitions(raw_key(source.name)) == {*shard_ids}

    deployment.wait_for_idle_ticks()
    assert deployment.runs() == first

    busy = shard_ids[::2]
    for shard_id in busy:
        source.put(shard_id, 2)
    deployment.wait_until_landed(len(shard_ids) + 2 * len(busy))
    runs = deployment.runs()
    assert deployment.reported(runs.keys() - first.keys()) == dict.fromkeys(busy, 2)
    assert deployment.rows() == Counter(shard_ids) + Counter(busy * 2)
    assert set(runs.values()) == {dg.DagsterRunStatus.SUCCESS}
