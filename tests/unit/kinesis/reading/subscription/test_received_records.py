"""What a subscription receives: which records a reading returns, and which calls that needs."""

from __future__ import annotations

import resource
from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading import subscription
from kinesis_assets.kinesis.reading.range import Allowance, Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.subscription import Subscriptions
from kinesis_assets.kinesis.transport.concurrency import run
from support.aggregates import aggregate_of
from support.one_shard import ALL_KEYS, BEGINNING, SHARD

pytestmark = pytest.mark.slow

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


def test_a_reading_ends_at_the_tip_without_getrecords(put, read, calls):
    put(0, 1, 2)
    calls()
    reading, found = read()
    assert (found, reading.end, reading.millis_behind_latest) == ([0, 1, 2], RangeEnd.TIP, 0)
    assert calls() == {"SubscribeToShard": 1}


def test_the_next_reading_continues_the_subscription(put, read, calls):
    put(0, 1)
    first, _ = read()
    put(2, 3)
    calls()
    second, found = read(first.position)
    while not found:
        second, found = read(second.position)
    assert found == [2, 3]
    assert calls() == {}


def test_records_after_the_end_of_a_range_are_kept_for_the_next_one(put, read, calls):
    put(*range(10))
    calls()
    first, found = read(max_records=4)
    assert found == [0, 1, 2, 3]
    second, found = read(first.position, max_records=3)
    assert found == [4, 5, 6]
    third, found = read(second.position)
    assert (found, third.end) == ([7, 8, 9], RangeEnd.TIP)
    assert calls() == {"SubscribeToShard": 1}


def test_a_range_may_end_before_the_first_record_of_a_page(put, read, client, calls):
    put(0, 1)
    calls()
    first, found = read(until=client.describe().service_time - timedelta(hours=1))
    assert found == []
    _, found = read(first.position)
    assert found == [0, 1]
    assert calls() == {"SubscribeToShard": 1}


def test_a_range_may_end_inside_an_aggregate(put, read, calls):
    put(aggregate_of(0, 1, 2), 3)
    calls()
    first, found = read(max_records=2)
    assert (found, first.position.sub_sequence_number) == ([0, 1], 1)
    _, found = read(first.position)
    assert found == [2, 3]
    assert calls() == {"SubscribeToShard": 1}


def test_another_position_is_read_by_getrecords_until_the_consumer_may_subscribe_again(
    put, read, calls, wait
):
    numbers = put(0, 1, 2)
    read()
    calls()
    other = Position(PositionKind.AT_SEQUENCE_NUMBER, numbers[1])
    _, found = read(other)
    assert found == [1, 2]
    assert calls() == {"GetRecords": 1}
    wait(5)
    _, found = read(other)
    assert found == [1, 2]
    assert calls() == {"SubscribeToShard": 1}


def test_what_was_read_but_not_committed_is_read_again_without_a_call(put, read, calls):
    put(0, 1, 2)
    read()
    calls()
    put(3)
    found = []
    while len(found) < 4:
        reading, found = read()
    assert found == [0, 1, 2, 3]
    _, found = read(reading.position)
    assert found == []
    assert calls() == {}


def test_a_position_that_another_run_has_committed_within_what_was_received_continues(put, read, calls):
    numbers = put(0, 1, 2)
    read()
    calls()
    _, found = read(Position.after(numbers[1]))
    assert found == [2]
    assert calls() == {}


@pytest.mark.parametrize("seconds", [280, 305])
def test_a_subscription_is_renewed_without_gap_or_duplicate(until_found, put, read, calls, wait, seconds):
    put(0, 1)
    first, _ = read()
    put(2)
    calls()
    wait(seconds)
    position, found = until_found(first.position, 1)
    put(3)
    _, more = until_found(position, 1)
    assert [*found, *more] == [2, 3]
    assert calls()["SubscribeToShard"] == 1


def test_a_young_subscription_is_not_renewed(put, read, calls, wait):
    put(0)
    first, _ = read()
    calls()
    wait(199)
    read(first.position)
    assert "SubscribeToShard" not in calls()


