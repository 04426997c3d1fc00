"""Exporting the positions of a table to the lease table of a KCL application."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import (
    InvalidInput,
    LeasesRefused,
    LeaseTableFailed,
    ShardListStale,
    TableRewritten,
)
from kinesis_assets.operations.catch_up import jump
from kinesis_assets.operations.leases import export_leases
from kinesis_assets.operations.leases.lease import stream_name_of
from kinesis_assets.operations.leases.lease_table import LeaseTable
from kinesis_assets.table.run_files.heartbeat import HEARTBEATS_FOLDER
from kinesis_assets.table.run_files.pause import resume
from kinesis_assets.table.store.storage import write_new
from support.aggregates import aggregate_of
from support.catch_ups import fill_gaps

pytestmark = pytest.mark.slow  # starts moto

LAST_KEY = str((1 << 128) - 1)


def effects(result):
    return [str(shard.effect) for shard in result.values()]


def heartbeat(bench, run, content=b""):
    with write_new(bench.table.files, f"{HEARTBEATS_FOLDER}/{run}") as file:
        file.write(content)


@pytest.fixture
def read(handed, bench):
    """A paused stream, of which the table has the first record of two."""
    (shard_id,) = bench.create()
    numbers = bench.put(1, 2)
    bench.run(max_records=1)
    handed.pause()
    return shard_id, *numbers


def test_a_new_lease_has_what_the_kcl_needs_and_no_owner(handed, leases, read):
    shard_id, number, _ = read
    assert effects(handed.hand()) == ["new"]
    assert leases.items == {
        shard_id: {
            "leaseKey": shard_id,
            "leaseCounter": 0,
            "ownerSwitchesSinceCheckpoint": 0,
            "checkpoint": number,
            "checkpointSubSequenceNumber": 0,
            "startingHashKey": "0",
            "endingHashKey": LAST_KEY,
        }
    }


def test_a_lease_is_changed_and_keeps_what_the_kcl_stores_besides(handed, leases, read):
    shard_id, number, _ = read
    leases.lease(shard_id, "TRIM_HORIZON", leaseOwner="gone", throughputKBps=3, entityType="LEASE")
    leases.put(leaseKey="Leader", entityType="LEADER")
    assert effects(handed.hand()) == ["forward"]
    assert leases.items == {
        "Leader": {"leaseKey": "Leader", "entityType": "LEADER"},
        shard_id: {
            "leaseKey": shard_id,
            "leaseCounter": 8,
            "ownerSwitchesSinceCheckpoint": 0,
            "checkpoint": number,
            "checkpointSubSequenceNumber": 0,
            "startingHashKey": "0",
            "endingHashKey": LAST_KEY,
            "throughputKBps": 3,
            "entityType": "LEASE",
        },
    }


@pytest.mark.parametrize(
    ("checkpoint", "effect"), [("SHARD_END", "back"), ("LATEST", "replaced"), ("TRIM_HORIZON", "forward")]
)
def test_the_plan_compares_with_the_lease_and_writes_nothing(handed, bench, leases, read, checkpoint, effect):
    bench.split(read[0])
    leases.lease(read[0], checkpoint)
    before = leases.items
    result = handed.hand(apply=False)
    assert (effects(result), leases.items) == ([effect, "new", "new"], before)


def test_an_export_may_be_repeated(handed, leases, read):
    handed.hand()
    assert effects(handed.hand()) == ["same"]
    assert leases.items[read[0]]["leaseCounter"] == 1


@pytest.mark.parametrize(("records", "sub"), [(1, 0), (2, 1), (3, 2)])
def test_a_half_read_aggregate_is_handed_over_at_its_sub_record(handed, bench, leases, records, sub):
    (shard_id,) = bench.create()
    (number,) = bench.put(aggregate_of(1, 2, 3))
    bench.run(max_records=records)
    handed.pause()
    handed.hand()
    lease = leases.items[shard_id]
    assert (lease["checkpoint"], lease["checkpointSubSequenceNumber"]) == (number, sub)


def test_nothing_is_left_of_a_record_that_cannot_be_read(handed, bench, leases):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    handed.pause()
    handed.hand()
    assert leases.items[shard_id]["checkpointSubSequenceNumber"] == (1 << 63) - 1


def test_finished_parents_end_and_unread_children_start_at_the_trim_horizon(handed, bench, leases):
    (parent,) = bench.create()
    bench.put(1)
    bench.run()
    left, right = bench.split(parent)
    bench.run([parent])
    handed.pause()
    handed.hand()
    assert leases.items[parent]["checkpoint"] == "SHARD_END"
    assert leases.items[parent]["childShardIds"] == [left, right]
    for child in (left, right):
        assert leases.items[child]["checkpoint"] == "TRIM_HORIZON"
        assert leases.items[child]["parentShardId"] == [parent]
        assert "childShardIds" not in leases.items[child]


def test_an_expired_parent_ends_if_it_has_a_lease_and_gets_none_otherwise(handed, bench, leases):
    first, second = bench.create(2)
    bench.run()
    children = [*bench.split(first), *bench.split(second)]
    bench.run([first, second])
    bench.later(hours=30)
    bench.run(children)
    handed.pause()
    leases.lease(first, "12")
    assert effects(handed.hand()) == ["forward", "new", "new", "new", "new"]
    assert leases.items[first]["checkpoint"] == "SHARD_END"
    assert second not in leases.items


@pytest.mark.usefixtures("read")
def test_a_lease_of_which_the_table_knows_nothing_is_kept(handed, leases):
    leases.lease("shardId-000000000099", "12")
    assert effects(handed.hand()) == ["kept", "new"]
    assert leases.items["shardId-000000000099"]["leaseCounter"] == 7


def test_an_expired_shard_that_the_table_has_not_finished_keeps_its_lease(handed, bench, leases):
    (parent,) = bench.create()
    bench.run()
    left, right = bench.split(parent)
    bench.later(hours=30)
    handed.pause()
    leases.lease(parent, "12")
    assert effects(handed.hand()) == ["kept", "new", "new"]
    assert leases.items[parent]["checkpoint"] == "12"
    assert {leases.items[child]["checkpoint"] for child in (left, right)} == {"TRIM_HORIZON"}


def test_a_closed_shard_that_is_not_read_to_its_end_has_no_children_yet(handed, bench, leases, read):
    bench.split(read[0])
    handed.hand()
    assert leases.items[read[0]]["checkpoint"] == read[1]
    assert "childShardIds" not in leases.items[read[0]]


@pytest.mark.parametrize("given", [True, False], ids=["an empty table", "a table with leases of another"])
def test_leases_of_one_of_several_streams_are_named_for_it(handed, bench, leases, read, given):
    shard_id, number, _ = read
    own = stream_name_of(bench.client.describe().identity)
    if not given:
        leases.lease(f"{own}:{shard_id}", "TRIM_HORIZON", streamName=own, shardId=shard_id)
    handed.hand(several_streams=given)
    lease = leases.items[f"{own}:{shard_id}"]
    assert (lease["streamName"], lease["shardId"], lease["checkpoint"]) == (own, shard_id, number)


@pytest.mark.usefixtures("read")
def test_a_stream_is_added_to_those_of_an_application_only_if_that_is_asked_for(handed, bench, leases):
    leases.lease("1:other:2:shard", "12", streamName="1:other:2", shardId="shard")
    with pytest.raises(LeasesRefused, match="leases of 1:other:2, but none of"):
        handed.hand()
    handed.hand(several_streams=True)
    own = stream_name_of(bench.client.describe().identity)
    assert {lease["streamName"] for lease in leases.items.values()} == {"1:other:2", own}


def test_the_table_of_an_application_with_one_stream_keeps_its_layout(handed, leases, read):
    leases.lease(read[0], "TRIM_HORIZON")
    with pytest.raises(LeasesRefused, match="with one stream"):
        handed.hand(several_streams=True)


# Positions without a record


def test_a_position_at_a_record_is_before_its_first_sub_record(handed, bench, leases):
    (shard_id,) = bench.create()
    (number, _) = bench.put(1, 2)
    bench.plan(start=f"AT_SEQUENCE_NUMBER:{number}")
    handed.pause()
    handed.hand()
    lease = leases.items[shard_id]
    assert (lease["checkpoint"], lease["checkpointSubSequenceNumber"]) == (number, -1)


def test_a_time_before_all_records_is_the_trim_horizon(handed, bench, leases):
    first, second = bench.create(2)
    bench.plan(start="LATEST")
    bench.later(seconds=2)
    bench.put(1, shard_id=second)
    handed.pause()
    handed.hand()
    assert [leases.items[each]["checkpoint"] for each in (first, second)] == ["TRIM_HORIZON"] * 2


@pytest.mark.parametrize(
    "age", [{"seconds": 2}, {"hours": 23.5}], ids=["after a new record", "after one that expires soon"]
)
def test_a_time_is_handed_over_as_its_first_record_or_refused_without_one(handed, bench, leases, age):
    (shard_id,) = bench.create()
    bench.put(1)
    bench.later(**age)
    bench.plan(start="LATEST")
    handed.pause()
    with pytest.raises(LeasesRefused, match="Resume the stream until a run has read a record"):
        handed.hand()
    assert leases.items == {}
    bench.later(seconds=2)
    (number,) = bench.put(2)
    handed.hand()
    lease = leases.items[shard_id]
    assert (lease["checkpoint"], lease["checkpointSubSequenceNumber"]) == (number, -1)


@pytest.mark.parametrize("behind_ms", [0, 1000], ids=["and says that it is the tip", "and goes on after it"])
@pytest.mark.parametrize("records", [1, 2])
def test_a_response_that_omits_the_record_before_a_time_does_not_make_it_the_trim_horizon(
    handed, bench, leases, faults, records, behind_ms
):
    (shard_id,) = bench.create()
    (older,) = bench.put(1)
    bench.later(seconds=2)
    bench.plan(start="LATEST")
    bench.later(seconds=2)
    later = bench.put(*range(2, records + 1))
    handed.pause()
    left = [1]

    def omit(_call, response):
        found = response.members["Records"]
        if not left[0] or not found or found[0]["SequenceNumber"] != older:
            return None
        left[0] -= 1
        return response.but(Records=found[1:], MillisBehindLatest=behind_ms)

    faults.answer("GetRecords", omit)
    if later:
        handed.hand()
        assert leases.items[shard_id]["checkpoint"] == later[0]
    else:
        with pytest.raises(LeasesRefused, match="has older records but no newer one"):
            handed.hand()
    assert left == [0]


# Refusals


def test_records_that_a_catch_up_has_not_yet_added_are_refused(handed, bench, leases):
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(minutes=2)
    bench.put(2)
    bench.later(minutes=2)
    bench.put(3)
    (shard_id,) = jump(bench.client, bench.table, by="ann", apply=True).moves
    handed.pause()
    for apply in (False, True):
        with pytest.raises(LeasesRefused) as refused:
            handed.hand(apply=apply)
        assert "`kinesis-assets catch-up --apply`" in refused.value.reasons[shard_id]
    assert leases.items == {}
    assert fill_gaps(bench) == {}
    assert effects(handed.hand()) == ["new"]


@pytest.mark.usefixtures("read")
def test_a_stream_that_is_not_paused_is_refused(handed, bench, leases):
    resume(bench.table)
    assert effects(handed.hand(apply=False)) == ["new"]
    with pytest.raises(InvalidInput, match=r"Run `kinesis-assets pause`, .* export again"):
        handed.hand()
    assert leases.items == {}
    handed.pause()
    assert effects(handed.hand()) == ["new"]


def test_a_run_in_progress_is_refused_and_a_dead_one_is_not(handed, bench, leases, read):
    heartbeat(bench, "alive")
    heartbeat(bench, "dead")
    heartbeat(bench, "over", b"ended")
    handed.meanwhile = lambda: heartbeat(bench, "alive")
    with pytest.raises(InvalidInput, match="the run alive is in progress"):
        handed.hand()
    assert handed.waits == [65]
    handed.meanwhile = lambda: None
    handed.hand()
    assert read[0] in leases.items


@pytest.mark.usefixtures("read")
def test_a_run_that_begins_just_after_the_pause_is_refused(handed, bench, leases):
    handed.meanwhile = lambda: heartbeat(bench, "late")
    with pytest.raises(InvalidInput, match="the run late is in progress"):
        handed.hand()
    assert (handed.waits, leases.items) == ([5], {})


@pytest.mark.usefixtures("read")
def test_a_run_that_begins_during_the_export_is_an_error(handed, bench, monkeypatch):
    put = LeaseTable.put
    heartbeat(bench, "dead")

    def late(*arguments):
        heartbeat(bench, "late")
        return put(*arguments)

    monkeypatch.setattr(LeaseTable, "put", late)
    with pytest.raises(LeaseTableFailed, match="the run late is in progress") as failed:
        handed.hand()
    assert "Do not start the application" in str(failed.value)


@pytest.mark.usefixtures("read")
def test_a_table_that_cannot_be_read_after_the_export_is_no_success(handed, monkeypatch):
    put = LeaseTable.put

    def late(*arguments):
        def unreachable(_):
            raise OSError("no route")

        monkeypatch.setattr(export_leases, "heartbeats", unreachable)
        return put(*arguments)

    monkeypatch.setattr(LeaseTable, "put", late)
    with pytest.raises(LeaseTableFailed, match=r"no route.*Do not start the application"):
        handed.hand()


def test_a_worker_that_renews_its_leases_is_refused(handed, leases, read):
    leases.lease(read[0], "TRIM_HORIZON", leaseOwner="worker")
    handed.meanwhile = lambda: leases.lease(
        read[0], "TRIM_HORIZON", leaseOwner="worker", leaseCounter=8 + len(handed.waits)
    )
    with pytest.raises(LeasesRefused, match="its owner is alive"):
        handed.hand()
    assert leases.items[read[0]]["checkpoint"] == "TRIM_HORIZON"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"leaseOwner": "a"}, {"leaseCounter": 8, "leaseOwner": "a"}),
        ({}, {"leaseOwner": "a"}),
        ({}, {"checkpointSubSequenceNumber": 1}),
    ],
)
def test_a_lease_that_changes_just_before_it_is_written_is_refused(
    handed, leases, read, monkeypatch, before, now
):
    shard_id, number, _ = read
    leases.lease(shard_id, number, **before)
    update = LeaseTable.update

    def late(*arguments):
        leases.lease(shard_id, number, **now)
        return update(*arguments)

    monkeypatch.setattr(LeaseTable, "update", late)
    with pytest.raises(LeaseTableFailed, match=f"the lease of {shard_id} changed during the export"):
        handed.hand()
    assert leases.items[shard_id]["leaseCounter"] == now.get("leaseCounter", 7)


def test_a_lease_that_appears_just_before_it_is_written_is_refused(handed, leases, read, monkeypatch):
    put = LeaseTable.put

    def late(*arguments):
        leases.lease(read[0], "12")
        return put(*arguments)

    monkeypatch.setattr(LeaseTable, "put", late)
    with pytest.raises(
        LeaseTableFailed, match=r"after 0 of 1 leases were written.*Do not start the application"
    ):
        handed.hand()
    assert leases.items[read[0]]["checkpoint"] == "12"


@pytest.mark.parametrize("exists", [True, False])
def test_an_export_that_fails_halfway_says_so(handed, bench, leases, monkeypatch, exists):
    shard_ids = bench.create(3)
    bench.run()
    handed.pause()
    for shard_id in shard_ids if exists else ():
        leases.lease(shard_id, "LATEST")
    operation = "update" if exists else "put"
    write = getattr(LeaseTable, operation)
    calls = []

    def throttled(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise LeaseTableFailed("PutItem failed", advice="Raise its capacity", code="ThrottlingException")
        return write(*arguments)

    monkeypatch.setattr(LeaseTable, operation, throttled)
    with pytest.raises(LeaseTableFailed) as failed:
        handed.hand()
    assert str(failed.value) == (
        "PutItem failed, after 1 of 3 leases were written. Do not start the application: it would skip "
        "or repeat records of the other shards. Export again, until that succeeds. Raise its capacity"
    )
    monkeypatch.undo()
    assert effects(handed.hand()).count("same") == 1


@pytest.mark.usefixtures("read")
def test_a_run_that_commits_during_the_export_is_an_error(handed, bench, monkeypatch):
    put = LeaseTable.put

    def late(*arguments):
        resume(bench.table)
        bench.run()
        return put(*arguments)

    monkeypatch.setattr(LeaseTable, "put", late)
    with pytest.raises(LeaseTableFailed, match="was read on during the export"):
        handed.hand()


@pytest.mark.parametrize(
    "attributes", [{"pendingCheckpoint": "5"}, {"checkpointOwner": "old"}, {"leaseCounter": "x"}]
)
def test_a_lease_in_transition_is_refused(handed, leases, read, attributes):
    leases.lease(read[0], "12", **attributes)
    with pytest.raises(LeasesRefused):
        handed.hand()


def test_a_lease_with_another_hash_range_is_refused(handed, leases, read):
    leases.lease(read[0], "12", startingHashKey="0", endingHashKey="99")
    with pytest.raises(LeasesRefused, match="hash range 0-99, but the stream lists 0-"):
        handed.hand()


def test_a_lease_before_the_first_number_of_the_shard_is_that_of_another_application(handed, leases, read):
    shard_id, number, _ = read
    leases.lease(shard_id, number[:40])
    before = leases.items
    for apply in (False, True):
        with pytest.raises(LeasesRefused, match="name of the lease table") as refused:
            handed.hand(apply=apply)
        assert "before the shard's first sequence number" in refused.value.reasons[shard_id]
    assert leases.items == before


def test_a_lease_at_a_number_that_kinesis_rejects_is_that_of_another_application(handed, bench, leases):
    first, second = bench.create(2)
    (number,) = bench.put(1, shard_id=second)
    bench.run()
    handed.pause()
    leases.lease(first, number)
    with pytest.raises(LeasesRefused) as refused:
        handed.hand()
    assert [*refused.value.reasons] == [first]
    assert "Kinesis rejects" in refused.value.reasons[first]
    assert leases.items.keys() == {first}


def test_a_table_without_positions_is_refused(handed, bench):
    bench.create()
    bench.table.create_if_missing()
    handed.pause()
    with pytest.raises(InvalidInput, match="nothing to export"):
        handed.hand()


@pytest.mark.usefixtures("read")
def test_a_restored_table_is_refused(handed, bench):
    resume(bench.table)
    bench.run()
    bench.restore(bench.version - 1)
    handed.pause()
    with pytest.raises(TableRewritten):
        handed.hand()


def test_a_shard_that_is_finished_here_and_open_there_is_refused(handed, bench, read):
    bench.forge_shards(read[0], finished=True)
    with pytest.raises(ShardListStale):
        handed.hand()


@pytest.mark.usefixtures("read")
def test_a_missing_lease_table_is_an_error_with_the_command_that_creates_it(handed, leases):
    leases.dynamodb.delete_table(TableName=leases.name)
    with pytest.raises(LeaseTableFailed, match="aws dynamodb create-table"):
        handed.hand()
