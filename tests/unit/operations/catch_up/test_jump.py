"""Where a catch-up moves a shard: to a record that is certain to follow all those that it skips."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import ReadFailed
from kinesis_assets.operations.catch_up import jump
from kinesis_assets.operations.seek.plan import Direction
from kinesis_assets.table.snapshot import TableSnapshot
from support.catch_ups import catch_up, fill_gaps, open_gaps
from support.shard_ids import A

pytestmark = pytest.mark.slow


@pytest.fixture
def read(bench):
    """A stream of which a run has read record 1."""
    bench.create()
    bench.put(1)
    bench.run()
    bench.later(minutes=2)
    return bench


def move(bench):
    """Return the sequence number to which the shard is moved; None if it stays."""
    (made,) = jump(bench.client, bench.table, by="ann", apply=True).moves.values()
    return None if made.gap is None else made.after.position.sequence_number


def test_a_jump_ends_at_the_first_record_of_the_last_minute(read):
    read.put(2)
    read.later(seconds=30)
    (number,) = read.put(3)
    read.later(seconds=50)
    read.put(4)
    assert move(read) == number
    assert read.at(A).gaps[0].next_sequence_number == number
    read.run()
    assert (read.items, fill_gaps(read), read.items) == ([1, 3, 4], {}, [1, 2, 3, 4])


def test_without_a_record_in_the_last_minute_it_ends_at_an_older_one(read):
    read.put(2)
    read.later(hours=1)
    (number,) = read.put(3)
    read.later(minutes=50)
    assert move(read) == number
    read.run()
    assert (read.items, fill_gaps(read), read.items) == ([1, 3], {}, [1, 2, 3])


def test_after_a_jump_over_records_that_may_have_expired_the_others_are_safe(read):
    read.later(hours=22)
    (number,) = read.put(2)
    read.later(hours=18)
    assert move(read) == number
    assert read.at(A).safe_until > read.now
    read.run()
    assert read.items == [1, 2]


def test_a_shard_stays_if_only_records_of_the_last_minute_are_unread(read):
    read.put(2)
    read.later(seconds=30)
    read.put(3)
    assert move(read) is None
    read.run()
    read.assert_exactly_once()


def test_a_record_that_the_service_shows_only_after_the_backfill_is_read_by_the_next_run(read, faults):
    read.put(2)
    read.later(minutes=2)
    read.put(3)
    (hidden,) = read.put(4)

    def hide(_call, response):
        records = response.members.get("Records", [])
        return response.but(Records=[each for each in records if each["SequenceNumber"] != hidden])

    faults.answer("GetRecords", hide)
    assert catch_up(read) == {}
    assert (read.items, open_gaps(read)) == ([1, 2], {})
    faults.clear()
    read.run()
    read.assert_exactly_once()


def shift_clock(faults, *, minutes):
    """Let all responses have a wrong time."""
    for operation in ("DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords"):
        faults.skew_date(60 * minutes, operation)


def test_a_clock_that_is_ten_minutes_slow_loses_nothing(read, faults):
    read.put(2)
    read.later(hours=1)
    read.put(3)
    shift_clock(faults, minutes=-10)
    assert catch_up(read) == {}
    faults.clear()
    read.put(4)
    read.run()
    assert open_gaps(read) == {}
    read.assert_exactly_once()


def test_a_clock_that_is_ten_minutes_fast_moves_no_shard(read, faults):
    read.put(2)
    read.later(hours=1)
    read.put(3)
    before = read.positions
    shift_clock(faults, minutes=10)
    with pytest.raises(ReadFailed, match="cannot be greater than the currentTimestamp"):
        catch_up(read)
    assert read.positions == before


def test_a_shard_without_any_record_stays(read):
    read.put(2)
    read.later(hours=25)
    assert move(read) is None
    assert open_gaps(read) == {}


@pytest.mark.parametrize("shard_ids", [[], [A]])
def test_a_shard_that_is_finished_by_mistake_stays(read, shard_ids):
    read.forge_shards(A, finished=True)
    (made,) = jump(read.client, read.table, shard_ids, by="ann", apply=True).moves.values()
    assert made.direction is Direction.STAYS
    assert read.at(A).finished


@pytest.mark.parametrize("shard_ids", [[], [A]])
def test_a_shard_that_a_run_finishes_meanwhile_stays(read, monkeypatch, shard_ids):
    read.put(2)
    read.later(minutes=2)
    read.put(3)
    commit = TableSnapshot.commit

    def late(*arguments, **named):
        monkeypatch.setattr(TableSnapshot, "commit", commit)
        read.split(A)
        read.run()
        return commit(*arguments, **named)

    monkeypatch.setattr(TableSnapshot, "commit", late)
    (made,) = jump(read.client, read.table, shard_ids, by="ann", apply=True).moves.values()
    assert made.direction is Direction.STAYS
    assert (read.items, read.at(A).finished) == ([1, 2, 3], True)