def test_the_end_of_a_shard_is_confirmed_by_getrecords(put, read, split, calls):
    put(0, 1)
    split()
    calls()
    reading, found = read()
    assert (found, reading.end) == ([0, 1], RangeEnd.SHARD_END)
    assert calls() == {"SubscribeToShard": 1, "GetRecords": 2}


def test_an_idle_shard_that_is_closed_ends(put, read, split, calls):
    put(0)
    first, _ = read()
    split()
    calls()
    reading, found = read(first.position)
    while reading.end is RangeEnd.TIP:
        reading, more = read(reading.position)
        found += more
    assert (found, reading.end) == ([], RangeEnd.SHARD_END)
    assert calls() == {"GetRecords": 2}


def test_the_tip_of_an_idle_shard_is_not_waited_for(put, read, calls):
    put(0)
    reading, _ = read()
    calls()
    for _ in range(50):
        reading, found = read(reading.position)
        assert (found, reading.end) == ([], RangeEnd.TIP)
    assert calls() == {}


def test_a_run_subscribes_again_after_its_machine_was_suspended(
    put, until_found, read, calls, wait, clocked, warnings
):
    put(0)
    first, _ = read()
    clocked.clock.seconds += 3600  # a monotonic clock stands still meanwhile
    put(1)
    position, found = until_found(first.position, 1)
    for number in (2, 3):
        wait(5)
        put(number)
        calls()
        position, more = until_found(position, 1)
        found += more
    assert found == [1, 2, 3]
    assert "GetRecords" not in calls()
    assert warnings == []


def test_the_time_of_a_subscription_is_compared_with_that_of_the_last_one(put, subscriptions, clocked):
    put(0)
    for _ in range(3):
        clocked.clock.seconds += 200
        run(subscriptions.events(SHARD, BEGINNING)).close()


def test_a_shard_whose_last_record_arrives_just_before_its_tip_is_not_behind(put, read, wait):
    put(0)
    reading, _ = read()
    wait(3)
    put(1)
    wait(2)
    reading, _ = read(reading.position)
    while not reading.records:
        reading, _ = read(reading.position)
    assert reading.end is RangeEnd.TIP
    assert reading.tip_time >= reading.last_arrival


def test_what_is_kept_while_no_reading_is_committed_is_bounded(
    put, read, subscriptions, until_found, calls, monkeypatch
):
    monkeypatch.setattr(subscription, "_KEPT_BYTES", 2000)
    sizes = []
    for number in range(0, 100, 5):
        put(*range(number, number + 5))  # about 900 bytes of JSON
        reading, found = read()
        sizes.append(subscriptions.kept_bytes)
    assert 2000 <= max(sizes) < 6000
    _, more = until_found(reading.position, 100 - len(found))
    assert [*found, *more] == list(range(100))
    assert calls()["SubscribeToShard"] == 1


def test_the_largest_number_of_subscriptions_may_be_renewed_and_replaced(
    put, read, subscriptions, until_found, calls, wait, warnings
):
    subscriptions.most_open = 1
    put(0)
    first, _ = read()
    wait(280)
    put(1)
    calls()
    _, found = until_found(first.position, 1)
    assert found == [1]
    assert calls() == {"SubscribeToShard": 1}
    other = ShardRange("shardId-000000000001", BEGINNING, Bounds(), ALL_KEYS)
    assert subscriptions.receive([other], Allowance()) == {}
    (warning,) = warnings
    assert "TooManySubscriptions" in warning
    subscriptions.of(SHARD).close()
    wait(5)
    read()
    assert calls() == {"SubscribeToShard": 1}


@pytest.mark.parametrize(
    ("files", "most"), [(128, 64), (1024, 512), (1 << 20, 512), (resource.RLIM_INFINITY, 512)]
)
def test_subscriptions_leave_half_of_the_files_that_a_process_may_open(
    client, warnings, monkeypatch, files, most
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, resource.RLIM_INFINITY))
    assert Subscriptions(client, "arn", NOON, warnings.append).most_open == most
