"""Line 9 of the contract: a past range can be read again without moving positions or adding duplicates."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from kinesis_assets.dagster.stream_project import run_replay
from kinesis_assets.table.positions.positions_chain import POSITIONS_FOLDER
from support.continuous_runs import for_runs_in_threads
from support.formats import delete

if TYPE_CHECKING:
    from support.pipeline import Pipeline

pytestmark = pytest.mark.any_format


def positions_file(pipeline: Pipeline) -> bytes:
    """Return the content of the positions file that the table's log names."""
    path = f"{POSITIONS_FOLDER}/{pipeline.positions.commit_id}.json"
    with pipeline.table.files.open_input_file(path) as source:
        content: bytes = source.read()
    return content


def delete_every(pipeline: Pipeline, step: int) -> int:
    """Delete every `step`-th record from the table, as an accident would, and return how many."""
    numbers = [number for _, number, _ in pipeline.acknowledged[::step]]
    quoted = ", ".join(f"'{number}'" for number in numbers)
    delete(pipeline.table, f"sequence_number IN ({quoted})")
    return len(numbers)


@pytest.mark.any_spark
def test_a_replay_adds_missing_rows_without_duplicates_and_moves_no_position(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(400)
    pipeline.materialize()
    before = positions_file(pipeline)
    deleted = delete_every(pipeline, 7)
    for added in (deleted, 0):
        events = run_replay(pipeline.project(), pipeline.instance, start="TRIM_HORIZON")
        assert sum(event["rows"] for event in events) == added
        pipeline.assert_exactly_once()
    assert positions_file(pipeline) == before


def test_a_replay_adds_nothing_beyond_the_positions(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(400)
    pipeline.materialize(max_records=50)
    delete_every(pipeline, 7)
    pipeline.put_many(100)
    run_replay(pipeline.project(), pipeline.instance, start="TRIM_HORIZON")
    pipeline.assert_rows_equal_positions()


@pytest.mark.any_spark
def test_two_replays_and_a_run_at_once_add_no_duplicate(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(400)
    pipeline.materialize()
    delete_every(pipeline, 5)
    pipeline.put_many(200)

    def replay() -> None:
        # An in-memory instance can be used by one thread only.
        with dg.DagsterInstance.ephemeral() as instance:
            run_replay(pipeline.project(), for_runs_in_threads(instance), start="TRIM_HORIZON")

    replays = [threading.Thread(target=replay) for _ in range(2)]
    for_runs_in_threads(pipeline.instance)
    for thread in replays:
        thread.start()
    pipeline.materialize()
    for thread in replays:
        thread.join()
    pipeline.assert_exactly_once()
