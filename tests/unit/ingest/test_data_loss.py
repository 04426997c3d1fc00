"""Data loss: how a run detects and reports records that may have expired unread."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kinesis_assets.errors import DataLost
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position
from support.run_results import shards_with_loss, states

pytestmark = pytest.mark.slow

# Reported loss


def test_expired_unread_records_are_reported_and_positions_and_table_do_not_change(bench):
    (shard,) = bench.create()
    (last,) = bench.put(1)
    bench.run()
    before, since = (bench.positions, bench.version), bench.now
    bench.put(2)
    bench.later(hours=30)
    (available,) = bench.put(3)
    error = bench.run().errors[shard]
    assert isinstance(error, DataLost)
    assert f"read up to AFTER_SEQUENCE_NUMBER:{last}, complete until {since:%Y-%m-%dT%H:%M:%SZ}" in str(error)
    assert f"first available record: {available}, {bench.now:%Y-%m-%dT%H:%M:%SZ}, 1 day, 6:00:00" in str(
        error
    )
    assert (bench.positions, bench.version) == before
    assert bench.items == [1]


def test_loss_is_reported_by_every_run_until_a_policy_is_chosen(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    for _ in range(3):
        assert shards_with_loss(bench.run()) == {shard}
        bench.later(hours=1)
    assert bench.items == [1]


def test_a_shard_with_loss_does_not_delay_the_other_shards(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    bench.run()
    for hours in (15, 15):
        bench.later(hours=hours)
        bench.put(3, part=0.5)
        result = bench.run([second])
        assert result.errors == {}
    bench.put(4)
    bench.put(5, part=0.5)
    result = bench.run()
    assert states(result) == {first: ShardState.FAILED, second: ShardState.COMMITTED}
    assert bench.items == [1, 2, 3, 3, 5]


def test_loss_in_the_middle_of_a_run_keeps_the_rows_read_before_it(bench, faults):
    (shard,) = bench.create()
    _, first, _, _ = bench.put(1, 2, 3, 4)
    bench.run(max_records=1)
    bench.later(hours=20)
    (available,) = bench.put(5)
    faults.page_size(1)
    faults.before("GetRecords", lambda: bench.later(hours=5), after=1, times=1)
    result = bench.run()
    assert shards_with_loss(result) == {shard}
    assert f"read up to AFTER_SEQUENCE_NUMBER:{first}" in str(result.errors[shard])
    assert f"first available record: {available}" in str(result.errors[shard])
    assert (bench.items, bench.at(shard).position) == ([1, 2], Position.after(first))


def test_loss_since_an_aborted_first_run_is_reported(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.plan()  # and then dies
    bench.later(hours=30)
    bench.put(2)
    assert shards_with_loss(bench.run()) == {shard}


def test_loss_in_a_shard_that_failed_since_the_first_plan_is_reported(bench, faults):
    first, _ = bench.create(2)
    bench.put(1)
    bench.put(2, part=0.5)
    faults.fail(status=400, code="AccessDeniedException", shard_id=first)
    for _ in range(3):
        assert set(bench.run().errors) == {first}
        bench.later(hours=10)
    faults.clear()
    bench.put(3)
    bench.put(4, part=0.5)
    assert shards_with_loss(bench.run()) == {first}
    assert bench.items == [2, 4]


def test_a_start_time_before_the_retention_is_reported_as_loss(bench):
    (shard,) = bench.create()
    bench.put(1)
    start = bench.now
    bench.later(hours=30)
    bench.put(2)
    assert shards_with_loss(bench.run(start=f"AT_TIMESTAMP:{start.isoformat()}")) == {shard}


def test_a_start_time_before_the_creation_of_the_stream_is_no_loss(bench):
    before = bench.now - timedelta(days=300)
    bench.create()
    bench.put(1)
    assert bench.run(start=f"AT_TIMESTAMP:{before.isoformat()}").errors == {}
    assert bench.items == [1]


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_start_at_an_expired_record_is_reported_as_loss(bench, kind):
    (shard,) = bench.create()
    number, _ = bench.put(1, 2)
    bench.later(hours=30)
    bench.put(3)
    assert shards_with_loss(bench.run(start=f"{kind}:{number}")) == {shard}


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_start_at_an_available_record_is_no_loss_in_an_old_stream(bench, kind):
    bench.create()
    bench.put(1)
    bench.later(hours=30)
    number, _ = bench.put(2, 3)
    bench.later(hours=20)
    assert bench.run(start=f"{kind}:{number}").errors == {}
    assert bench.items == ([2, 3] if kind == "AT_SEQUENCE_NUMBER" else [3])


def test_loss_is_reported_for_a_child_first_listed_after_the_retention(bench):
    (parent,) = bench.create()
    bench.put(1)
    plan, since = bench.plan(), bench.now
    child, other = bench.split(parent)
    bench.put(2)
    assert bench.execute(plan).outcomes[parent].state is ShardState.FINISHED
    bench.later(hours=30)
    (available,) = bench.put(3)
    result = bench.run([child, other])
    assert shards_with_loss(result) == {child, other}
    assert f"read up to TRIM_HORIZON, complete until {since:%Y-%m-%dT%H:%M:%SZ}" in str(result.errors[child])
    assert f"first available record: {available}" in str(result.errors[child])
    assert bench.items == [1]


def test_a_child_first_listed_within_the_retention_has_no_loss_in_an_old_stream(bench):
    (parent,) = bench.create()
    for _ in range(3):
        bench.run()
        bench.later(hours=20)
    bench.put(1)
    plan = bench.plan()
    children = bench.split(parent)
    bench.put(2)
    bench.execute(plan)
    bench.later(hours=23)
    assert bench.run(children).errors == {}
    assert bench.items == [1, 2]


def test_loss_is_reported_for_a_grandchild_of_unknown_shards(bench):
    (first,) = bench.create()
    bench.put(1)
    plan = bench.plan()
    child, _ = bench.split(first)
    bench.put(2)
    grandchild, _ = bench.split(child, part=0.25)
    bench.execute(plan)
    bench.later(hours=30)
    bench.put(3)
    assert child not in bench.shard_ids
    assert grandchild in shards_with_loss(bench.run())


# The lowest observed retention


def test_loss_is_reported_if_the_retention_was_lowered_while_a_shard_was_not_read(bench):
    first, second = bench.create(2)
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    bench.later(hours=1)
    bench.set_retention(24)
    bench.put(2)
    bench.put(3, part=0.5)
    assert bench.run([second]).errors == {}
    bench.later(hours=25)
    bench.set_retention(168)
    bench.put(4)
    assert shards_with_loss(bench.run([first])) == {first}


def test_loss_is_reported_if_the_retention_was_raised_after_the_last_read(bench):
    (shard,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    bench.set_retention(24)
    bench.put(2)
    bench.run()
    bench.put(3)
    bench.later(hours=25)
    bench.set_retention(168)
    bench.put(4)
    assert shards_with_loss(bench.run()) == {shard}


def test_loss_is_reported_if_only_an_idle_run_observed_the_lower_retention(bench):
    (shard,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    bench.later(minutes=10)
    bench.set_retention(24)
    assert bench.run().errors == {}
    bench.put(2)
    bench.later(hours=25)
    bench.set_retention(168)
    bench.put(3)
    assert shards_with_loss(bench.run()) == {shard}


def test_a_lower_retention_is_forgotten_after_a_read_under_a_higher_one(bench):
    bench.create()
    bench.run()
    bench.later(hours=1)
    bench.set_retention(168)
    bench.run()
    bench.put(1)
    bench.later(hours=100)
    assert bench.run().errors == {}
    assert bench.items == [1]
