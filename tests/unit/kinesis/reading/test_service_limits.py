"""The service's limits: a reading is not throttled."""

from __future__ import annotations

import pytest

from support.one_shard import data
from support.service_faults import FAILURES, THROTTLING, draw_waits, each_fault

MIB = 1 << 20


@pytest.fixture
def client(worker_client):
    return worker_client


@pytest.fixture
def called(faults, virtual):
    """The times of the GetRecords calls at the service, by the reader's clock."""
    called = []

    def reached(arguments):
        called.append(virtual.now)
        return arguments

    faults.request("GetRecords", reached)
    return called


@pytest.fixture
def refusals(faults, virtual):
    """The GetRecords calls that the service refused; it enforces its limits by the reader's clock."""
    refusals = []

    def note_refusal(call, response):
        if response.status != 200:
            refusals.append(call)

    faults.enforce_limits(virtual.monotonic)
    faults.answer("GetRecords", note_refusal)
    return refusals


def max_in_a_second(times):
    """The maximum number of the times that lie within one second."""
    # Sums of tenths of a second are not exact.
    return max(sum(begin <= time < begin + 1 - 1e-6 for time in times) for begin in times)


@pytest.mark.usefixtures("virtual")
@each_fault(THROTTLING | FAILURES)
def test_at_most_five_calls_per_second_are_made_even_if_calls_fail(
    put, reading_of, client, faults, called, fault
):
    draw_waits(client, lambda _: 0.0)
    put(*[b"%d" % item for item in range(12)])
    faults.page_size(1)
    fault(faults, after=3, times=5)
    assert len(data(reading_of())) == 12
    assert len(called) == 12 + 5
    assert max_in_a_second(called) <= 5


@pytest.mark.usefixtures("virtual", "share")
def test_a_share_of_the_calls_is_not_exceeded(put, reading_of, faults, called):
    put(*[b"%d" % item for item in range(12)])
    faults.page_size(1)
    assert len(data(reading_of())) == 12
    assert max_in_a_second(called) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("share")
def test_a_share_of_the_bytes_is_not_exceeded(kinesis, stream, reading_of, called, virtual):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    size = MIB - 1
    for _ in range(20):
        virtual.now += 1  # writes are limited too
        kinesis.put_record(StreamName=stream, Data=bytes(size), PartitionKey="k")
    began = virtual.now
    assert len(data(reading_of())) == 20
    assert [round(time - began, 1) for time in called] == [0, 13.1]


def test_at_most_five_calls_per_second_arrive_even_if_a_call_is_slow(
    put, reading_of, client, faults, virtual
):
    draw_waits(client, lambda _: 0.0)
    put(b"0")
    arrivals = []

    def slow_the_first_time(arguments):
        virtual.now += 0 if arrivals else 0.19
        arrivals.append(virtual.now)
        return arguments

    faults.request("GetRecords", slow_the_first_time)
    faults.throttle(code="LimitExceededException", times=8)
    assert data(reading_of()) == [b"0"]
    assert max_in_a_second(arrivals) == 5


def test_a_backlog_of_small_pages_is_read_without_being_throttled(put, reading_of, faults, refusals):
    put(*[b"%d" % item for item in range(30)])
    faults.page_size(1)
    assert data(reading_of()) == [b"%d" % item for item in range(30)]
    assert faults.count("GetRecords") == 30
    assert refusals == []


@pytest.mark.slow
def test_a_backlog_of_full_pages_is_read_at_two_megabytes_a_second_without_being_throttled(
    kinesis, stream, reading_of, called, refusals, virtual
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    size = MIB - 1
    for _ in range(30):
        virtual.now += 1  # writes are limited too
        kinesis.put_record(StreamName=stream, Data=bytes(size), PartitionKey="k")
    began = virtual.now
    reading = reading_of()
    pages = [sum(len(record.data) for record in records) for records in reading]
    assert pages == [10 * size, 10 * size, 10 * size]
    assert refusals == []
    assert [round(time - began, 1) for time in called] == [0, 5.2, 10.5]


@pytest.mark.slow
def test_partition_keys_count_toward_the_bytes_per_second(put, reading_of, faults, refusals, virtual):
    for _ in range(8):
        put(*[b"x"] * 500, partition_key="k" * 256)
        virtual.now += 1
    faults.page_size(2000)
    assert len(data(reading_of())) == 8 * 500
    assert refusals == []
