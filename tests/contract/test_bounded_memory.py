"""Line 11 of the contract: what a run reads at once is bounded, whatever the backlog or the number of shards.

The memory limiter itself has unit tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.pipeline import Pipeline


def rows(events: dict[str, dict[str, Any]]) -> int:
    return sum(event["rows"] for event in events.values())


@pytest.mark.parametrize(
    ("bound", "measure", "limit"), [("max_run_records", "rows", 100), ("max_run_bytes", "bytes", 9_000)]
)
def test_a_bound_of_a_run_holds_for_all_its_shards_together(
    pipeline: Pipeline, bound: str, measure: str, limit: int
) -> None:
    pipeline.create(8)
    pipeline.put_many(250)
    written = 0
    while written < 250:
        events = pipeline.materialize(**{bound: limit})
        assert 0 < sum(event[measure] for event in events.values()) <= limit
        written += rows(events)
        pipeline.assert_rows_equal_positions()
    pipeline.assert_exactly_once()


def test_a_bound_of_a_run_includes_the_children_of_a_parent_that_it_finishes(pipeline: Pipeline) -> None:
    (parent,) = pipeline.create(1)
    pipeline.put_many(50)
    pipeline.split(parent)
    pipeline.put_many(100)
    events = pipeline.materialize(max_run_records=80)
    assert events[parent]["state"] == "finished"
    assert events[parent]["rows"] == 50
    assert 0 < rows(events) - 50 <= 30
    pipeline.assert_rows_equal_positions()
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_bound_below_the_number_of_tasks_starves_no_shard(pipeline: Pipeline) -> None:
    _, second = pipeline.create(2)
    pipeline.materialize()
    pipeline.put_many(1, second)
    pipeline.materialize(max_run_records=1)
    pipeline.materialize(max_run_records=1)
    pipeline.assert_exactly_once()
