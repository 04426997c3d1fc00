"""Continuing after data loss: the recorded gaps, and the shards that expired unread."""

from __future__ import annotations

from kinesis_assets.dagster.events.metadata import event_metadata
from kinesis_assets.errors import ParentUnfinished, ReadFailed, ShardVanished
from kinesis_assets.ingest.idle_shards import is_behind
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.data_loss import Gap
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.testing import UserRecord, aggregate
from support.run_results import states

BEGINNING = Position(PositionKind.TRIM_HORIZON)
CONTINUE = {"on_data_loss": "continue"}


# Continuing after data loss


def test_continuing_after_loss_records_the_gap_and_reads_the_available_records(bench):
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
    assert (outcome.state, outcome.error, outcome.facts.gaps) == (ShardState.COMMITTED, None, (gap,))
    assert bench.at(shard).gaps == (gap,)
    assert event_metadata(bench.stream, outcome, result)["gaps"].value == str(gap)
    assert (bench.items, bench.at(shard).position) == ([1, 3, 4], Position.after(newest))


def test_a_gap_is_not_reported_again_by_the_next_run(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    bench.run(**CONTINUE)
    bench.put(3)
    bench.later(hours=1)
    result = bench.run()
    assert (result.errors, result.outcomes[shard].facts.gaps, len(bench.at(shard).gaps)) == ({}, (), 1)
    assert bench.items == [1, 2, 3]


def test_continuing_without_available_records_records_an_open_gap_and_keeps_the_position(bench):
    (shard,) = bench.create()
    (last,) = bench.put(1)
    bench.run()
    since = bench.now
    bench.later(hours=30)
    ended = bench.now
    bench.run(**CONTINUE)
    after = bench.at(shard)
    assert after.position == Position.after(last)
    assert after.gaps == (
        Gap(after=Position.after(last), since=since, next_sequence_number=None, until=ended),
    )
    bench.later(hours=1)
    bench.put(2)
    assert bench.run().errors == {}
    assert bench.items == [1, 2]


def test_gaps_are_kept_oldest_first(bench):
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


def test_two_gaps_in_one_reading_are_both_recorded(bench, faults):
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


def test_a_gap_before_an_unread_record_is_recorded_once(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    plan = bench.plan(**CONTINUE)
    bench.later(seconds=5)
    bench.put(2)  # after the planned time, so the next run reads it
    assert bench.execute(plan).outcomes[shard].rows == 0
    assert len(bench.at(shard).gaps) == 1
    assert bench.run().errors == {}
    assert (len(bench.at(shard).gaps), bench.items) == (1, [1, 2])


def test_a_gap_before_a_record_that_blocks_the_shard_is_recorded_once(bench):
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


def test_the_rest_of_an_aggregate_is_given_up_once(bench, faults):
    (shard,) = bench.create()
    bench.put(aggregate(UserRecord("k", str(item).encode()) for item in range(1, 5)))
    bench.run(max_records=2)
    faults.trim(bench.stream)
    for _ in range(3):
        bench.run(**CONTINUE)
    (gap,) = bench.at(shard).gaps
    assert gap.after == bench.at(shard).position
    assert not is_behind(bench.at(shard))
    bench.put(5)
    assert bench.run().errors == {}
    assert (bench.items, bench.at(shard).gaps) == ([1, 2, 5], (gap,))


def test_a_gap_is_not_recorded_after_a_conflict_with_another_run(bench):
    (shard,) = bench.create()
    bench.put(1)
    bench.run()
    bench.later(hours=30)
    bench.put(2)
    slow = bench.plan(**CONTINUE)
    bench.run(**CONTINUE)
    outcome = bench.execute(slow).outcomes[shard]
    assert (outcome.state, outcome.facts.gaps, len(bench.at(shard).gaps)) == (ShardState.CONFLICT, (), 1)
    assert bench.items == [1, 2]


# Expired shards


def expired_parent(bench):
    """Read one record of a parent, then let it close and expire; return it, its children and its position."""
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


def test_an_expired_unread_shard_fails_and_its_children_wait(bench):
    parent, children, position = expired_parent(bench)
    before = (bench.positions, bench.version)
    result = bench.run([parent, *children])
    assert states(result) == {parent: ShardState.FAILED} | dict.fromkeys(children, ShardState.WAITING)
    assert isinstance(result.errors[parent], ShardVanished)
    assert str(position) in str(result.errors[parent])
    assert (bench.positions, bench.version, bench.items) == (before[0], before[1], [1])


def test_continuing_after_an_expired_shard_records_its_gap_and_reads_its_children(bench):
    parent, children, position = expired_parent(bench)
    since = bench.at(parent).last_arrival
    result = bench.run([parent, *children], **CONTINUE)
    gap = Gap(after=position, since=since, next_sequence_number=None, until=bench.now)
    assert result.errors == {}
    assert (result.outcomes[parent].state, result.outcomes[parent].facts.gaps) == (
        ShardState.FINISHED,
        (gap,),
    )
    assert result.outcomes[parent].rows == 0
    assert (bench.at(parent).gaps, bench.at(parent).finished) == ((gap,), True)
    assert bench.at(parent).position == position
    assert bench.items == [1, 4]
    # The children were first listed after the retention, so they have gaps of their own.
    assert [bench.at(child).gaps[0].after for child in children] == [BEGINNING] * 2


def test_an_expired_shard_is_not_reported_again_by_the_next_run(bench):
    parent, children, _ = expired_parent(bench)
    bench.run([parent, *children], **CONTINUE)
    bench.put(5)
    bench.later(hours=1)
    result = bench.run([parent, *children])
    assert (result.errors, result.outcomes[parent].state) == ({}, ShardState.FINISHED)
    assert bench.items == [1, 4, 5]
    assert len(bench.at(parent).gaps) == 1


def test_continuing_after_two_expired_generations_reads_the_third(bench):
    (first,) = bench.create()
    bench.put(1, 2)
    child, other = bench.split(first)
    bench.put(3)
    bench.run(max_records=1)  # the first is not at its end: its children are recorded and wait
    bench.later(hours=1)
    grandchildren = bench.split(child, part=0.25)
    bench.later(hours=30)
    bench.put(4)
    assert bench.shard_ids == [other, *grandchildren]
    shard_ids = [first, child, other, *grandchildren]
    errors = bench.run(shard_ids).errors
    assert (type(errors[first]), type(errors[child])) == (ShardVanished, ParentUnfinished)
    result = bench.run(shard_ids, **CONTINUE)
    assert result.errors == {}
    assert bench.positions.finished == {first, child}
    assert [len(bench.at(shard).gaps) for shard in (first, child)] == [1, 1]
    assert bench.items == [1, 4]


def test_an_expired_shard_is_not_skipped_before_its_expired_parent(bench):
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


def test_a_listed_shard_is_never_skipped(bench, faults):
    (shard,) = bench.create()
    bench.put(1)
    faults.fail(status=400, code="ResourceNotFoundException")
    result = bench.run(**CONTINUE)
    assert isinstance(result.errors[shard], ReadFailed)
    assert bench.positions.finished == set()
