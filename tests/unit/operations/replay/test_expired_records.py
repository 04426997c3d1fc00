"""Records that have expired, and shards that cannot be read."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import DataLost, ReadFailed
from kinesis_assets.operations.replay.outcome import ReplayState
from support.replays import A, B, states

pytestmark = pytest.mark.slow


def ingest_with_expired(bench, *lost: int) -> list[str]:
    """Ingest two records, the first of which has expired, and lose some. Return their sequence numbers."""
    bench.create()
    numbers = bench.put(0)
    bench.run()
    bench.later(hours=23)
    numbers += bench.put(1)
    bench.run()
    bench.lose(*lost)
    bench.later(hours=2)
    return numbers


def test_expired_records_of_a_time_range_are_reported_as_lost(bench):
    start = bench.now
    ingest_with_expired(bench, 0, 1)

    result = bench.replay(start.isoformat())

    assert states(result) == {A: (ReplayState.FAILED, 1)}
    assert isinstance(result.errors[A], DataLost)
    assert "keeps 24 h" in str(result.errors[A])
    assert bench.items == [1]


def test_an_expired_record_of_a_sequence_number_range_is_reported(bench):
    first, second = ingest_with_expired(bench, 0, 1)

    result = bench.replay(first, None, A)

    assert states(result) == {A: (ReplayState.FAILED, 1)}
    assert second in str(result.errors[A])
    assert bench.items == [1]


def test_trim_horizon_does_not_require_expired_records(bench):
    ingest_with_expired(bench, 1)

    assert states(bench.replay()) == {A: (ReplayState.FILLED, 1)}


def test_a_failing_shard_does_not_fail_the_others(bench, faults):
    bench.create(2)
    bench.put(0, 1)
    bench.put(2, 3, part=0.9)
    bench.run()
    bench.lose(1, 3)
    faults.fail(status=400, code="AccessDeniedException", shard_id=A)

    result = bench.replay()

    assert states(result) == {A: (ReplayState.FAILED, 0), B: (ReplayState.FILLED, 1)}
    assert isinstance(result.errors[A], ReadFailed)
    assert bench.items == [0, 2, 3]
