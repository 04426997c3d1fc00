"""Shard lists that contradict the recorded positions are requested again and never acted upon."""

from __future__ import annotations

from datetime import timedelta

import dagster as dg
import pytest

from kinesis_assets.dagster.sensor.sensor import evaluate
from kinesis_assets.dagster.stream_project import StreamProject
from kinesis_assets.errors import (
    DataLost,
    ParentUnfinished,
    ShardListIncomplete,
    ShardListStale,
    ShardVanished,
    TableMissing,
)
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.position import Position
from support.continuous import RunHarness
from support.run_results import states
from support.shard_lists import omit_shards
from support.timing import READING, set_timing

pytestmark = pytest.mark.slow

CONTINUE = {"on_data_loss": "continue"}
BOTH_POLICIES = pytest.mark.parametrize("policy", [{}, CONTINUE], ids=["fail", "continue"])


@pytest.fixture
def resharded(bench):
    """A parent that is read to its end, and its children, which are still unread."""
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    children = bench.split(parent)
    bench.put(2)
    bench.put(3, part=0.5)
    bench.run([parent])
    assert bench.positions.finished == {parent}
    return parent, children


# Lists that are older than the recorded positions


@BOTH_POLICIES
def test_a_stale_list_is_requested_again(bench, faults, resharded, policy):
    parent, children = resharded
    faults.stale_list(times=2)
    result = bench.run([parent, *children], **policy)
    assert (result.errors, bench.items) == ({}, [1, 2, 3])
    assert bench.positions.finished == {parent}


@BOTH_POLICIES
@pytest.mark.parametrize("hours", [0, 23, 30])
def test_a_list_that_stays_stale_fails_the_run_and_changes_nothing(bench, faults, resharded, policy, hours):
    parent, children = resharded
    bench.later(hours=hours)
    before = (bench.positions, bench.version)
    listed = [shard.shard_id for shard in bench.client.list_shards()]
    if hours < 24:
        faults.stale_list()
    else:  # because the parent is no longer listed
        faults.answer("ListShards", lambda _, response: response.but(Shards=[stale_parent(response, parent)]))
    with pytest.raises(ShardListStale, match=f"{parent}: listed as open, though its children {children[0]}"):
        bench.run([parent, *children], **policy)
    faults.clear()
    assert (bench.positions, bench.version) == before
    assert listed[-2:] == children
    if hours < 24:
        assert bench.run([parent, *children], **policy).errors == {}
        assert bench.items == [1, 2, 3]


def stale_parent(response, parent):
    """The parent of the first listed shard, as it was listed while it was open."""
    first = response.members["Shards"][0]
    keys = {"StartingHashKey": "0", "EndingHashKey": str((1 << 128) - 1)}
    return {
        "ShardId": parent,
        "HashKeyRange": keys,
        "SequenceNumberRange": {
            "StartingSequenceNumber": first["SequenceNumberRange"]["StartingSequenceNumber"]
        },
    }


@BOTH_POLICIES
def test_a_list_from_before_a_merge_changes_nothing(bench, faults, policy):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    child = bench.merge(first, second)
    bench.put(2)
    bench.run([first, second])
    faults.stale_list()
    with pytest.raises(ShardListStale):
        bench.run([first, second, child], **policy)
    faults.clear()
    assert bench.positions.finished == {first, second}
    assert bench.run([child]).errors == {}
    assert bench.items == [1, 2]


def test_a_list_that_shows_an_unfinished_parent_of_known_children_as_open_is_stale(bench, faults):
    (parent,) = bench.create()
    bench.put(1, 2)
    bench.run(max_records=1)
    children = bench.split(parent)
    bench.run([children[0]])  # the child waits for its parent, and the children are recorded
    bench.set_retention(48)
    bench.run([parent], max_records=1)
    bench.put(3)
    faults.stale_list(times=1)
    assert bench.run([parent, *children]).errors == {}
    assert bench.items == [1, 2, 3]


def test_a_continuous_run_lists_again_if_its_list_contradicts_the_table(bench):
    parent, other = bench.create(2)
    bench.put(1)
    harness = RunHarness(bench)

    def reshard_and_read():
        children = bench.split(parent, part=0.25)
        bench.put(2)
        bench.run([parent, *children])
        bench.put(3, part=0.5)
        harness.last_iteration = harness.iterations + 2

    harness.before[2] = reshard_and_read
    harness.run(parent, other)  # with the shard list of its first iteration
    assert bench.items == [1, 2, 3]
    assert bench.positions.finished == {parent}


# Shards that are recorded as finished and listed as open


@BOTH_POLICIES
def test_a_finished_shard_that_is_listed_as_open_fails_the_run_with_the_command_to_reopen_it(bench, policy):
    first, second = bench.create(2)
    (number,) = bench.put(1)
    bench.run()
    bench.forge_shards(first, finished=True)
    with pytest.raises(ShardListStale) as caught:
        bench.run([first, second], **policy)
    command = f"kinesis-assets seek --stream {bench.stream} --shard {first} "
    assert command + f"--to AFTER_SEQUENCE_NUMBER:{number} --apply" in str(caught.value)
    assert set(caught.value.reasons) == {first}


def test_the_sensor_fails_on_a_finished_shard_that_is_listed_as_open(bench):
    (shard,) = bench.create()
    bench.run()
    bench.forge_shards(shard, finished=True)
    with pytest.raises(ShardListStale, match=shard):
        tick(bench)


