"""Rows below the floor of the table are not added."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.table.maintenance.retention import lower_floor
from support.replays import A, ingest_and_lose, states
from support.single_task import fill_as_in_spark

pytestmark = pytest.mark.slow


def test_rows_below_the_floor_are_not_added(bench):
    bench.create()
    midnight = datetime.combine(bench.now.date() + timedelta(days=2), datetime.min.time(), UTC)
    bench.later(seconds=(midnight - bench.now).total_seconds() - 3600)  # at any time of day
    (first,) = bench.put(0)
    bench.later(seconds=3660)
    (second,) = bench.put(1)
    bench.run()
    bench.lose(0, 1)
    bench.amend(floor=midnight.date())

    by_number = bench.replay(first, second, A)

    assert states(by_number) == {A: (ReplayState.FILLED, 1)}
    assert bench.items == [1]
    assert states(bench.replay()) == {A: (ReplayState.WHOLE, 0)}
    assert states(bench.replay((midnight - timedelta(hours=9)).isoformat())) == {A: (ReplayState.WHOLE, 0)}
    assert bench.items == [1]
    assert bench.amendment.floor == midnight.date()


def test_rows_deleted_below_a_floor_are_added_after_it_is_lowered(bench):
    ingest_and_lose(bench, 0, 1, count=2)
    bench.amend(floor=bench.now.date() + timedelta(days=365))
    bench.replay()
    assert bench.items == []
    floor = bench.now.date() - timedelta(days=90)
    lower_floor(bench.table, bench.positions.identity, floor, bench.now, by="ada")

    assert states(bench.replay()) == {A: (ReplayState.FILLED, 2)}
    assert bench.items == [0, 1]
    assert bench.amendment.floor == floor


def test_a_floor_raised_below_the_added_rows_does_not_restart_the_replay(bench):
    ingest_and_lose(bench, 2)
    floor = (bench.now - timedelta(days=30)).date()
    batches = []

    def fill(job, ranges):
        batches.append(job.landing.batch_id)
        bench.amend(floor=floor)
        return fill_as_in_spark(job, ranges)

    bench.replay(fill=fill)

    assert len(batches) == 1
    assert (bench.amendment.floor, bench.amendment.batch_id) == (floor, batches[0])
    assert bench.items == list(range(5))


def test_a_floor_raised_above_the_added_rows_restarts_the_replay_without_them(bench):
    ingest_and_lose(bench, 2)
    floor = (bench.now + timedelta(days=1)).date()
    batches = []

    def fill(job, ranges):
        batches.append(job.landing.batch_id)
        if len(batches) == 1:
            bench.amend(floor=floor)
        return fill_as_in_spark(job, ranges)

    bench.replay(fill=fill)

    assert bench.items == [0, 1, 3, 4]
