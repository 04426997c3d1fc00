"""The range that a replay reads: numbers, times, shards, and invalid arguments."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.operations.replay.outcome import ReplayState
from kinesis_assets.operations.replay.plan import ReplayWindow
from support.replays import A, B, ingest_and_lose, states

# The range


def test_a_range_of_sequence_numbers_includes_both_ends(bench):
    numbers = ingest_and_lose(bench, 1, 2, 3, 4, 5, 6, 7, count=10)

    result = bench.replay(numbers[3], numbers[5], A)

    assert states(result) == {A: (ReplayState.FILLED, 3)}
    assert bench.items == [0, 3, 4, 5, 8, 9]


def test_a_range_of_times_includes_its_start_but_not_its_end(bench):
    bench.create()
    bench.put(0)
    start = bench.later(minutes=10)
    bench.put(1)
    bench.later(minutes=10)
    bench.put(2)
    end = bench.later(minutes=10)
    bench.put(3)
    bench.run()
    bench.lose(0, 1, 2, 3)

    bench.replay(start.isoformat(), end.isoformat())

    assert bench.items == [1, 2]


def test_only_the_given_shards_are_replayed(bench):
    bench.create(2)
    bench.put(0, 1)
    bench.put(2, 3, part=0.9)
    bench.run()
    bench.lose(1, 3)

    result = bench.replay("TRIM_HORIZON", None, B)

    assert states(result) == {B: (ReplayState.FILLED, 1)}
    assert bench.items == [0, 2, 3]


# Invalid arguments


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("", None),
        ("LATEST", None),
        ("2026-01-31T12:00:00", None),
        ("soon", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z"),
        ("2026-01-31T12:00:00Z", "later"),
        ("20", "3"),
        ("007", None),
    ],
)
def test_an_invalid_range_is_refused(start, end):
    with pytest.raises(InvalidInput):
        ReplayWindow.of(start, end)


def test_a_sequence_number_requires_exactly_one_shard(bench):
    bench.create(2)
    numbers = bench.put(0)
    bench.run()
    for start, end in ((numbers[0], None), ("TRIM_HORIZON", numbers[0])):
        with pytest.raises(InvalidInput, match="sequence number"):
            bench.replay(start, end)


def test_a_sequence_number_of_another_shard_is_refused_before_any_read(bench):
    bench.create(2)
    numbers = bench.put(0, part=0.9)
    bench.put(1)
    bench.run()
    with pytest.raises(InvalidInput, match="Kinesis rejected"):
        bench.replay(numbers[0], None, A)


def test_an_unknown_shard_is_refused(bench):
    bench.create()
    bench.put(0)
    bench.run()
    with pytest.raises(InvalidInput, match="'nowhere'"):
        bench.replay("TRIM_HORIZON", None, A, "nowhere")


def test_a_start_in_the_future_is_refused(bench):
    bench.create()
    bench.put(0)
    bench.run()
    with pytest.raises(InvalidInput, match=r"\blater than\b"):
        bench.replay((bench.now + timedelta(hours=1)).isoformat())
