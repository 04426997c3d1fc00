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
from kinesis_assets.dagster.stream_names import StreamNames
from support.pipeline import SPARK_CONFIG
from support.postgresql import postgresql, storage_on
from support.stream_names import raw_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

SHARDS = [f"shardId-{number:012}" for number in range(100)]
"""`python -m benchmarks scale` does the same with 1,000 shards of 1,000 records each."""

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
            for record in self.instance.get_records_for_run(run_id, of_type=of_type, limit=1000).records:
                event = record.event_log_entry.asset_materialization
                assert event is not None
                assert event.metadata["shard"].value == event.partition
                found[str(event.partition)] += int(str(event.metadata["rows"].value))
        return dict(found)

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
def deployment(source, settings, tmp_path) -> Iterator[Deployment]:
    """The daemon of a stream with one record in each shard. All its processes end with the test."""
    source.create(len(SHARDS))
    for shard_id in SHARDS:
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
def test_busy_shards_land_with_an_event_each_and_idle_ones_request_no_run(deployment, source):
    deployment.wait_until_landed(len(SHARDS))
    first = deployment.runs()
    assert deployment.reported(first) == dict.fromkeys(SHARDS, 1)
    assert deployment.instance.get_materialized_partitions(raw_key(source.name)) == {*SHARDS}

    deployment.wait_for_idle_ticks()
    assert deployment.runs() == first

    busy = SHARDS[::2]
    for shard_id in busy:
        source.put(shard_id, 2)
    deployment.wait_until_landed(len(SHARDS) + 2 * len(busy))
    runs = deployment.runs()
    assert deployment.reported(runs.keys() - first.keys()) == dict.fromkeys(busy, 2)
    assert deployment.rows() == Counter(SHARDS) + Counter(busy * 2)
    assert set(runs.values()) == {dg.DagsterRunStatus.SUCCESS}
