"""Line 1 of the contract: a record is in the table if and only if its shard's position has passed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kinesis_assets.table.store.storage import data_files_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.pipeline import Pipeline

pytestmark = [pytest.mark.any_spark, pytest.mark.any_format]


def test_rows_and_positions_move_together_in_each_run(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(1_000)
    for _ in range(3):
        pipeline.materialize(max_records=100)
        pipeline.assert_rows_equal_positions()


def test_a_run_killed_before_its_commit_moves_nothing_and_the_next_run_recovers(
    pipeline: Pipeline, kill_run_at: Callable[[str], None]
) -> None:
    pipeline.create(2)
    pipeline.put_many(200)
    kill_run_at("before commit")
    assert data_files_in(pipeline.table.files)  # the run had written its files
    assert pipeline.stored == []
    pipeline.assert_rows_equal_positions()
    pipeline.materialize()
    pipeline.assert_exactly_once()
