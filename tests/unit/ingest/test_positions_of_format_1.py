"""Runs continue from the positions of the previous version."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from kinesis_assets.table.positions.positions import FORMAT
from support.run_results import shards_with_loss


def as_format_1(bench):
    """Rewrite the positions in the format of the previous version."""
    path = Path(bench.table.uri, "_kinesis", "positions", f"{bench.positions.commit_id}.json")
    content = json.loads(msgspec.json.encode(bench.positions))
    content["format"] = 1
    for name in ("listed_at", "landed", "by"):
        content.pop(name, None)
    for shard in content["shards"].values():
        shard.pop("wanted_from", None)
        del shard["retention_hours"]
    path.write_text(json.dumps(content, indent=1))
    bench.table = bench.table.reopened()


def test_runs_continue_from_positions_of_format_1(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    as_format_1(bench)
    bench.put(2)
    bench.later(hours=20)
    assert bench.run().errors == {}
    assert (bench.items, bench.positions.format) == ([1, 2], FORMAT)
    assert (bench.at(shard).retention_hours, bench.positions.listed_at) == (24, bench.now)


def test_loss_is_reported_from_positions_of_format_1(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    as_format_1(bench)
    bench.later(hours=30)
    bench.put(2)
    assert shards_with_loss(bench.run()) == {shard}


def test_an_unread_shard_of_format_1_is_read_without_reporting_loss(bench):
    bench.create()
    bench.plan()
    as_format_1(bench)
    bench.later(hours=30)
    bench.put(1)
    assert bench.run().errors == {}
    assert bench.items == [1]


def test_a_child_first_listed_after_format_1_has_no_loss_within_the_retention(bench):
    (parent,) = bench.create()
    for _ in range(3):
        bench.later(hours=20)
        bench.put(1)
        bench.run()
    as_format_1(bench)
    bench.later(hours=1)
    bench.split(parent)
    bench.put(2)
    assert bench.run().errors == {}
    assert bench.items == [1, 1, 1, 2]
