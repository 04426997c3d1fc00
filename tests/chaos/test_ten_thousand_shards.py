"""Plans, loads and commits of 10,000 shards with 50,000 finished ones in the history, bounded by counts.

Not by durations: CPU is counted as calls of functions, those of libraries included.
"""

from __future__ import annotations

import cProfile
import gc
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.data.finished_shards import finish_shards
from benchmarks.data.simulated_stream import SimulatedStream
from kinesis_assets.table.positions.positions_chain import ARCHIVE_FOLDER, POSITIONS_FOLDER
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN, FINISHED = 10_000, 50_000


@dataclass(frozen=True)
class Costs:
    """What a plan and the rest of a run cost.

    Attributes:
        plan: Number of function calls of a plan.
        run: Number of function calls of the rest of the run.
        files_read: Number of files below `_kinesis` that the plan read.
        files_written: Number of positions files and archive segments that the run wrote.
        calls: Calls to Kinesis.
        bytes_written: Size of these files.
    """

    plan: int
    run: int
    files_read: int
    files_written: int
    calls: Counter[str]
    bytes_written: int


def function_calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, without those that delete what earlier tests have left."""
    profile = cProfile.Profile()
    gc.collect()
    gc.disable()
    try:
        profile.runcall(work)
    finally:
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


def costs_of_a_run(stream: SimulatedStream, uri: str) -> Costs:
    """Plan and execute a run as a new process does."""
    before = stored(uri)
    stream.calls.clear()
    table, plans = PositionedTable(uri), []
    planned = function_calls(lambda: plans.append(stream.plan(table)))
    files_read = table.chain.files_read
    run = function_calls(lambda: stream.execute(table, plans[0]))
    new = {path: size for path, size in stored(uri).items() if path not in before}
    return Costs(planned, run, files_read, len(new), Counter(stream.calls), sum(new.values()))


def stored(uri: str) -> dict[Path, int]:
    folders = [Path(uri, folder) for folder in (POSITIONS_FOLDER, ARCHIVE_FOLDER)]
    return {path: path.stat().st_size for folder in folders for path in folder.glob("*.json")}


@pytest.fixture(scope="module")
def costs(tmp_path_factory, environment):
    """The costs of a run over 1,000 shards, over 10,000, and over these with 50,000 finished ones.

    Before each run, shards are archived, if only one, and there is one commit since.
    """
    del environment
    found = []
    for shards, histories in ((OPEN // 10, [1]), (OPEN, [1, FINISHED])):
        stream, uri = SimulatedStream(shards), str(tmp_path_factory.mktemp("scale") / "table")
        stream.run(PositionedTable(uri))
        for finished in histories:
            finish_shards(
                uri, stream.describe().identity, finished, archived=True, segment_shards=FINISHED // 4
            )
            stream.run(PositionedTable(uri))
            found.append(costs_of_a_run(stream, uri))
    return found


def test_the_work_for_a_shard_does_not_grow_with_their_number(costs):
    thousand, ten_thousand, _ = costs
    assert ten_thousand.plan < 10.5 * thousand.plan
    assert ten_thousand.run < 10.5 * thousand.run


def test_a_plan_and_a_run_call_few_functions_for_a_shard(costs):
    _, ten_thousand, _ = costs
    assert ten_thousand.plan / OPEN < 120
    assert ten_thousand.run / OPEN < 280


def test_finished_shards_add_nothing_to_a_plan_and_a_run(costs):
    _, without, with_history = costs
    # Not even one call for each of them; the counts differ a little from run to run.
    assert with_history.plan - without.plan < FINISHED / 2
    assert with_history.run - without.run < FINISHED / 2
    assert with_history.calls == without.calls
    assert with_history.bytes_written < 1.1 * without.bytes_written


def test_the_calls_to_kinesis_are_those_of_the_open_shards(costs):
    for measured, shards in zip(costs, (OPEN // 10, OPEN, OPEN), strict=True):
        assert measured.calls == {
            "DescribeStreamSummary": 2,
            "ListShards": shards // 1000,
            "GetShardIterator": shards,
            "GetRecords": shards,
        }


def test_a_plan_reads_two_files_and_a_run_writes_one(costs):
    assert {(measured.files_read, measured.files_written) for measured in costs} == {(2, 1)}
