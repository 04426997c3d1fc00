"""Line 8 of the contract: a stopped run commits what it has read within `stop_timeout`, or drops it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.errors import RunCanceled

if TYPE_CHECKING:
    from support.pipeline import Pipeline

pytestmark = [pytest.mark.any_spark, pytest.mark.any_format]


def terminate() -> None:
    """Stop the run as Dagster does."""
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_stopped_run_commits_what_it_has_read(pipeline: Pipeline, faults: Any) -> None:
    pipeline.create(2)
    pipeline.put_many(200)
    faults.page_size(1)
    faults.before("GetRecords", terminate, after=10, times=1)
    with pytest.raises(RunCanceled) as canceled:
        pipeline.materialize()
    assert sum(event["rows"] for event in canceled.value.events) == len(pipeline.stored) > 0
    pipeline.assert_rows_equal_positions()
    faults.clear()
    pipeline.materialize()
    pipeline.assert_exactly_once()


def test_a_stopped_run_drops_what_it_cannot_commit_within_the_stop_timeout(
    pipeline: Pipeline, faults: Any
) -> None:
    pipeline.create(2)
    pipeline.put_many(200)
    faults.page_size(1)
    faults.stall(after=10)
    faults.before("GetRecords", terminate, after=10, times=1)
    with pytest.raises(RunCanceled):
        pipeline.materialize(stop_timeout=0.5)
    assert pipeline.stored == []
    pipeline.assert_rows_equal_positions()
    faults.clear()
    pipeline.materialize()
    pipeline.assert_exactly_once()
