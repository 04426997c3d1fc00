"""The contract's first five lines, each on a real stream over HTTP, real Spark and a real Delta table."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.sections.fairness import commits_of_each
from benchmarks.servers.slow_bucket import slow_bucket
from kinesis_assets.ingest import run as run_module
from kinesis_assets.ingest.plan import plan_run
from kinesis_assets.table.commit import commit
from support.pipeline import SPARK_CONFIG, Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.table.table import PositionedTable

HERE = Path(__file__).parent


def killed_at(point: str, pipeline: Pipeline) -> None:
    """A run in a process of its own that dies at a point."""
    command = [sys.executable, str(HERE / "killed_run.py"), point, *pipeline.command()]
    done = subprocess.run(command, check=False, capture_output=True, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


# 1. Together or not at all.


def test_rows_and_positions_move_together_step_by_step(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(1_000)
    for _ in range(3):
        pipeline.materialize(max_records=100)
        pipeline.assert_rows_equal_positions()


def test_a_killed_run_has_moved_nothing_before_its_commit(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(200)
    killed_at("before commit", pipeline)
    assert list(Path(pipeline.table.uri).glob("arrival_date=*/*.parquet"))  # it had landed
    assert pipeline.stored == []
    pipeline.assert_rows_equal_positions()


# 2. Once.


@pytest.mark.parametrize("point", ["before freeze", "after freeze", "before commit", "after commit"])
def test_the_run_after_a_sigkill_leaves_each_record_exactly_once(pipeline: Pipeline, point: str) -> None:
    pipeline.create(2)
    pipeline.put_many(300)
    killed_at(point, pipeline)
    pipeline.put_many(300)
    facts = pipeline.materialize()
    assert {fact["state"] for fact in facts.values()} == {"committed"}
    pipeline.assert_exactly_once()


def test_running_again_with_nothing_new_adds_nothing(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(300)
    for _ in range(3):
        pipeline.materialize()
    pipeline.assert_exactly_once()


# 3. One winner.


class Racer:
    """A process that lands one shard's range and waits before its commit."""

    def __init__(self, pipeline: Pipeline, shard_id: str) -> None:
        project = {
            "stream": pipeline.stream,
            "table": pipeline.table.uri,
            "endpoint_url": pipeline.settings.endpoint_url,
            "spark_config": SPARK_CONFIG,
        }
        argument = json.dumps({"project": project, "shard": shard_id})
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "racing_run.py"), argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def go(self) -> None:
        assert self.process.stdin is not None
        print("go", file=self.process.stdin, flush=True)

    def told(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def racers(pipeline: Pipeline) -> Iterator[tuple[Racer, Racer]]:
    """Two processes on the first shard of a stream."""
    pipeline.create(1)
    shard_id = next(iter(pipeline.listed()))
    both = (Racer(pipeline, shard_id), Racer(pipeline, shard_id))
    assert [racer.told() for racer in both] == ["ready", "ready"]
    yield both
    for racer in both:
        racer.process.communicate(timeout=60)


def test_of_two_processes_on_one_shard_one_commits_and_the_other_reports_a_conflict(
    pipeline: Pipeline, racers: tuple[Racer, Racer]
) -> None:
    for _ in range(20):
        pipeline.put_many(50)
        for racer in racers:
            racer.go()
        assert [racer.told() for racer in racers] == ["landed", "landed"]
        for racer in racers:
            racer.go()
        facts = [fact for racer in racers for fact in json.loads(racer.told())]
        assert sorted(fact["state"] for fact in facts) == ["committed", "conflict"]
        assert sorted(fact["rows"] for fact in facts) == [0, 50]
        pipeline.assert_exactly_once()


def test_one_shard_of_64_overtaken_leaves_the_other_63_committed(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.create(64)
    pipeline.put_many(2_000)
    overtaken = list(pipeline.listed())[17]

    def after_another_run(*positional: Any, **named: Any) -> Any:
        monkeypatch.setattr(run_module, "commit", commit)
        pipeline.materialize([overtaken])
        return commit(*positional, **named)

    monkeypatch.setattr(run_module, "commit", after_another_run)
    facts = pipeline.materialize()
    states = {shard_id: fact["state"] for shard_id, fact in facts.items()}
    assert states.pop(overtaken) == "conflict"
    assert set(states.values()) == {"committed"}
    assert len(states) == 63
    pipeline.assert_exactly_once()


@pytest.mark.usefixtures("environment")
def test_of_three_runs_on_different_shards_over_a_slow_store_none_starves() -> None:
    # With ten runs: tests/chaos/test_contention.py.
    with slow_bucket(0.02) as bucket:
        commits = commits_of_each(f"{bucket}/table", writers=3, commits=18)
    assert sum(commits) == 18
    assert min(commits) > 0, commits


def test_a_child_read_on_the_ground_of_a_parents_end_that_was_overtaken_adds_nothing(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.create(1)
    pipeline.put_many(200)
    parent = next(iter(pipeline.listed()))
    pipeline.split(parent)
    pipeline.put_many(200)

    def after_another_run(*positional: Any, **named: Any) -> Any:
        monkeypatch.setattr(run_module, "commit", commit)
        pipeline.materialize([parent], max_records=10)
        return commit(*positional, **named)

    monkeypatch.setattr(run_module, "commit", after_another_run)
    facts = pipeline.materialize()
    assert {fact["state"] for fact in facts.values()} == {"conflict"}
    assert {shard_id for shard_id, _, _ in pipeline.stored} == {parent}
    pipeline.materialize()
    pipeline.assert_exactly_once()


# 4. Parents first.


def test_split_and_merge_with_unread_parents_are_read_parents_first_in_one_run(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(3)
    pipeline.put_many(300)
    first, second, third = pipeline.listed()
    pipeline.split(first)
    pipeline.merge(second, third)
    pipeline.put_many(300)
    faults.clear()
    facts = pipeline.materialize()
    read = [call.shard_id for call in faults.calls if call.operation == "GetRecords"]
    children = [shard_id for shard_id in facts if shard_id not in (first, second, third)]
    assert len(children) == 3
    last_of_parents = max(len(read) - read[::-1].index(parent) for parent in (first, second, third))
    assert all(read.index(child) >= last_of_parents for child in children)
    assert {facts[parent]["state"] for parent in (first, second, third)} == {"finished"}
    pipeline.assert_exactly_once()


def test_a_child_waits_while_its_parent_is_not_read_to_its_end(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    pipeline.put_many(200)
    parent = next(iter(pipeline.listed()))
    pipeline.split(parent)
    pipeline.put_many(100)
    faults.clear()
    facts = pipeline.materialize(max_records=150)
    children = [shard_id for shard_id in facts if shard_id != parent]
    assert [facts[child]["state"] for child in children] == ["waiting", "waiting"]
    assert [faults.count("GetRecords", child) for child in children] == [0, 0]
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_child_asked_for_alone_waits_for_its_unread_parent(pipeline: Pipeline) -> None:
    pipeline.create(1)
    pipeline.put_many(100)
    parent = next(iter(pipeline.listed()))
    pipeline.split(parent)
    pipeline.put_many(100)
    child = list(pipeline.listed())[1]
    facts = pipeline.materialize([child])
    assert facts[child]["state"] == "waiting"
    assert parent in facts[child]["error"]
    assert pipeline.stored == []


def test_a_finished_shard_is_never_read_again(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(1)
    pipeline.put_many(100)
    parent = next(iter(pipeline.listed()))
    pipeline.split(parent)
    assert pipeline.materialize()[parent]["state"] == "finished"
    faults.clear()
    facts = pipeline.materialize()
    assert facts[parent]["state"] == "finished"
    assert faults.count("GetRecords", parent) == faults.count("GetShardIterator", parent) == 0


# 5. Edges.


def test_every_listed_shard_is_frozen_before_anything_is_read(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(3)
    first, second, third = pipeline.listed()
    faults.clear()
    pipeline.materialize([first], start="LATEST")
    shards = pipeline.positions.shards
    assert set(shards) == {first, second, third}
    assert shards[second].position == shards[third].position
    assert shards[second].position.kind == "AT_TIMESTAMP"
    asked = [call.shard_id for call in faults.calls if call.operation == "GetShardIterator"]
    assert asked == [first]


def test_latest_then_an_aborted_run_then_records_lands_them_all(pipeline: Pipeline) -> None:
    pipeline.create(2)
    project = pipeline.project(start="LATEST")
    with project.open_stream() as opened:  # a run that plans, and dies before it reads
        asked = list(pipeline.listed())
        plan_run(opened.client, opened.table, asked=asked, policy=opened.policy)
    pipeline.put_many(100)
    pipeline.materialize(start="LATEST")
    pipeline.assert_exactly_once()


def test_shard_a_today_and_shard_b_later_skips_nothing_of_b(pipeline: Pipeline) -> None:
    pipeline.create(2)
    first, second = pipeline.listed()
    pipeline.materialize([first], start="LATEST")
    pipeline.put_many(100)
    pipeline.materialize([first], start="LATEST")
    pipeline.put_many(100)
    pipeline.materialize([second], start="LATEST")
    pipeline.materialize([first])
    pipeline.assert_exactly_once()


def test_a_shard_listed_later_is_read_from_its_beginning_whatever_the_start(pipeline: Pipeline) -> None:
    pipeline.create(1)
    parent = next(iter(pipeline.listed()))
    pipeline.materialize(start="LATEST")
    pipeline.split(parent)
    pipeline.put_many(200)
    pipeline.materialize(start="LATEST")
    pipeline.assert_exactly_once()


def test_an_empty_read_leaves_the_sequence_number_where_it_was(pipeline: Pipeline) -> None:
    pipeline.create(1)
    shard_id = next(iter(pipeline.listed()))
    pipeline.put_many(100)
    pipeline.materialize()
    before = pipeline.positions.shards[shard_id].position
    facts = pipeline.materialize()
    assert facts[shard_id]["rows"] == 0
    assert pipeline.positions.shards[shard_id].position == before


def test_an_explicit_start_is_inclusive(clocked: Any, table: PositionedTable, spark: Any) -> None:
    del spark
    pipeline = Pipeline(clocked.kinesis, clocked.settings, "orders", table, clocked.clock)
    pipeline.create(1)
    for _ in range(3):
        clocked.clock.seconds += 0.001
        pipeline.put_many(1)
    third = datetime.fromtimestamp(clocked.clock.seconds, UTC).isoformat(timespec="milliseconds")
    pipeline.materialize(start=f"AT_TIMESTAMP:{third}")
    assert pipeline.stored == pipeline.acknowledged[2:]
