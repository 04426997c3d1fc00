"""Importing the leases of a KCL application into a new table."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import (
    CommitFailed,
    InvalidInput,
    LeasesRefused,
    PositionsMissing,
    TableMissing,
)
from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.leases.import_leases import take_over
from kinesis_assets.operations.leases.lease import stream_name_of
from kinesis_assets.operations.leases.starts import ConsumerShard
from kinesis_assets.table.raw_table import PositionedTable
from kinesis_assets.table.snapshot import TableSnapshot
from kinesis_assets.testing import UserRecord, aggregate
from support.aggregates import aggregate_of
from support.copied_table import copy_rows

pytestmark = pytest.mark.slow  # starts moto

BEGINNING = Position.parse("TRIM_HORIZON")


def refusal(handed, **options):
    """Return the reasons of an import that is refused and creates nothing."""
    with pytest.raises(LeasesRefused) as refused:
        handed.take(**options)
    with pytest.raises(TableMissing):
        handed.bench.table.snapshot()
    return refused.value.reasons


def effects(result):
    return [str(shard.effect) for shard in result.values()]


def test_the_table_continues_after_the_last_record_that_was_processed(handed, bench, leases):
    first, second = bench.create(2)
    _, processed, _ = bench.put(1, 2, 3)
    bench.put(4, part=0.5)
    leases.lease(first, processed)
    leases.lease(second, "TRIM_HORIZON")
    result = handed.take()
    assert effects(result) == ["starts", "starts"]
    assert bench.at(first).position == Position.after(processed)
    assert (bench.positions.by, bench.positions.adopted) == ("ann", False)
    bench.run()
    assert bench.items == [3, 4]


@pytest.mark.parametrize(("sub", "left"), [(-1, [1, 2, 3]), (0, [2, 3]), (1, [3]), (2, []), (9, [])])
def test_a_half_read_aggregate_is_continued_inside(handed, bench, leases, sub, left):
    (shard_id,) = bench.create()
    (number,) = bench.put(aggregate_of(1, 2, 3))
    bench.put(4)
    leases.lease(shard_id, number, sub)
    handed.take()
    assert bench.at(shard_id).position.sub_sequence_number == {0: 0, 1: 1}.get(sub)
    bench.run()
    assert bench.items == [*left, 4]


@pytest.mark.parametrize("sub", [-1, 0])
def test_a_record_that_has_expired_is_refused_or_its_gap_announced(handed, bench, leases, sub):
    first, second = bench.create(2)
    (number,) = bench.put(1)
    bench.later(hours=30)
    leases.lease(first, number, sub)
    leases.lease(second, "TRIM_HORIZON")
    assert {key: "on_data_loss: continue" in reason for key, reason in refusal(handed).items()} == {
        first: True
    }
    assert [*refusal(handed, apply=False)] == [first]
    result = handed.take(on_data_loss="continue")
    assert [shard.reason and "records a gap" in shard.reason for shard in result.values()] == [
        True,
        None,
    ]
    assert bench.at(first).position.sub_sequence_number == (None if sub < 0 else sub)
    bench.put(2)
    bench.run(on_data_loss="continue")
    assert bench.items == [2]
    assert len(bench.at(first).gaps) == 1


def test_the_first_number_of_a_shard_has_no_record_and_is_not_taken_for_an_expired_one(bench):
    (shard_id,) = bench.create()
    bench.put(1)
    (shard,) = bench.client.list_shards()
    start = Position.parse(f"AT_SEQUENCE_NUMBER:{shard.starting_sequence_number}")
    consumer = {shard_id: ConsumerShard("file", str(start), start)}
    take_over(bench.client, bench.table, consumer, default=None, on_data_loss="fail", by="ann", apply=True)
    bench.run()
    assert bench.items == [1]


def test_an_imported_position_is_complete_up_to_the_arrival_of_its_record(handed, bench, leases):
    (shard_id,) = bench.create()
    bench.later(hours=50)
    (number,) = bench.put(1)
    arrival = bench.now
    bench.later(hours=1)
    leases.lease(shard_id, number)
    handed.take()
    assert bench.at(shard_id).wanted_from == arrival
    bench.later(hours=22)
    bench.run()  # nothing can have expired


def test_a_finished_parent_is_not_read_again_and_an_unread_child_is_read_from_its_start(
    handed, bench, leases
):
    (parent,) = bench.create()
    bench.put(1)
    left, right = bench.split(parent)
    (last,) = bench.put(2, shard_id=left)
    bench.put(3, shard_id=right)
    leases.lease(parent, "SHARD_END")
    leases.lease(left, last, parentShardId=[parent])
    result = handed.take()
    assert effects(result) == ["finished", "starts", "starts"]
    assert (bench.at(parent).finished, bench.at(right).position) == (True, BEGINNING)
    bench.run()
    assert bench.items == [3]


def test_a_child_waits_for_a_parent_that_is_not_read_to_its_end(handed, bench, leases):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    bench.put(2)
    left, _ = bench.split(parent)
    bench.put(3, shard_id=left)
    leases.lease(parent, number)
    assert effects(handed.take()) == ["starts", "waits", "waits"]
    bench.run()
    bench.run()
    assert bench.items == [2, 3]


def test_a_parent_whose_lease_was_cleaned_up_is_finished(handed, bench, leases):
    (parent,) = bench.create()
    bench.put(1)
    left, right = bench.split(parent)
    for child in (left, right):
        leases.lease(child, "TRIM_HORIZON", parentShardId=[parent])
    result = handed.take()
    assert effects(result) == ["finished", "starts", "starts"]
    assert "is done with it" in result[parent].reason
    assert bench.at(parent).finished


def test_items_of_other_types_are_skipped(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "TRIM_HORIZON", entityType="LEASE", throughputKBps=3, leaseOwner="gone")
    for kind in ("LEADER", "STREAM", "CLIENT_VERSION_MIGRATION", "TABLE_MIGRATION", "WORKER_METRIC_STATS"):
        leases.put(leaseKey=kind, entityType=kind, checkpoint="none of a lease")
    assert [*handed.take()] == [shard_id]


def test_the_leases_of_one_of_several_streams_are_used(handed, bench, leases):
    (shard_id,) = bench.create()
    _, number = bench.put(1, 2)
    bench.put(3)
    own = stream_name_of(bench.client.describe().identity)
    account, name, created = own.split(":")
    for other in (f"{account}:other:{created}", f"{account}:{name}:1", own):
        checkpoint = number if other == own else "SHARD_END"
        leases.lease(f"{other}:{shard_id}", checkpoint, streamName=other, shardId=shard_id)
    handed.take()
    bench.run()
    assert bench.items == [3]


def test_the_plan_creates_nothing(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "TRIM_HORIZON")
    result = handed.take(apply=False)
    assert effects(result) == ["starts"]
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_leases_that_change_within_the_failover_time_are_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "TRIM_HORIZON", leaseOwner="worker")
    handed.meanwhile = lambda: leases.lease(shard_id, "TRIM_HORIZON", leaseOwner="worker", leaseCounter=8)
    assert refusal(handed) == {
        shard_id: "it changed within 10 s, so its owner is alive. Stop the consumer first, and wait "
        "until it has shut down"
    }
    assert handed.waits == [10]


def test_an_application_that_goes_on_with_its_other_streams_only_is_not_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    own = stream_name_of(bench.client.describe().identity)
    leases.lease(f"{own}:{shard_id}", "TRIM_HORIZON", streamName=own, shardId=shard_id)

    def renew():
        leases.lease("1:other:2:shard", "TRIM_HORIZON", streamName="1:other:2", shardId="shard")
        leases.put(leaseKey="Leader", entityType="LEADER", leaseCounter=9)

    handed.meanwhile = renew
    assert effects(handed.take()) == ["starts"]


def test_a_worker_that_owns_no_lease_yet_is_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "TRIM_HORIZON")
    handed.meanwhile = lambda: leases.put(leaseKey="w", entityType="WORKER_METRIC_STATS", leaseCounter=9)
    assert [*refusal(handed)] == ["w"]


def test_a_new_lease_within_the_failover_time_is_refused(handed, bench, leases):
    first, second = bench.create(2)
    leases.lease(first, "TRIM_HORIZON")
    handed.meanwhile = lambda: leases.lease(second, "TRIM_HORIZON")
    assert [*refusal(handed)] == [second]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"pendingCheckpoint": "5", "pendingCheckpointSubSequenceNumber": 0}, "pending checkpoint"),
        ({"checkpointOwner": "old", "leaseOwner": "new"}, "old hands it over to new"),
        ({"leaseCounter": "seven"}, "no leaseCounter"),
        ({"checkpoint": "somewhere"}, "'somewhere'"),
        ({"checkpoint": "12", "checkpointSubSequenceNumber": -2}, "'12'"),
        ({"checkpoint": "0" * 56}, "invalid sequence number"),
        ({"entityType": "SOMETHING_NEW"}, "'SOMETHING_NEW'"),
        ({"entityType": "SOMETHING_NEW"}, "--from json"),
        ({"streamName": "1:other:2"}, "unlike its key"),
    ],
)
def test_an_item_that_is_not_understood_is_refused(handed, bench, leases, attributes, reason):
    (shard_id,) = bench.create()
    if "streamName" in attributes:
        attributes = {"streamName": stream_name_of(bench.client.describe().identity)}
    leases.lease(shard_id, "TRIM_HORIZON", **attributes)
    ((name, found),) = refusal(handed).items()
    assert shard_id in name
    assert reason in found


def test_an_item_of_another_kind_of_table_is_refused(handed, bench, leases):
    bench.create()
    leases.put(leaseKey="x", entityType="?")
    assert "item x" in refusal(handed)


def test_leases_of_both_layouts_are_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    own = stream_name_of(bench.client.describe().identity)
    leases.lease(shard_id, "TRIM_HORIZON")
    leases.lease(f"{own}:{shard_id}", "TRIM_HORIZON", streamName=own, shardId=shard_id)
    assert [*refusal(handed)] == ["lease table"]


def test_leases_of_other_streams_only_are_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(f"1:other:2:{shard_id}", "TRIM_HORIZON", streamName="1:other:2", shardId=shard_id)
    assert "1:other:2" in refusal(handed)["lease table"]


@pytest.mark.parametrize("checkpoint", ["LATEST", "AT_TIMESTAMP"])
def test_a_lease_without_a_time_needs_a_given_start(handed, bench, leases, checkpoint):
    (shard_id,) = bench.create()
    bench.put(1)
    time = bench.later(minutes=1)
    bench.put(2)
    leases.lease(shard_id, checkpoint)
    assert "--default" in refusal(handed)[shard_id]
    result = handed.take(default=f"AT_TIMESTAMP:{time.isoformat()}")
    assert "the given one" in result[shard_id].reason
    bench.run()
    assert bench.items == [2]


def test_an_empty_lease_table_is_refused_whatever_the_default_is(handed, bench):
    bench.create()
    with pytest.raises(InvalidInput, match="stores no position"):
        handed.take(default="TRIM_HORIZON")
    with pytest.raises(TableMissing):
        bench.table.snapshot()


def test_a_shard_of_which_nothing_is_stored_needs_a_given_start(handed, bench, leases):
    first, second = bench.create(2)
    leases.lease(first, "TRIM_HORIZON")
    assert [*refusal(handed)] == [second]
    handed.take(default="TRIM_HORIZON")
    assert bench.at(second).position == BEGINNING


def test_a_lease_at_the_end_of_an_open_shard_is_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "SHARD_END")
    assert "lists it as open" in refusal(handed)[shard_id]


def test_a_lease_of_an_older_stream_of_the_name_is_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "12345")
    assert "older stream" in refusal(handed)[shard_id]


def test_a_lease_with_another_hash_range_is_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "TRIM_HORIZON", startingHashKey="0", endingHashKey="99")
    assert "0-99" in refusal(handed)[shard_id]


def test_a_shard_that_expired_unread_is_refused_or_given_up_with_its_gap(handed, bench, leases):
    (parent,) = bench.create()
    (number,) = bench.put(1)
    left, right = bench.split(parent)
    bench.later(hours=30)
    leases.lease(parent, number)
    assert "on_data_loss: continue" in refusal(handed)[parent]
    result = handed.take(on_data_loss="continue")
    assert effects(result) == ["given up", "starts", "starts"]
    assert (bench.at(parent).finished, len(bench.at(parent).gaps)) == (True, 1)
    bench.put(2, shard_id=left)
    bench.run([left, right])
    assert bench.items == [2]


def test_an_expired_shard_that_was_read_to_its_end_is_left_out(handed, bench, leases):
    (parent,) = bench.create()
    children = bench.split(parent)
    bench.later(hours=30)
    leases.lease(parent, "SHARD_END")
    assert [*handed.take()] == children


def test_a_sequence_number_that_kinesis_rejects_is_refused(handed, bench, leases):
    first, second = bench.create(2)
    (number,) = bench.put(1, shard_id=second)
    leases.lease(first, number)
    leases.lease(second, number)
    with pytest.raises(InvalidInput, match=first):
        handed.take()


# Tables that exist


def test_a_table_with_positions_is_refused_and_compared(handed, bench, leases, tmp_path):
    first, second, third = bench.create(3)
    numbers = bench.put(1, 2, 3, shard_id=first)
    bench.put(4, shard_id=second)
    bench.run(max_records=2)
    leases.lease(first, numbers[0])
    leases.lease(second, "TRIM_HORIZON")
    leases.lease(third, "TRIM_HORIZON")
    assert effects(handed.take(apply=False)) == ["reads again", "reads again", "same"]
    leases.lease(first, numbers[2])
    assert effects(handed.take(apply=False))[0] == "skips"
    version = bench.version
    with pytest.raises(InvalidInput, match=r"Import into a new table; or .* `kinesis-assets seek`"):
        handed.take()
    assert bench.version == version
    bench.table = PositionedTable(str(tmp_path / "new"))
    handed.take()
    assert (bench.run().errors, bench.items) == ({}, [4])


def test_a_table_with_rows_and_no_positions_is_refused(handed, bench, leases):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    copy_rows(bench)
    leases.lease(shard_id, "TRIM_HORIZON")
    with pytest.raises(PositionsMissing):
        handed.take(apply=False)


def test_an_import_after_which_a_run_commits_first_is_refused(handed, bench, leases, monkeypatch):
    (shard_id,) = bench.create()
    leases.lease(shard_id, "TRIM_HORIZON")
    bench.put(1)
    claim = type(bench.table).create_if_missing

    def create(table, *arguments):
        monkeypatch.undo()
        opened = claim(table, *arguments)
        bench.run()
        return opened

    monkeypatch.setattr(type(bench.table), "create_if_missing", create)
    with pytest.raises(CommitFailed, match="a run or another import has committed"):
        handed.take()
    assert bench.items == [1]


def test_an_import_whose_response_is_lost_is_found(handed, bench, leases, monkeypatch):
    (shard_id,) = bench.create()
    _, number = bench.put(1, 2)
    bench.put(3)
    leases.lease(shard_id, number)
    commit = TableSnapshot.commit

    def lost(*arguments, **named):
        monkeypatch.setattr(TableSnapshot, "commit", commit)
        commit(*arguments, **named)
        bench.run()
        raise OSError("connection reset")

    monkeypatch.setattr(TableSnapshot, "commit", lost)
    assert effects(handed.take()) == ["starts"]
    assert bench.items == [3]


def test_sub_records_of_another_shard_are_not_read_as_the_rest_of_an_aggregate(handed, bench, leases):
    (shard_id,) = bench.create()
    (number,) = bench.put(aggregate([UserRecord("k", b"1", "0"), UserRecord("k", b"2", str((1 << 128) - 1))]))
    leases.lease(shard_id, number, 0)
    handed.take()
    assert bench.at(shard_id).position == Position.after(number, 0)
