"""What a run commits of a shard without new records."""

from __future__ import annotations

from datetime import timedelta

from kinesis_assets.kinesis.position import PositionKind


def test_an_empty_read_keeps_the_frozen_time(bench):
    (shard,) = bench.create()
    bench.later(seconds=5)
    bench.run(start="LATEST")
    frozen = bench.positions.shards[shard].position
    bench.later(seconds=7200)
    bench.run()
    assert bench.positions.shards[shard].position == frozen
    assert frozen.kind is PositionKind.AT_TIMESTAMP


def test_the_tip_time_of_an_idle_shard_is_committed_again_after_an_hour(bench):
    (shard,) = bench.create()
    bench.put(0)
    bench.run()
    before = bench.positions.shards[shard]
    bench.later(seconds=3600)
    assert bench.run().version == bench.version
    after = bench.positions.shards[shard]
    assert after.tip_time == before.tip_time + timedelta(hours=1)
    assert (after.position, after.last_arrival) == (before.position, before.last_arrival)
    assert bench.items == [0]
