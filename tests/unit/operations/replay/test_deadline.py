"""Replays that do not finish before their deadline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kinesis_assets.errors import ReplayUnfinished
from kinesis_assets.operations.replay.outcome import ReplayState
from support.replays import A, ingest_and_lose, states
from support.shifted_clock import ShiftedClock
from support.single_task import fill_as_in_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.reading.range import ShardRange
    from kinesis_assets.operations.replay.task import FillJob, FillResult

pytestmark = pytest.mark.slow


@pytest.fixture
def hours(bench, faults):
    """One record per response; each takes `each` hours by all clocks, as set by the test."""
    clock, hours = ShiftedClock(), SimpleNamespace(each=0.0)
    bench.set_machine_clock(clock)

    def respond_late(*_):
        clock.advance(hours.each)

    faults.page_size(1)
    faults.answer("GetRecords", respond_late)
    hours.pass_by = clock.advance
    return hours


def test_an_unfinished_shard_is_reported_with_the_number_to_continue_from(bench, hours):
    numbers = ingest_and_lose(bench, 1, 4, count=6)
    hours.each = 2.5

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FAILED, 1)}
    assert isinstance(result.errors[A], ReplayUnfinished)
    assert f"from {numbers[2]}" in str(result.errors[A])
    assert bench.items == [0, 1, 2, 3, 5]
    assert states(bench.replay(numbers[2], None, A)) == {A: (ReplayState.FAILED, 1)}
    assert states(bench.replay(numbers[4], None, A)) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == [0, 1, 2, 3, 4, 5]


def test_a_task_that_starts_late_has_the_same_deadline(bench, hours):
    ingest_and_lose(bench, 1, 30, count=40)
    hours.each = 0.4

    def fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
        hours.pass_by(3)  # the task waits for a core
        return fill_as_in_spark(job, ranges)

    assert states(bench.replay(fill=fill)) == {A: (ReplayState.FAILED, 1)}


def test_a_task_that_starts_after_the_deadline_reads_nothing_and_reports_it(bench, hours, faults):
    bench.create()
    first, *_ = bench.put(0)
    bench.run()
    bench.lose(0)

    def fill(job: FillJob, ranges: Sequence[ShardRange]) -> FillResult:
        hours.pass_by(9)
        return fill_as_in_spark(job, ranges)

    before = faults.count("GetRecords")
    (error,) = bench.replay(first, None, A, fill=fill).errors.values()
    assert isinstance(error, ReplayUnfinished)
    assert faults.count("GetRecords") == before


def test_lost_data_is_reported_even_if_the_replay_is_unfinished(bench, hours):
    """A replay that continues from the reported number does not read the lost range again."""
    bench.create()
    start = bench.now
    first, *_ = bench.put(0)
    bench.run()
    bench.later(hours=23)
    bench.put(*range(1, 6))
    bench.run()
    bench.later(hours=2)
    hours.each = 2.5
    for reason, result in (
        ("keeps 24 h", bench.replay(start.isoformat())),
        (first, bench.replay(first, None, A)),
    ):
        assert isinstance(result.errors[A], ReplayUnfinished)
        assert reason in str(result.errors[A])
        assert "within 7:00:00" in str(result.errors[A])
