"""The contract's lines 7, 8 and 9: neighbours of a failing shard, runs that are told to stop, replays."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from kinesis_assets.dagster.in_process import run_replay
from kinesis_assets.errors import RunCanceled

if TYPE_CHECKING:
    from support.pipeline import Pipeline


def position_bytes(pipeline: Pipeline) -> bytes:
    """The positions file that the table points at."""
    commit_id = pipeline.positions.commit_id
    return Path(pipeline.table.uri, "_kinesis", "positions", f"{commit_id}.json").read_bytes()


def lose(pipeline: Pipeline, every: int) -> list[tuple[str, str, bytes]]:
    """Take every so many-th record out of the table, as a restore or a slip would."""
    lost = pipeline.acknowledged[::every]
    numbers = ", ".join(f"'{number}'" for _, number, _ in lost)
    DeltaTable(pipeline.table.uri).delete(f"sequence_number IN ({numbers})")
    return lost


# 7. Neighbours.


def test_a_failing_shard_ends_before_its_failure_and_holds_no_other_back(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(3)
    pipeline.put_many(600)
    failing, *others = pipeline.listed()
    faults.page_size(50, shard_id=failing)
    faults.fail(status=400, code="AccessDeniedException", shard_id=failing, after=2)
    facts = pipeline.materialize()
    assert facts[failing]["state"] == "failed"
    assert facts[failing]["rows"] == 100
    assert "AccessDenied" in facts[failing]["error"]
    assert {facts[shard]["state"] for shard in others} == {"committed"}
    pipeline.assert_rows_equal_positions()
    faults.clear()
    pipeline.materialize()
    pipeline.assert_exactly_once()


# 8. Closing.


def test_a_run_told_to_stop_commits_what_it_read_and_the_position_tells_the_truth(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(2)
    pipeline.put_many(200)
    faults.page_size(1)
    faults.before("GetRecords", lambda: os.kill(os.getpid(), signal.SIGTERM), after=10, times=1)
    with pytest.raises(RunCanceled) as canceled:
        pipeline.materialize()
    assert sum(facts["rows"] for facts in canceled.value.events) == len(pipeline.stored) > 0
    pipeline.assert_rows_equal_positions()
    faults.clear()
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_run_told_to_stop_drops_what_it_cannot_commit_in_time_and_the_position_tells_the_truth(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(2)
    pipeline.put_many(200)
    faults.page_size(1)
    faults.stall(after=10)
    faults.before("GetRecords", lambda: os.kill(os.getpid(), signal.SIGTERM), after=10, times=1)
    with pytest.raises(RunCanceled):
        pipeline.materialize(stop_timeout=0.5)
    assert pipeline.stored == []
    pipeline.assert_rows_equal_positions()
    faults.clear()
    pipeline.materialize()
    pipeline.assert_exactly_once()


# 9. Replay.


def test_a_replay_fills_holes_adds_no_duplicate_and_moves_no_position(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(400)
    pipeline.materialize()
    before = position_bytes(pipeline)
    lost = lose(pipeline, every=7)
    for filled in (len(lost), 0):
        facts = run_replay(pipeline.project(), pipeline.instance, start="TRIM_HORIZON")
        assert sum(fact["rows"] for fact in facts) == filled
        pipeline.assert_exactly_once()
    assert position_bytes(pipeline) == before


def test_a_replay_reads_nothing_that_no_position_has_passed(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(400)
    pipeline.materialize(max_records=50)
    lose(pipeline, every=7)
    pipeline.put_many(100)
    run_replay(pipeline.project(), pipeline.instance, start="TRIM_HORIZON")
    pipeline.assert_rows_equal_positions()


def test_two_replays_and_a_run_at_once_double_nothing(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(400)
    pipeline.materialize()
    lose(pipeline, every=5)
    pipeline.put_many(200)
    # An instance in memory is one thread's.
    replays = [
        threading.Thread(
            target=run_replay,
            args=(pipeline.project(), dg.DagsterInstance.ephemeral()),
            kwargs={"start": "TRIM_HORIZON"},
        )
        for _ in range(2)
    ]
    for each in replays:
        each.start()
    pipeline.materialize()
    for each in replays:
        each.join()
    pipeline.assert_exactly_once()