def test_the_sensor_lists_again_after_a_stale_list(bench, faults, resharded):
    _, children = resharded
    faults.stale_list(times=1)
    faults.calls.clear()
    added = tick(bench).dynamic_partitions_requests
    assert faults.count("ListShards") == 2
    assert [key for request in added for key in request.partition_keys] == children


def tick(bench):
    project = StreamProject.from_settings(
        bench.stream, table=bench.table.uri, endpoint_url=bench.settings.endpoint_url
    )
    with project.open_stream() as opened, dg.DagsterInstance.ephemeral() as instance:
        set_timing(opened.client, list_retries=READING.list_retries)
        return evaluate(opened, instance, None)


# Shards that are missing from a list


@BOTH_POLICIES
def test_a_missing_shard_is_not_skipped_within_the_retention_of_the_list_that_showed_it_open(
    bench, faults, policy
):
    (parent,) = bench.create()
    bench.put(1)
    bench.later(hours=30)
    bench.plan()  # lists the shard, and does not read it
    children = bench.split(parent)
    assert bench.at(parent).listed_open == bench.now
    bench.later(hours=23)
    omit_shards(faults, parent)
    result = bench.run([parent, *children], **policy)
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)
    assert isinstance(result.errors[parent], ShardVanished)
    assert "the list was incomplete" in str(result.errors[parent])
    assert bench.positions.finished == set()


@BOTH_POLICIES
def test_a_missing_shard_that_can_still_be_read_is_not_skipped(bench, faults, policy):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    (_, arrived) = bench.put(2, 3)
    children = bench.split(parent)
    omit_shards(faults, parent)
    result = bench.run([parent, *children], **policy)
    assert "though it can still be read: the list was incomplete" in str(result.errors[parent])
    assert all(isinstance(result.errors[child], ParentUnfinished) for child in children)
    faults.clear()
    result = bench.run([parent, *children], **CONTINUE)
    assert (result.errors, bench.items) == ({}, [1, 2, 3])
    assert bench.at(parent).position == Position.after(arrived)


@BOTH_POLICIES
def test_a_missing_shard_is_not_skipped_if_the_service_denies_access(bench, faults, policy):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    children = bench.split(parent)
    bench.later(hours=30)
    bench.put(2)
    faults.fail("GetShardIterator", status=400, code="AccessDeniedException", shard_id=parent)
    result = bench.run([parent, *children], **policy)
    assert "it is not known whether it has expired" in str(result.errors[parent])
    assert "AccessDeniedException" in str(result.errors[parent])
    assert bench.positions.finished == set()


def test_a_shard_first_listed_as_closed_can_expire_soon_afterwards(bench):
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.later(hours=23)
    bench.plan()
    bench.later(hours=2)
    bench.put(2)
    assert (bench.at(parent).listed_open, bench.shard_ids) == (None, children)
    assert bench.run([parent, *children], **CONTINUE).errors == {}
    assert bench.items == [2]


# The first list of a stream


def test_the_first_list_of_a_young_stream_is_requested_again_if_a_parent_is_missing(bench, faults):
    (parent,) = bench.create()
    bench.put(1)
    children = bench.split(parent)
    bench.put(2)
    omit_shards(faults, parent, times=1)
    result = bench.run([parent, *children])
    assert (result.errors, bench.items) == ({}, [1, 2])


@pytest.mark.parametrize("hours", [0, 23])
def test_no_table_is_created_while_the_first_list_misses_a_parent(bench, faults, hours):
    (parent,) = bench.create()
    children = bench.split(parent)
    bench.later(hours=hours)
    omit_shards(faults, parent)
    with pytest.raises(ShardListIncomplete, match=f"left out the parents {parent}"):
        bench.plan(children)
    with pytest.raises(ShardListIncomplete, match=f"left out the parents {parent}"):
        tick(bench)
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_a_parent_that_expired_before_the_retention_was_raised_is_not_missing(bench):
    (parent,) = bench.create()
    bench.later(hours=1)
    children = bench.split(parent)
    bench.later(hours=25)
    bench.set_retention(168)
    bench.put(1)
    assert bench.shard_ids == children
    assert bench.run(children).errors == {}


def test_a_list_is_requested_again_if_the_unknown_parent_of_a_new_shard_is_missing(bench, faults):
    (first,) = bench.create()
    bench.put(1)
    bench.run()
    for _ in range(3):
        bench.later(hours=20)
        bench.run()
    child, _ = bench.split(first)
    bench.put(2)
    bench.later(seconds=1)
    bench.split(child, part=0.25)
    bench.put(3)
    shard_ids = bench.shard_ids
    omit_shards(faults, child, times=1)
    result = bench.run(shard_ids)
    assert (result.errors, bench.items) == ({}, [1, 2, 3])


def test_a_child_whose_unseen_parent_expired_is_read(bench):
    (first,) = bench.create()
    bench.put(1)
    bench.run()
    child, other = bench.split(first)
    grandchildren = bench.split(child, part=0.25)
    bench.later(hours=25)
    bench.put(2)
    result = bench.run([first, other, *grandchildren], **CONTINUE)
    assert (result.errors, bench.items) == ({}, [1, 2])
    assert child not in bench.positions.shards


def test_the_time_at_which_a_shard_was_first_listed_open_is_kept(bench):
    (shard,) = bench.create()
    bench.run()
    first = bench.now
    bench.later(hours=1)
    bench.put(1)
    bench.run()
    assert bench.at(shard).listed_open == first
    assert bench.at(shard).listed_until == bench.now + timedelta(hours=24)


def test_data_loss_in_a_listed_shard_is_still_reported(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    assert isinstance(bench.run().errors[shard], DataLost)
