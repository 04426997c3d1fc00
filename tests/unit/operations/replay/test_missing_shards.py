"""Shards that the service no longer lists."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.errors import ShardListIncomplete, ShardVanished
from kinesis_assets.operations.replay.outcome import ReplayState
from support.replays import A, B, C, states
from support.shard_lists import omit_shards

pytestmark = pytest.mark.slow


def test_a_shard_no_longer_listed_is_an_error_only_if_the_range_may_include_it(bench):
    bench.create()
    start = bench.now
    bench.put(0)
    bench.split(A)
    bench.run()
    bench.later(hours=30)
    bench.put(1)
    bench.run()

    recent = bench.replay((bench.now - timedelta(hours=1)).isoformat())
    assert recent.outcomes[A].state is ReplayState.GONE
    assert bench.replay().outcomes[A].state is ReplayState.GONE
    assert isinstance(bench.replay(start.isoformat()).errors[A], ShardVanished)


def test_a_list_without_a_known_shard_is_requested_again(bench, faults):
    bench.create()
    bench.put(1, 2)
    bench.later(seconds=5)
    bench.run()
    bench.split(A)
    bench.run()
    bench.lose(1)
    omit_shards(faults, A, times=1)
    assert states(bench.replay())[A] == (ReplayState.FILLED, 1)
    assert bench.items == [1, 2]


def test_only_a_closed_shard_missing_from_each_list_fails(bench, faults):
    bench.create(2)
    start = bench.now
    bench.put(1)
    bench.put(2, part=0.9)
    bench.split(A, 0.25)
    bench.run()
    bench.lose(1, 2)
    bench.later(hours=23)
    omit_shards(faults, A)
    for rows, replay_from in ((1, "TRIM_HORIZON"), (0, start.isoformat())):
        result = bench.replay(replay_from)
        assert list(result.errors) == [A]
        assert isinstance(result.errors[A], ShardVanished)
        assert result.outcomes[B].rows == rows
    assert bench.items == [2]
    faults.clear()
    assert states(bench.replay())[A] == (ReplayState.FILLED, 1)
    assert bench.items == [1, 2]


@pytest.mark.parametrize("hours", [1, 47])
def test_only_an_open_shard_missing_from_each_list_fails(bench, faults, hours):
    bench.create(2)
    bench.put(1)
    bench.put(2, part=0.9)
    bench.run()
    bench.set_retention(48)
    bench.lose(1, 2)
    bench.later(hours=hours)
    omit_shards(faults, A)
    result = bench.replay()
    assert states(result)[B] == (ReplayState.FILLED, 1)
    assert isinstance(result.errors[A], ShardVanished)
    assert bench.items == [2]


def test_an_unread_shard_missing_from_each_list_does_not_delay_the_others(bench, faults):
    bench.create(2)
    bench.put(1)
    bench.run(max_records=1)
    bench.lose(1)
    omit_shards(faults, B)
    assert states(bench.replay()) == {A: (ReplayState.FILLED, 1), B: (ReplayState.UNREAD, 0)}


def test_incomplete_lists_do_not_make_a_shard_unknown(bench, faults):
    bench.create(2)
    bench.put(1)
    bench.run()
    omit_shards(faults, B)
    with pytest.raises(ShardListIncomplete):
        bench.replay("TRIM_HORIZON", None, C)


def test_a_shard_that_expired_early_after_a_lower_retention_is_gone(bench):
    bench.create()
    bench.set_retention(48)
    bench.put(0)
    bench.split(A)
    bench.run()
    bench.run()
    bench.set_retention(24)
    bench.later(hours=30)
    assert bench.replay().outcomes[A].state is ReplayState.GONE
