"""Runs of a stream whose older shards are in the archive."""

from __future__ import annotations

import pytest

from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.plan import current_shards
from kinesis_assets.table.positions_chain import ChainPolicy


@pytest.fixture
def aged(bench):
    """A stream that no longer lists its first shard, which is in the archive; and that shard."""
    bench.set_table_policy(chain=ChainPolicy(max_files=0, min_archived=1))
    (parent,) = bench.create()
    bench.put(1)
    bench.later(seconds=10)
    bench.split(parent)
    bench.run()
    for number in range(2, 5):
        bench.later(hours=20)
        bench.put(number)
        bench.run()
    assert parent not in bench.shard_ids
    assert parent not in bench.positions.shards
    return bench, parent


def test_a_child_is_read_on_after_its_parent_went_to_the_archive(aged):
    bench, _ = aged
    bench.put(5)
    assert bench.run().errors == {}
    assert bench.items == [1, 2, 3, 4, 5]


def test_a_shard_in_the_archive_that_is_asked_for_is_finished_and_costs_no_call(aged, faults):
    bench, parent = aged
    faults.calls.clear()
    result = bench.run([parent])
    assert (result.errors, result.outcomes[parent].state) == ({}, ShardState.FINISHED)
    assert "GetRecords" not in {call.operation for call in faults.calls}


def test_the_sensor_sees_no_shard_of_the_archive_but_who_asks_for_one_does(aged):
    bench, parent = aged
    listing = bench.client.listing()
    assert parent not in current_shards(listing, bench.table)
    assert current_shards(listing, bench.table, asked=[parent])[parent].finished


def test_a_tick_of_the_sensor_reads_nothing_of_the_archive(aged):
    bench, _ = aged
    listing = bench.client.listing()
    fresh = bench.table.reopened()
    current_shards(listing, fresh)
    assert fresh.chain.files_read == 1  # the positions, which are a base
