"""Line 10 of the contract: lag is the latest value, never a maximum, and an idle shard is not late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.fixtures.stream import Clocked
    from support.pipeline import Pipeline

HOUR = 3600
HOUR_MS = 3_600_000
NOT_LATE = (0, 24 * HOUR_MS)


def test_current_lag_and_time_to_loss_are_the_latest_and_an_idle_shard_is_not_late(
    clocked_pipeline: Pipeline, clocked: Clocked
) -> None:
    pipeline = clocked_pipeline
    busy, idle = pipeline.create(2)
    pipeline.put_many(4, busy)
    pipeline.put_many(1, idle)
    clocked.clock.advance(5 * HOUR)

    def run(**settings: Any) -> dict[str, tuple[int, int]]:
        events = pipeline.materialize(**settings)
        return {shard: (event["lag_ms"], event["time_to_loss_ms"]) for shard, event in events.items()}

    assert run(max_records=2) == {busy: (5 * HOUR_MS, 19 * HOUR_MS), idle: NOT_LATE}
    clocked.clock.advance(2 * HOUR)
    assert run(max_records=1) == {busy: (7 * HOUR_MS, 17 * HOUR_MS), idle: NOT_LATE}
    assert run() == {busy: NOT_LATE, idle: NOT_LATE}
    clocked.clock.advance(10 * HOUR)
    assert run() == {busy: NOT_LATE, idle: NOT_LATE}
