"""Line 3 of the contract: of two runs on one shard, one commits it, and the other adds none of its rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.sections.fairness import commits_of_each
from benchmarks.servers.slow_bucket import slow_bucket
from kinesis_assets.ingest import run as run_module
from kinesis_assets.table.commit import commit
from support.fixtures.gateway import on_each_store
from support.fixtures.spark import SPARK
from support.pipeline import spark_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.pipeline import Pipeline

RACING_RUN = Path(__file__).with_name("racing_run.py")


class Racer:
    """A process that writes one shard's rows and waits before its commit: see `racing_run.py`."""

    def __init__(self, pipeline: Pipeline, shard_id: str) -> None:
        project = {
            "stream": pipeline.stream,
            "table": pipeline.table.uri,
            "endpoint_url": pipeline.settings.endpoint_url,
            **spark_fields(),
        }
        argument = json.dumps({"project": project, "shard": shard_id})
        self.process = subprocess.Popen(
            [sys.executable, str(RACING_RUN), argument],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def proceed(self) -> None:
        """Let the process go on to its next step."""
        assert self.process.stdin is not None
        print("proceed", file=self.process.stdin, flush=True)

    def read_line(self) -> str:
        """Return the next line that the process writes."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def racers(pipeline: Pipeline) -> Iterator[tuple[Racer, Racer]]:
    """Two processes on the only shard of a stream."""
    (shard_id,) = pipeline.create(1)
    both = (Racer(pipeline, shard_id), Racer(pipeline, shard_id))
    assert [racer.read_line() for racer in both] == ["started", "started"]
    yield both
    for racer in both:
        racer.process.communicate(timeout=300)


@pytest.fixture
def overtake(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes another run commit a shard right before the next commit of the test's own run."""

    def before_next_commit(shard_id: str, **settings: Any) -> None:
        def overtaken_commit(*positional: Any, **named: Any) -> Any:
            monkeypatch.setattr(run_module, "commit", commit)
            pipeline.materialize([shard_id], **settings)
            return commit(*positional, **named)

        monkeypatch.setattr(run_module, "commit", overtaken_commit)

    return before_next_commit


@pytest.mark.any_spark
@on_each_store
def test_of_two_processes_on_one_shard_one_commits_and_the_other_reports_a_conflict(
    pipeline: Pipeline, racers: tuple[Racer, Racer]
) -> None:
    for _ in range(20 if SPARK == "local" else 3):
        pipeline.put_many(50)
        for racer in racers:
            racer.proceed()
        assert [racer.read_line() for racer in racers] == ["ready to commit", "ready to commit"]
        for racer in racers:
            racer.proceed()
        events = [event for racer in racers for event in json.loads(racer.read_line())]
        assert sorted(event["state"] for event in events) == ["committed", "conflict"]
        assert sorted(event["rows"] for event in events) == [0, 50]
        pipeline.assert_exactly_once()


@pytest.mark.any_spark
@on_each_store
def test_a_conflict_on_one_of_64_shards_leaves_the_other_63_committed(
    pipeline: Pipeline, overtake: Callable[..., None]
) -> None:
    overtaken = pipeline.create(64)[17]
    pipeline.put_many(2_000)
    overtake(overtaken)
    events = pipeline.materialize()
    states = {shard_id: event["state"] for shard_id, event in events.items()}
    assert states.pop(overtaken) == "conflict"
    assert set(states.values()) == {"committed"}
    assert len(states) == 63
    pipeline.assert_exactly_once()


@pytest.mark.usefixtures("environment")
def test_none_of_three_runs_on_different_shards_starves_on_a_slow_store() -> None:
    # tests/chaos/test_contention.py does the same with ten runs.
    with slow_bucket(0.02) as bucket:
        commits = commits_of_each(f"{bucket}/table", writers=3, commits=18)
    assert sum(commits) == 18
    assert min(commits) > 0, commits


@pytest.mark.any_spark
@on_each_store
def test_a_child_adds_nothing_if_another_run_commits_its_parent_first(
    pipeline: Pipeline, overtake: Callable[..., None]
) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(200)
    pipeline.split(parent)
    pipeline.put_many(200)
    overtake(parent, max_records=10)
    events = pipeline.materialize()
    assert {event["state"] for event in events.values()} == {"conflict"}
    assert {shard_id for shard_id, _, _ in pipeline.stored} == {parent}
    pipeline.materialize()
    pipeline.assert_exactly_once()
