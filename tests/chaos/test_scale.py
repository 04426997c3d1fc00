"""The formulas of docs/scale.md agree with a simulation of up to 10,000 shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.data.simulated_stream import SimulatedStream
from benchmarks.data.tip_commits import commit_tip
from benchmarks.servers.bucket import bucket
from benchmarks.servers.request_log import RequestLog
from docs.scale_table import SHARDS, TASKS, values
from kinesis_assets.table.maintenance.delta_operations import DeltaOperations
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.store.storage import files_in

if TYPE_CHECKING:
    from pathlib import Path

BEFORE, RUNS = 6, 6
"""Numbers of commits between the newest checkpoint and the measured runs, and of these runs. Thus there are
about as many commits since the checkpoint as on average."""


@pytest.mark.parametrize("shards", [*SHARDS[:-1], pytest.param(SHARDS[-1], marks=pytest.mark.thorough)])
def test_the_formulas_agree_with_a_simulation(shards: int, tmp_path: Path) -> None:
    with bucket(tmp_path / "requests") as uri:
        log = RequestLog(tmp_path / "requests")
        stream, table = SimulatedStream(shards, TASKS), PositionedTable(f"{uri}/raw")
        stream.run(table)
        DeltaOperations(table).checkpoint()
        listing = stream.listing()
        for _ in range(BEFORE):
            commit_tip(table, listing)
        snapshot = table.snapshot()
        version, data_files, positions = snapshot.version, len(snapshot.data_files()), sizes(table)
        stream.calls.clear()
        stream.tasks = 0
        log.take()
        for _ in range(RUNS):
            assert not stream.run(table).errors
        requests = log.take()
        snapshot = table.snapshot()
        assert snapshot.version == version + RUNS
        found = {
            "calls": stream.calls.total(),
            "tasks": stream.tasks,
            "positions": sum(size for path, size in sizes(table).items() if path not in positions),
            "commit_puts": requests.put + requests.list,
            "commit_gets": requests.get + requests.head,
        }
        assert len(snapshot.data_files()) - data_files == found["tasks"]
    page = values(shards)
    expected = {name: RUNS * page[name] for name in found}
    assert found == pytest.approx(expected, rel=0.25)


def sizes(table: PositionedTable) -> dict[str, int]:
    """Return the size of each positions file, by its path."""
    return {info.path: info.size for info in files_in(table.files, POSITIONS_FOLDER)}
