"""Runs of a stream whose older shards are archived."""

from __future__ import annotations

import pytest

from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.ingest.plan import current_shards
from kinesis_assets.table.positions.positions_chain import ChainPolicy

pytestmark = pytest.mark.slow


@pytest.fixture
def with_archive(bench):
    """Create a stream whose first shard has expired and is archived. Return the bench and that shard."""
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


def test_a_child_is_read_after_its_parent_was_archived(with_archive):
    bench, _ = with_archive
    bench.put(5)
    assert bench.run().errors == {}
    assert bench.items == [1, 2, 3, 4, 5]


def test_a_requested_archived_shard_is_finished_without_a_call(with_archive, faults):
    bench, parent = with_archive
    faults.calls.clear()
    result = bench.run([parent])
    assert (result.errors, result.outcomes[parent].state) == ({}, ShardState.FINISHED)
    assert "GetRecords" not in {call.operation for call in faults.calls}


def test_current_shards_include_an_archived_shard_only_if_it_is_requested(with_archive):
    bench, parent = with_archive
    listing = bench.client.listing()
    assert parent not in current_shards(listing, bench.table)[1]
    assert current_shards(listing, bench.table, asked=[parent])[1][parent].finished


def test_a_sensor_tick_does_not_read_the_archive(with_archive):
    bench, _ = with_archive
    listing = bench.client.listing()
    fresh = bench.table.reopened()
    current_shards(listing, fresh)
    assert fresh.chain.files_read == 1  # the base file of the positions
