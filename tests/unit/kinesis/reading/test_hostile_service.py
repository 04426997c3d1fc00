"""A faulty service: no record is lost or duplicated, and nothing is retried forever."""

from __future__ import annotations

from itertools import chain

import pytest

from kinesis_assets.errors import CallFailed, ReadFailed, ShardStalled
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import RangeEnd
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.testing import Faults, UserRecord, aggregate
from support.one_shard import BEGINNING, MIDDLE, SHARD, data
from support.service_faults import FAILURES, THROTTLING, draw_waits, each_fault
from support.timing import set_timing

STALL_SECONDS = ReadTiming().stall_seconds


@pytest.fixture
def drawn(client):
    """The upper bounds of the waits between attempts; each wait is 0.9 of its bound."""
    drawn = []

    def jitter(longest):
        drawn.append(longest)
        return 0.9 * longest

    draw_waits(client, jitter)
    return drawn


@pytest.fixture
def client(worker_client):
    return worker_client


# Empty pages


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("after", [0, 1])
def test_twenty_empty_pages_behind_the_tip_do_not_end_the_range(put, reading_of, faults, after):
    put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    faults.empty_page(after=after, times=20)
    reading = reading_of()
    assert data(reading) == [b"0", b"1", b"2", b"3"]
    assert reading.end is RangeEnd.TIP
    assert faults.count("GetRecords") == 22


def test_empty_pages_before_the_first_record_do_not_count_toward_max_seconds(
    put, reading_of, faults, virtual
):
    put(b"0", b"1")
    faults.empty_page(times=20)
    reading = reading_of(max_seconds=1)
    began = virtual.now
    assert data(reading) == [b"0", b"1"]
    assert virtual.now - began > 3


@pytest.mark.usefixtures("virtual")
def test_empty_pages_after_a_record_count_toward_max_seconds(put, reading_of, faults):
    numbers = put(b"0", b"1")
    faults.page_size(1)
    faults.empty_page(after=1)
    reading = reading_of(max_seconds=1)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))


@pytest.mark.slow
def test_endless_empty_pages_stall_the_shard_instead_of_ending_it_by_max_seconds(
    put, reading_of, client, faults, virtual
):
    set_timing(client, stall_seconds=30.0)
    put(b"0")
    faults.empty_page()
    reading = reading_of(max_seconds=1)
    began = virtual.now
    with pytest.raises(ShardStalled):
        data(reading)
    assert (reading.end, reading.position) == (None, BEGINNING)
    assert 30 < virtual.now - began < 31


# Transient and permanent faults


@pytest.mark.usefixtures("virtual")
@each_fault(THROTTLING | FAILURES)
def test_a_transient_fault_neither_loses_nor_duplicates_records(put, reading_of, faults, fault):
    put(b"0", b"1", b"2", b"3", b"4")
    faults.page_size(2)
    fault(faults, after=1, times=3)
    reading = reading_of()
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4"]
    assert reading.end is RangeEnd.TIP
    assert faults.count("GetRecords") == 3 + 3


@pytest.mark.usefixtures("virtual")
@each_fault(THROTTLING | FAILURES)
@pytest.mark.slow
def test_a_permanent_fault_fails_the_shard_and_keeps_the_records_read_before(put, reading_of, faults, fault):
    numbers = put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    fault(faults, after=1)
    reading = reading_of()
    read = []
    with pytest.raises(ReadFailed, match=f"{SHARD}: reading from AFTER_SEQUENCE_NUMBER:{numbers[1]} failed"):
        read.extend(chain.from_iterable(reading))
    assert [record.data for record in read] == [b"0", b"1"]
    assert (reading.end, reading.position) == (None, Position.after(numbers[1]))


@pytest.mark.usefixtures("virtual")
@each_fault(FAILURES)
def test_a_permanent_failure_is_attempted_six_times(put, reading_of, faults, fault):
    put(b"0")
    fault(faults)
    with pytest.raises(ReadFailed):
        data(reading_of())
    assert faults.count("GetRecords") == 6


@each_fault(THROTTLING)
@pytest.mark.slow
def test_permanent_throttling_is_retried_until_the_shard_counts_as_stalled(
    put, reading_of, faults, virtual, fault
):
    put(b"0")
    fault(faults)
    began = virtual.now
    with pytest.raises(ReadFailed):
        data(reading_of())
    assert STALL_SECONDS < virtual.now - began <= STALL_SECONDS + max(virtual.waits)


def test_time_spent_waiting_for_other_shards_does_not_count_as_a_stall(put, reading_of, faults, virtual):
    put(b"0")
    faults.throttle(times=1)
    reading = reading_of()
    virtual.sleep(STALL_SECONDS + 1)  # until it may run
    assert data(reading) == [b"0"]
    assert reading.end is RangeEnd.TIP


def test_a_record_resets_the_time_until_the_shard_counts_as_stalled(put, reading_of, faults, virtual):
    put(b"0", b"1")
    faults.page_size(1)
    faults.throttle(times=1)
    reading, records = reading_of(), 0
    for batch in reading:
        records += len(batch)
        if records == 1:
            virtual.sleep(STALL_SECONDS + 1)
            faults.throttle(times=1)
    assert (records, reading.end) == (2, RangeEnd.TIP)


