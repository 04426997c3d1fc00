"""Line 3 of the contract: of two runs on one shard, one commits it, and the other adds none of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.ingest import run as run_module
from kinesis_assets.table.commits.commit import commit
from support.process_clock import MACHINE_CLOCK
from support.racer import Racer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.pipeline import Pipeline

pytestmark = pytest.mark.any_format


@pytest.fixture
def racers(pipeline: Pipeline) -> Iterator[tuple[Racer, Racer]]:
    """Two processes. If the table is in a bucket, their clocks differ."""
    del pipeline  # they inherit its environment
    first, second = Racer(), Racer(variables=MACHINE_CLOCK)
    with first, second:
        yield first, second


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


def test_of_two_processes_on_one_shard_one_commits_and_the_other_reports_a_conflict(
    pipeline: Pipeline, racers: tuple[Racer, Racer]
) -> None:
    shards = pipeline.create(1)
    for _ in range(5):
        pipeline.put_many(50)
        for racer in racers:
            racer.start(pipeline, shards)
        for racer in racers:
            racer.wait_until_ready()
        for racer in racers:
            racer.commit()
        events = [event for racer in racers for event in racer.events()]
        assert sorted(event["state"] for event in events) == ["committed", "conflict"]
        assert sorted(event["rows"] for event in events) == [0, 50]
        pipeline.assert_exactly_once()


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
