"""Line 7 of the contract: a failing shard does not delay, rewind or hide the others of its run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from support.pipeline import Pipeline

pytestmark = [pytest.mark.any_spark, pytest.mark.any_format]


def test_a_failing_shard_commits_what_it_read_and_does_not_delay_the_others(
    pipeline: Pipeline, faults: Any
) -> None:
    failing, *others = pipeline.create(3)
    pipeline.put_many(600)
    faults.page_size(50, shard_id=failing)
    faults.fail(status=400, code="AccessDeniedException", shard_id=failing, after=2)
    events = pipeline.materialize()
    assert events[failing]["state"] == "failed"
    assert 0 < events[failing]["rows"] < sum(shard == failing for shard, _, _ in pipeline.acknowledged)
    assert "AccessDenied" in events[failing]["error"]
    assert {events[shard]["state"] for shard in others} == {"committed"}
    pipeline.assert_rows_equal_positions()
    faults.clear()
    pipeline.materialize()
    pipeline.assert_exactly_once()