@pytest.mark.parametrize("code", ["ProxyConnectionError", "ConnectionClosedError"])
@pytest.mark.usefixtures("virtual")
def test_connection_errors_are_retried(put, reading_of, monkeypatch, code):
    put(b"0")
    errors = [CallFailed("orders", "GetRecords", code, "for a moment") for _ in range(3)]
    get = StreamClient.getting_records

    def getting_records(self, *arguments):
        if errors:
            raise errors.pop()
        return get(self, *arguments)

    monkeypatch.setattr(StreamClient, "getting_records", getting_records)
    assert data(reading_of()) == [b"0"]
    assert not errors


@pytest.mark.parametrize("operation", ["GetRecords", "GetShardIterator"])
@each_fault({"throttling": THROTTLING["limit"], "failures": Faults.fail})
def test_the_upper_bound_of_the_wait_doubles_with_each_attempt(
    put, reading_of, faults, virtual, drawn, operation, fault
):
    put(b"0")
    fault(faults, operation, times=5)
    assert data(reading_of()) == [b"0"]
    assert drawn == [0.2, 0.4, 0.8, 1.6, 3.2]
    # The first is shorter than the time between calls.
    assert {0.9 * bound for bound in drawn[1:]} <= set(virtual.waits)


def test_no_wait_between_attempts_is_longer_than_five_seconds(put, reading_of, faults, virtual, drawn):
    put(b"0")
    faults.throttle(times=50, code="LimitExceededException")
    assert data(reading_of()) == [b"0"]
    assert drawn[5:] == [5.0] * 45
    assert max(virtual.waits) == 0.9 * 5.0


def test_no_wait_after_the_rates_of_a_shard_were_exceeded_is_longer_than_a_second(
    put, reading_of, faults, virtual
):
    put(b"0")
    faults.throttle(times=50)
    assert data(reading_of()) == [b"0"]
    assert max(virtual.waits) == pytest.approx(1.0)


@pytest.mark.usefixtures("virtual")
def test_an_iterator_that_expired_while_throttled_is_replaced(put, reading_of, faults):
    numbers = put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    faults.throttle(after=1, times=3)
    faults.expire(after=1, times=1)
    assert data(reading_of()) == [b"0", b"1", b"2", b"3"]
    _, second = (call.arguments for call in faults.calls if call.operation == "GetShardIterator")
    assert second["StartingSequenceNumber"] == numbers[1]


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("page_size", [1, 10])
def test_an_iterator_that_expires_in_or_after_an_aggregate_is_replaced_exactly(
    put, reading_of, faults, page_size
):
    entries = [
        aggregate([UserRecord("k", b"0"), UserRecord("k", b"1"), UserRecord("k", b"2")]),
        aggregate([UserRecord("k", b"3"), UserRecord("k", b"4")]),
        b"5",
    ]
    numbers = put(*entries)
    faults.page_size(page_size)
    faults.expire(times=1)
    faults.expire(after=1, times=1)
    assert data(reading_of(Position.after(numbers[0], 1))) == [b"2", b"3", b"4", b"5"]
    asked = [call.arguments for call in faults.calls if call.operation == "GetShardIterator"]
    places = [(each["ShardIteratorType"], each["StartingSequenceNumber"]) for each in asked]
    inside = ("AT_SEQUENCE_NUMBER", numbers[0])
    assert places == [inside, inside, *[("AFTER_SEQUENCE_NUMBER", numbers[0])] * (page_size == 1)]


# Null iterators


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("body", [b"{}", b'{"ShardIterator": null}'])
def test_a_null_iterator_of_get_shard_iterator_is_retried_and_never_ends_the_shard(
    put, reading_of, faults, body
):
    put(b"0")
    faults.answer("GetShardIterator", lambda _, response: response.with_body(body), times=2)
    assert data(reading_of()) == [b"0"]
    faults.answer("GetShardIterator", lambda _, response: response.with_body(body))
    reading = reading_of()
    with pytest.raises(ReadFailed, match="GetShardIterator failed with IncompleteBody"):
        data(reading)
    assert (reading.end, reading.position) == (None, BEGINNING)


@pytest.mark.usefixtures("virtual")
def test_shard_that_is_closed_while_it_is_read_ends_at_its_null_iterator(
    put, kinesis, stream, reading_of, faults
):
    numbers = put(b"0", b"1", b"2")
    faults.page_size(2)
    reading = reading_of()
    pages = iter(reading)
    assert [record.data for record in next(pages)] == [b"0", b"1"]
    kinesis.split_shard(StreamName=stream, ShardToSplit=SHARD, NewStartingHashKey=MIDDLE)
    put(b"a child's")
    assert data(pages) == [b"2"]
    assert (reading.end, reading.position) == (RangeEnd.SHARD_END, Position.after(numbers[-1]))
