"""What a run tells of records that may have expired unread, what it does then, and how long there is left."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from kinesis_assets.cli.command_line import commands
from kinesis_assets.dagster.metadata import event_metadata
from kinesis_assets.errors import DataLost, ParentUnfinished, ReadFailed, ShardVanished
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.table.positions import FORMAT
from kinesis_assets.testing import UserRecord, aggregate

BEGINNING = Position(PositionKind.TRIM_HORIZON)
CONTINUE = {"on_data_loss": "continue"}
HOUR_MS = 3_600_000


def states(result):
    return {shard_id: outcome.state for shard_id, outcome in result.outcomes.items()}


def lost_in(result):
    """The shards of which loss is told, and no other error is there."""
    assert all(isinstance(error, DataLost) for error in result.errors.values())
    return set(result.errors)


# Told


def test_records_that_expired_unread_are_told_and_position_and_table_stay(bench):
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


def test_loss_is_told_by_every_run_until_someone_chooses(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    for _ in range(3):
        assert lost_in(bench.run()) == {shard}
        bench.later(hours=1)
    assert bench.items == [1]


def test_a_shard_with_loss_does_not_hold_back_its_neighbours(bench):
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


def test_falling_over_the_edge_in_the_middle_of_a_run_keeps_what_was_read_before(bench, faults):
    (shard,) = bench.create()
    _, first, _, _ = bench.put(1, 2, 3, 4)
    bench.run(max_records=1)
    bench.later(hours=20)
    (available,) = bench.put(5)
    faults.page_size(1)
    faults.before("GetRecords", lambda: bench.later(hours=5), after=1, times=1)
    result = bench.run()
    assert lost_in(result) == {shard}
    assert f"read up to AFTER_SEQUENCE_NUMBER:{first}" in str(result.errors[shard])
    assert f"first available record: {available}" in str(result.errors[shard])
    assert (bench.items, bench.at(shard).position) == ([1, 2], Position.after(first))


def test_a_first_run_that_was_aborted_and_followed_up_too_late_is_told(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.plan()  # and then dies
    bench.later(hours=30)
    bench.put(2)
    assert lost_in(bench.run()) == {shard}


def test_a_shard_that_failed_for_longer_than_the_retention_since_the_first_plan_is_told(bench, faults):
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
    assert lost_in(bench.run()) == {first}
    assert bench.items == [2, 4]


def test_a_start_at_a_time_before_the_retention_is_told(bench):
    (shard,) = bench.create()
    bench.put(1)
    start = bench.now
    bench.later(hours=30)
    bench.put(2)
    assert lost_in(bench.run(start=f"AT_TIMESTAMP:{start.isoformat()}")) == {shard}


def test_a_start_at_a_time_before_there_was_a_stream_is_no_loss(bench):
    before = bench.now - timedelta(days=300)
    bench.create()
    bench.put(1)
    assert bench.run(start=f"AT_TIMESTAMP:{before.isoformat()}").errors == {}
    assert bench.items == [1]


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_start_at_a_record_that_has_expired_is_told(bench, kind):
    (shard,) = bench.create()
    number, _ = bench.put(1, 2)
    bench.later(hours=30)
    bench.put(3)
    assert lost_in(bench.run(start=f"{kind}:{number}")) == {shard}


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_a_start_at_a_record_that_is_there_is_no_loss_however_old_the_stream_is(bench, kind):
    bench.create()
    bench.put(1)
    bench.later(hours=30)
    number, _ = bench.put(2, 3)
    bench.later(hours=20)
    assert bench.run(start=f"{kind}:{number}").errors == {}
    assert bench.items == ([2, 3] if kind == "AT_SEQUENCE_NUMBER" else [3])


def test_a_child_first_listed_after_longer_than_the_retention_is_told(bench):
    (parent,) = bench.create()
    bench.put(1)
    plan, since = bench.plan(), bench.now
    child, other = bench.split(parent)
    bench.put(2)
    assert bench.execute(plan).outcomes[parent].state is ShardState.FINISHED
    bench.later(hours=30)
    (available,) = bench.put(3)
    result = bench.run([child, other])
    assert lost_in(result) == {child, other}
    assert f"read up to TRIM_HORIZON, complete until {since:%Y-%m-%dT%H:%M:%SZ}" in str(result.errors[child])
    assert f"first available record: {available}" in str(result.errors[child])
    assert bench.items == [1]


def test_a_child_first_listed_within_the_retention_lost_nothing_however_old_the_stream_is(bench):
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


def test_a_grandchild_of_shards_that_nobody_ever_saw_is_told(bench):
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
    assert grandchild in lost_in(bench.run())


# Not told


def test_an_idle_shard_read_every_20_hours_for_30_days_lost_nothing(bench):
    bench.create()
    bench.put(1)
    bench.run()
    for _ in range(36):
        bench.later(hours=20)
        assert bench.run().errors == {}
    bench.put(2)
    bench.later(hours=20)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


def test_an_idle_shard_read_every_59_minutes_is_as_fresh_as_if_all_was_committed(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    for _ in range(27):
        bench.later(minutes=59)
        bench.run()
    assert bench.now - bench.at(shard).tip_time < timedelta(hours=1)
    bench.later(hours=23)
    bench.put(2)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


def test_a_consumer_that_is_always_20_hours_behind_lost_nothing(bench):
    (shard,) = bench.create()
    for item in range(20):
        bench.put(item)
        bench.later(hours=1)
    for item in range(20, 60):
        bench.put(item)
        outcome = bench.run(max_records=1).outcomes[shard]
        assert outcome.error is None
        assert (outcome.lag_ms, outcome.time_to_loss_ms) == (19 * HOUR_MS, 5 * HOUR_MS)
        bench.later(hours=1)
    assert bench.items == list(range(40))
    bench.later(hours=5)
    assert lost_in(bench.run()) == {shard}


def test_a_first_run_at_the_horizon_of_a_stream_older_than_its_retention_lost_nothing(bench):
    bench.create()
    for item in range(30):
        bench.put(item)
        bench.later(hours=1)
    assert bench.run(start="TRIM_HORIZON").errors == {}
    assert bench.items == list(range(6, 30))
    assert bench.run().errors == {}


def test_a_first_run_at_the_horizon_is_told_nothing_though_records_expire_while_it_reads(bench, faults):
    bench.create()
    for item in range(30):
        bench.put(item)
        bench.later(hours=1)
    faults.page_size(1)
    faults.before("GetRecords", lambda: bench.later(hours=2), after=1, times=3)
    assert bench.run().errors == {}
    assert bench.items == [6, *range(12, 30)]


def test_a_long_retention_is_counted_as_it_is(bench):
    (shard,) = bench.create()
    bench.set_retention(168)
    bench.put(1)
    bench.run()
    bench.put(2)
    bench.later(hours=167)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]
    bench.later(hours=169)
    assert lost_in(bench.run()) == {shard}


@pytest.mark.parametrize("gone", [False, True])
def test_the_last_record_still_being_there_proves_that_nothing_is_lost(bench, faults, gone):
    first, second = bench.create(2)
    bench.set_retention(168)
    (number,) = bench.put(aggregate(UserRecord("k", str(item).encode()) for item in range(1, 5)))
    bench.put(5, 6, part=0.5)
    bench.run(max_records=1)
    assert bench.at(first).position == Position.after(number, 0)
    bench.set_retention(24)
    bench.run([second], max_records=1)  # sees that retention
    bench.put(7, 8, part=0.5)
    bench.set_retention(168)
    bench.later(hours=30)
    if gone:
        faults.trim(bench.stream)
    assert lost_in(bench.run()) == ({first, second} if gone else set())
    assert bench.items == ([1, 5, 6] if gone else [1, 2, 3, 4, 5, 6, 7, 8])


# The lowest retention seen


def test_a_retention_lowered_and_raised_again_while_a_shard_was_not_read_is_told(bench):
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
    assert lost_in(bench.run([first])) == {first}


def test_a_retention_lowered_when_a_shard_was_last_read_and_raised_since_is_told(bench):
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
    assert lost_in(bench.run()) == {shard}


def test_a_lowered_retention_that_only_an_idle_run_saw_is_told_when_it_was_raised_since(bench):
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
    assert lost_in(bench.run()) == {shard}


def test_a_lowered_retention_is_forgotten_once_all_is_read_under_a_higher_one(bench):
    bench.create()
    bench.run()
    bench.later(hours=1)
    bench.set_retention(168)
    bench.run()
    bench.put(1)
    bench.later(hours=100)
    assert bench.run().errors == {}
    assert bench.items == [1]


# Gone on after


def test_going_on_records_the_gap_in_commit_outcome_and_metadata_and_reads_what_there_is(bench):
    (shard,) = bench.create()
    (last,) = bench.put(1)
    bench.run()
    since = bench.now
    bench.put(2)
    bench.later(hours=30)
    arrival = bench.now
    available, newest = bench.put(3, 4)
    result = bench.run(**CONTINUE)
    outcome = result.outcomes[shard]
    gap = Gap(after=Position.after(last), since=since, next_sequence_number=available, until=arrival)
    assert (outcome.state, outcome.error, outcome.gaps) == (ShardState.COMMITTED, None, (gap,))
    assert bench.at(shard).gaps == (gap,)
    assert event_metadata(bench.stream, outcome, result)["gaps"].value == str(gap)
    assert (bench.items, bench.at(shard).position) == ([1, 3, 4], Position.after(newest))


def test_after_going_on_the_next_run_has_nothing_to_tell(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    bench.run(**CONTINUE)
    bench.put(3)
    bench.later(hours=1)
    result = bench.run()
    assert (result.errors, result.outcomes[shard].gaps, len(bench.at(shard).gaps)) == ({}, (), 1)
    assert bench.items == [1, 2, 3]


def test_going_on_where_nothing_is_left_records_that_and_moves_no_sequence_number(bench):
    (shard,) = bench.create()
    (last,) = bench.put(1)
    bench.run()
    since = bench.now
    bench.later(hours=30)
    seen = bench.now
    bench.run(**CONTINUE)
    after = bench.at(shard)
    assert after.position == Position.after(last)
    assert after.gaps == (
        Gap(after=Position.after(last), since=since, next_sequence_number=None, until=seen),
    )
    bench.later(hours=1)
    bench.put(2)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


def test_each_gap_is_kept_oldest_first(bench):
    (shard,) = bench.create()
    numbers = [*bench.put(0)]
    bench.run()
    for item in (1, 2):
        bench.later(hours=30)
        numbers += bench.put(item)
        bench.run(**CONTINUE)
    gaps = bench.at(shard).gaps
    assert [gap.next_sequence_number for gap in gaps] == numbers[1:]
    assert [gap.after for gap in gaps] == [Position.after(number) for number in numbers[:2]]


def test_both_gaps_of_one_reading_are_recorded(bench, faults):
    (shard,) = bench.create()
    (last,) = bench.put(1)
    bench.run()
    bench.later(hours=17)
    (second,) = bench.put(2)
    bench.later(hours=22)
    (third,) = bench.put(3)
    faults.page_size(1)
    faults.before("GetRecords", lambda: bench.later(hours=3), after=1, times=1)
    bench.run(**CONTINUE)
    assert bench.items == [1, 2, 3]
    assert [(gap.after, gap.next_sequence_number) for gap in bench.at(shard).gaps] == [
        (Position.after(last), second),
        (Position.after(second), third),
    ]


def test_a_gap_after_which_nothing_was_read_yet_is_recorded_and_told_once(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    plan = bench.plan(**CONTINUE)
    bench.later(seconds=5)
    bench.put(2)  # after the planned time: the next run's
    assert bench.execute(plan).outcomes[shard].rows == 0
    assert len(bench.at(shard).gaps) == 1
    assert bench.run().errors == {}
    assert (len(bench.at(shard).gaps), bench.items) == (1, [1, 2])


def test_a_gap_before_a_record_that_holds_the_shard_is_recorded_once(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    damaged = bytearray(aggregate([UserRecord("k", b"2")]))
    damaged[-1] ^= 1
    bench.put(bytes(damaged))
    for _ in range(3):
        bench.run(**CONTINUE, max_bad_records=0)
    assert len(bench.at(shard).gaps) == 1


def test_a_gap_is_not_recorded_when_another_run_was_first(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    slow = bench.plan(**CONTINUE)
    bench.run(**CONTINUE)
    outcome = bench.execute(slow).outcomes[shard]
    assert (outcome.state, outcome.gaps, len(bench.at(shard).gaps)) == (ShardState.CONFLICT, (), 1)
    assert bench.items == [1, 2]


# Shards that are gone


def vanished(bench):
    """A parent that was read to its first record, closed and trimmed; it and its children."""
    (parent,) = bench.create()
    (read, _) = bench.put(1, 2)
    bench.run(max_records=1)
    bench.later(hours=1)
    children = bench.split(parent)
    bench.put(3)
    bench.later(hours=30)
    bench.put(4)
    assert bench.shard_ids == children
    return parent, children, Position.after(read)


def test_a_shard_gone_unread_is_told_and_its_children_wait(bench):
    parent, children, position = vanished(bench)
    before = (bench.positions, bench.version)
    result = bench.run([parent, *children])
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)
    assert isinstance(result.errors[parent], ShardVanished)
    assert str(position) in str(result.errors[parent])
    assert (bench.positions, bench.version, bench.items) == (before[0], before[1], [1])


def test_going_on_after_a_shard_that_is_gone_records_its_gap_and_reads_its_children(bench):
    parent, children, position = vanished(bench)
    since = bench.at(parent).last_arrival
    result = bench.run([parent, *children], **CONTINUE)
    gap = Gap(after=position, since=since, next_sequence_number=None, until=bench.now)
    assert result.errors == {}
    assert (result.outcomes[parent].state, result.outcomes[parent].gaps) == (ShardState.FINISHED, (gap,))
    assert result.outcomes[parent].rows == 0
    assert (bench.at(parent).gaps, bench.at(parent).finished) == ((gap,), True)
    assert bench.at(parent).position == position
    assert bench.items == [1, 4]
    # The children were first seen after longer than the retention, so they have gaps of their own.
    assert [bench.at(child).gaps[0].after for child in children] == [BEGINNING] * 2


def test_after_going_on_after_a_shard_that_is_gone_the_next_run_has_nothing_to_tell(bench):
    parent, children, _ = vanished(bench)
    bench.run([parent, *children], **CONTINUE)
    bench.put(5)
    bench.later(hours=1)
    result = bench.run([parent, *children])
    assert (result.errors, result.outcomes[parent].state) == ({}, ShardState.FINISHED)
    assert bench.items == [1, 4, 5]
    assert len(bench.at(parent).gaps) == 1


def test_going_on_after_two_generations_that_are_gone_reads_the_third(bench):
    (first,) = bench.create()
    bench.put(1, 2)
    child, other = bench.split(first)
    bench.put(3)
    bench.run(max_records=1)  # the first is not at its end: its children wait, and are known
    bench.later(hours=1)
    grandchildren = bench.split(child, part=0.25)
    bench.later(hours=30)
    bench.put(4)
    assert bench.shard_ids == [other, *grandchildren]
    asked = [first, child, other, *grandchildren]
    errors = bench.run(asked).errors
    assert (type(errors[first]), type(errors[child])) == (ShardVanished, ParentUnfinished)
    result = bench.run(asked, **CONTINUE)
    assert result.errors == {}
    assert bench.positions.finished == {first, child}
    assert [len(bench.at(shard).gaps) for shard in (first, child)] == [1, 1]
    assert bench.items == [1, 4]


def test_a_gone_shard_is_not_given_up_before_its_gone_parent_is(bench):
    (first,) = bench.create()
    bench.put(1, 2)
    child, _ = bench.split(first)
    bench.run(max_records=1)
    bench.split(child, part=0.25)
    bench.later(hours=30)
    result = bench.run([child], **CONTINUE)
    assert isinstance(result.errors[child], ParentUnfinished)
    assert first in str(result.errors[child])
    assert bench.positions.finished == set()


def test_a_listed_shard_is_never_given_up(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    faults.fail(status=400, code="ResourceNotFoundException")
    result = bench.run(**CONTINUE)
    assert isinstance(result.errors[shard], ReadFailed)
    assert bench.positions.finished == set()


# How far behind, and how long there is left


@pytest.mark.parametrize("hours", [24, 168])
def test_at_the_tip_there_is_a_whole_retention_left(bench, hours):
    (shard,) = bench.create()
    bench.set_retention(hours)
    bench.put(1)
    bench.later(hours=5)
    outcome = bench.run().outcomes[shard]
    assert (outcome.lag_ms, outcome.time_to_loss_ms) == (0, hours * HOUR_MS)


def test_before_a_bound_the_first_unread_record_counts(bench):
    first, second = bench.create(2)
    bench.put(1)
    bench.later(hours=2)
    bench.put(2)
    bench.put(3, part=0.5)
    bench.later(hours=3)
    outcomes = bench.run(max_bytes=1).outcomes
    assert (outcomes[first].lag_ms, outcomes[first].time_to_loss_ms) == (3 * HOUR_MS, 21 * HOUR_MS)
    assert (outcomes[second].lag_ms, outcomes[second].time_to_loss_ms) == (0, 24 * HOUR_MS)


def test_lag_is_what_is_true_now_and_no_maximum(bench, faults):
    (shard,) = bench.create()
    bench.put(1, 2, 3)
    bench.later(hours=5)
    assert bench.run(max_records=1).outcomes[shard].lag_ms == 5 * HOUR_MS
    faults.page_size(1)  # behind at first, and at the tip in the end
    assert bench.run().outcomes[shard].lag_ms == 0
    bench.later(hours=5)
    assert bench.run().outcomes[shard].lag_ms == 0


def test_a_shard_that_fails_is_told_how_long_there_is_left_from_its_position(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=5)
    faults.fail(status=400, code="AccessDeniedException")
    outcome = bench.run().outcomes[shard]
    assert (outcome.state, outcome.lag_ms, outcome.time_to_loss_ms) == (
        ShardState.FAILED,
        None,
        19 * HOUR_MS,
    )


def test_a_shard_that_waits_unread_at_its_oldest_record_is_promised_no_time(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.plan()
    bench.later(hours=2)
    children = bench.split(parent)
    bench.later(hours=3)
    outcomes = bench.run(children).outcomes
    assert {(outcomes[child].state, outcomes[child].time_to_loss_ms) for child in children} == {
        (ShardState.WAITING, None)
    }


def test_the_lowest_retention_seen_counts_for_a_shard_that_fails(bench, faults):
    (shard,) = bench.create()
    bench.run()
    bench.set_retention(168)
    faults.fail(status=400, code="AccessDeniedException")
    assert bench.run().outcomes[shard].time_to_loss_ms == 24 * HOUR_MS


def test_where_records_may_be_lost_already_there_is_no_time_left(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    assert bench.run().outcomes[shard].time_to_loss_ms == 0


def test_a_finished_shard_has_nothing_to_lose(bench):
    (parent,) = bench.create()
    bench.put(1)
    bench.split(parent)
    assert bench.run().outcomes[parent].time_to_loss_ms is None
    assert bench.run().outcomes[parent].time_to_loss_ms is None


@pytest.fixture
def printed(bench, capsys):
    """What `positions --json` prints, by shard."""

    def printed():
        place = ["--table", bench.table.uri, "--endpoint-url", bench.settings.endpoint_url]
        commands(["positions", "--stream", bench.stream, *place, "--json"], standalone_mode=False)
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return {line["shard"]: line for line in lines}

    return printed


def test_positions_tell_until_when_unread_records_are_safe(bench, printed):
    first, second = bench.create(2)
    bench.put(1)
    bench.run()
    at_tip = bench.now
    bench.later(hours=2)
    bench.put(2, 3)
    children = bench.split(second, part=0.75)
    bench.later(hours=1)
    bench.run(max_records=1)
    told = printed()
    assert {shard: line["safe_until"] for shard, line in told.items()} == {
        first: (at_tip + timedelta(hours=26)).isoformat(),
        second: None,
        **dict.fromkeys(children, (at_tip + timedelta(hours=27)).isoformat()),
    }


def test_positions_tell_the_gaps(bench, printed):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    bench.run(**CONTINUE)
    (gap,) = bench.at(shard).gaps
    assert printed()[shard]["gaps"] == [str(gap)]


# Positions of the version before


def as_format_1(bench):
    """Rewrite the positions as the version before this one wrote them."""
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


def test_runs_go_on_from_positions_of_format_1(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    as_format_1(bench)
    bench.put(2)
    bench.later(hours=20)
    assert bench.run().errors == {}
    assert (bench.items, bench.positions.format) == ([1, 2], FORMAT)
    assert (bench.at(shard).retention_hours, bench.positions.listed_at) == (24, bench.now)


def test_loss_is_told_from_positions_of_format_1(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    as_format_1(bench)
    bench.later(hours=30)
    bench.put(2)
    assert lost_in(bench.run()) == {shard}


def test_a_shard_never_read_in_format_1_is_read_though_nothing_tells_of_its_loss(bench):
    bench.create()
    bench.plan()
    as_format_1(bench)
    bench.later(hours=30)
    bench.put(1)
    assert bench.run().errors == {}
    assert bench.items == [1]


def test_a_child_first_listed_after_positions_of_format_1_lost_nothing_within_the_retention(bench):
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
