"""Line 2 of the contract: whatever is killed, the next run leaves each record in the table exactly once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.table.raw_table import PositionedTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.pipeline import Pipeline


# "before commit" is in test_atomic.py.
@pytest.mark.any_format
@pytest.mark.parametrize("point", ["before freeze", "after freeze", "after commit"])
def test_the_run_after_a_killed_run_leaves_each_record_exactly_once(
    pipeline: Pipeline, kill_run_at: Callable[[str], None], point: str
) -> None:
    pipeline.create(2)
    pipeline.put_many(300)
    kill_run_at(point)
    pipeline.put_many(300)
    events = pipeline.materialize()
    assert {event["state"] for event in events.values()} == {"committed"}
    pipeline.assert_exactly_once()


def test_a_run_without_new_records_adds_nothing(pipeline: Pipeline) -> None:
    pipeline.create(2)
    pipeline.put_many(300)
    for _ in range(3):
        pipeline.materialize()
    pipeline.assert_exactly_once()


def test_commands_write_each_record_to_a_table_on_s3_exactly_once(pipeline: Pipeline, lake: str) -> None:
    pipeline.table = PositionedTable(f"{lake}/raw/orders")
    first, second = pipeline.create(2)
    pipeline.put_many(300)
    run = [str(Path(sys.executable).with_name("kinesis-assets")), *pipeline.command()]
    subprocess.run(run, check=True, capture_output=True, timeout=SECONDS)
    pipeline.merge(first, second)
    pipeline.put_many(300)
    subprocess.run(run, check=True, capture_output=True, timeout=SECONDS)
    pipeline.assert_exactly_once()
