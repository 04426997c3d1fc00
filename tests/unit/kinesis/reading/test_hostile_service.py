"""A service at its worst: nothing is lost, nothing comes twice, and nothing is tried for ever."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain

import pytest

from kinesis_assets.errors import CallFailed, ReadFailed, ShardStalled
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.read_timing import ReadTiming
from kinesis_assets.kinesis.reading.range import RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.record import Records
from kinesis_assets.kinesis.transport.awaitables import Pause
from kinesis_assets.testing import Faults, UserRecord, aggregate
from support.timing import set_timing
from support.virtual_time import VirtualTime

SHARD = "shardId-000000000000"
STALL_SECONDS = ReadTiming().stall_seconds
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)
MIDDLE = str(1 << 127)
MIB = 1 << 20

THROTTLING = {
    "throughput": Faults.throttle,
    "limit": partial(Faults.throttle, code="LimitExceededException"),
    "KMS": partial(Faults.throttle, code="KMSThrottlingException"),
    "API": partial(Faults.throttle, code="ThrottlingException"),
}
FAILURES = {
    "expired iterator": Faults.expire,
    "500": Faults.fail,
    "503": partial(Faults.fail, status=503, code="ServiceUnavailable"),
    "reset": Faults.reset,
    "no answer": Faults.stall,
    "cut body": Faults.cut_body,
    "body cut on the wire": partial(Faults.cut_body, on_wire=True),
}


def each(troubles):
    """One test a trouble."""
    marks = {"no answer": pytest.mark.real_time}
    cases = [pytest.param(trouble, id=name, marks=marks.get(name, ())) for name, trouble in troubles.items()]
    return pytest.mark.parametrize("trouble", cases)


@pytest.fixture
def virtual(client):
    """The reader's time, which passes only where it waits."""
    virtual = VirtualTime()
    set_timing(client, clock=virtual)
    return virtual


@pytest.fixture
def drawn(client):
    """The longest waits between tries; 0.9 of each is taken."""
    drawn = []

    def jitter(longest):
        drawn.append(longest)
        return 0.9 * longest

    draw_waits(client, jitter)
    return drawn


def draw_waits(client, jitter):
    """Have a function draw the waits between tries."""
    policy = client.settings.timing.page_retries
    set_timing(client, page_retries=replace(policy, backoff=replace(policy.backoff, jitter=jitter)))


@pytest.fixture
def client(stream, settings, request):
    """As a Spark task has it: the SDK tries nothing again. Where no answer comes it does not wait long."""
    timing = ReadTiming(read_timeout=1.0) if "no answer" in request.node.name else ReadTiming()
    return StreamClient(stream, replace(settings, timing=timing), attempts=1)


@pytest.fixture
def put(kinesis, stream):
    """Puts records into the test's stream, of one shard; gives their sequence numbers."""
    kinesis.create_stream(StreamName=stream, ShardCount=1)

    def put(*data, partition_key="k"):
        entries = [{"Data": item, "PartitionKey": partition_key} for item in data]
        answer = kinesis.put_records(StreamName=stream, Records=entries)
        assert answer["FailedRecordCount"] == 0
        return [record["SequenceNumber"] for record in answer["Records"]]

    return put


@pytest.fixture
def reading_of(client):
    """A reading of the test's shard."""

    def reading_of(start=BEGINNING, **limits):
        return ShardReading(client, ShardRange(SHARD, start, Bounds(**limits), ALL_KEYS))

    return reading_of


def block(step, virtual):
    """Wait for the next step, in the reader's time."""
    if isinstance(step, Pause):
        virtual.sleep(step.seconds)
    else:
        step.block()


def data(reading):
    """What a reading hands out, to its end."""
    return [record.data for record in chain.from_iterable(reading)]


# Empty pages


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("after", [0, 1])
def test_twenty_empty_pages_behind_the_tip_are_no_end(put, reading_of, faults, after):
    put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    faults.empty_page(after=after, times=20)
    reading = reading_of()
    assert data(reading) == [b"0", b"1", b"2", b"3"]
    assert reading.end is RangeEnd.TIP
    assert faults.count("GetRecords") == 22


def test_empty_pages_take_no_time_from_a_range_that_has_no_record_yet(put, reading_of, faults, virtual):
    put(b"0", b"1")
    faults.empty_page(times=20)
    reading = reading_of(max_seconds=1)
    began = virtual.now
    assert data(reading) == [b"0", b"1"]
    assert virtual.now - began > 3


@pytest.mark.usefixtures("virtual")
def test_empty_pages_after_a_record_take_time_from_the_range(put, reading_of, faults):
    numbers = put(b"0", b"1")
    faults.page_size(1)
    faults.empty_page(after=1)
    reading = reading_of(max_seconds=1)
    assert data(reading) == [b"0"]
    assert (reading.end, reading.position) == (RangeEnd.TIME_LIMIT, Position.after(numbers[0]))


def test_endless_empty_pages_fail_the_shard_and_are_no_end_by_seconds(
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


# Troubles that pass, and troubles that last


@pytest.mark.usefixtures("virtual")
@each(THROTTLING | FAILURES)
def test_trouble_that_passes_loses_and_doubles_nothing(put, reading_of, faults, trouble):
    put(b"0", b"1", b"2", b"3", b"4")
    faults.page_size(2)
    trouble(faults, after=1, times=3)
    reading = reading_of()
    assert data(reading) == [b"0", b"1", b"2", b"3", b"4"]
    assert reading.end is RangeEnd.TIP
    assert faults.count("GetRecords") == 3 + 3


@pytest.mark.usefixtures("virtual")
@each(THROTTLING | FAILURES)
def test_trouble_that_lasts_fails_the_shard_and_keeps_what_came_before(put, reading_of, faults, trouble):
    numbers = put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    trouble(faults, after=1)
    reading = reading_of()
    read = []
    with pytest.raises(ReadFailed, match=f"{SHARD}: reading from AFTER_SEQUENCE_NUMBER:{numbers[1]} failed"):
        read.extend(chain.from_iterable(reading))
    assert [record.data for record in read] == [b"0", b"1"]
    assert (reading.end, reading.position) == (None, Position.after(numbers[1]))


@pytest.mark.usefixtures("virtual")
@each(FAILURES)
def test_failure_that_lasts_is_tried_six_times(put, reading_of, faults, trouble):
    put(b"0")
    trouble(faults)
    with pytest.raises(ReadFailed):
        data(reading_of())
    assert faults.count("GetRecords") == 6


@each(THROTTLING)
def test_throttling_that_lasts_is_waited_out_as_long_as_a_stall(
    put, reading_of, faults, virtual, drawn, trouble
):
    put(b"0")
    trouble(faults)
    began = virtual.now
    with pytest.raises(ReadFailed):
        data(reading_of())
    assert STALL_SECONDS < virtual.now - began <= STALL_SECONDS + max(drawn)


def test_time_that_a_shard_waited_for_others_is_no_stall_of_its_own(put, reading_of, faults, virtual):
    put(b"0")
    faults.throttle(times=1)
    reading, records = reading_of(), 0
    for number, step in enumerate(reading.steps()):
        if number == 0:
            virtual.sleep(STALL_SECONDS + 1)  # until it has a place
        if isinstance(step, Records):
            records += len(step)
        else:
            block(step, virtual)
    assert (records, reading.end) == (1, RangeEnd.TIP)


def test_an_answer_in_vain_counts_no_more_once_a_record_came(put, reading_of, faults, virtual):
    put(b"0", b"1")
    faults.page_size(1)
    faults.throttle(times=1)
    reading, records = reading_of(), 0
    for step in reading.steps():
        if not isinstance(step, Records):
            block(step, virtual)
            continue
        records += len(step)
        if records == 1:
            virtual.sleep(STALL_SECONDS + 1)
            faults.throttle(times=1)
    assert (records, reading.end) == (2, RangeEnd.TIP)


@pytest.mark.parametrize("code", ["ProxyConnectionError", "ConnectionClosedError"])
@pytest.mark.usefixtures("virtual")
def test_who_could_not_be_reached_is_tried_again(put, reading_of, monkeypatch, code):
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
@each({"throttling": Faults.throttle, "failures": Faults.fail})
def test_waits_between_tries_are_drawn_from_nothing_to_a_bound(
    put, reading_of, faults, virtual, drawn, operation, trouble
):
    put(b"0")
    trouble(faults, operation, times=5)
    assert data(reading_of()) == [b"0"]
    assert drawn == [0.2, 0.4, 0.8, 1.6, 3.2]
    # The first is shorter than the shard's pace.
    assert {0.9 * longest for longest in drawn[1:]} <= set(virtual.waits)


def test_no_wait_between_tries_is_longer_than_five_seconds(put, reading_of, faults, virtual, drawn):
    put(b"0")
    faults.throttle(times=50)
    assert data(reading_of()) == [b"0"]
    assert drawn[5:] == [5.0] * 45
    assert max(virtual.waits) == 0.9 * 5.0


@pytest.mark.usefixtures("virtual")
def test_iterator_that_expired_while_throttled_is_taken_anew(put, reading_of, faults):
    numbers = put(b"0", b"1", b"2", b"3")
    faults.page_size(2)
    faults.throttle(after=1, times=3)
    faults.expire(after=1, times=1)
    assert data(reading_of()) == [b"0", b"1", b"2", b"3"]
    _, anew = (call.arguments for call in faults.calls if call.operation == "GetShardIterator")
    assert anew["StartingSequenceNumber"] == numbers[1]


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("page_size", [1, 10])
def test_iterator_that_expires_in_an_aggregate_or_after_one_is_taken_anew_exactly(
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


# Iterators that are null


@pytest.mark.usefixtures("virtual")
@pytest.mark.parametrize("body", [b"{}", b'{"ShardIterator": null}'])
def test_null_for_a_new_iterator_is_tried_again_and_never_the_shards_end(put, reading_of, faults, body):
    put(b"0")
    faults.answer("GetShardIterator", lambda _, answer: answer.with_body(body), times=2)
    assert data(reading_of()) == [b"0"]
    faults.answer("GetShardIterator", lambda _, answer: answer.with_body(body))
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


# The service's limits


@pytest.fixture
def called(faults, virtual):
    """When each GetRecords reached the service, in the reader's time."""
    called = []

    def reached(arguments):
        called.append(virtual.now)
        return arguments

    faults.request("GetRecords", reached)
    return called


@pytest.fixture
def refusals(faults, virtual):
    """Every GetRecords that the service refused, while it enforces its limits in the reader's time."""
    refusals = []

    def look(call, answer):
        if answer.status != 200:
            refusals.append(call)

    faults.enforce_limits(virtual.monotonic)
    faults.answer("GetRecords", look)
    return refusals


def most_in_a_second(times):
    """The most of some moments that lie within one second."""
    # The reader's sums of tenths are not exact.
    return max(sum(begin <= time < begin + 1 - 1e-6 for time in times) for begin in times)


@pytest.mark.usefixtures("virtual")
@each(THROTTLING | FAILURES)
def test_a_shard_is_asked_five_times_a_second_at_most_also_when_calls_fail(
    put, reading_of, client, faults, called, trouble
):
    draw_waits(client, lambda _: 0.0)
    put(*[b"%d" % item for item in range(12)])
    faults.page_size(1)
    trouble(faults, after=3, times=5)
    assert len(data(reading_of())) == 12
    assert len(called) == 12 + 5
    assert most_in_a_second(called) == 5


def test_five_calls_a_second_hold_where_the_service_sees_them_though_calls_are_slow_on_the_way(
    put, reading_of, client, faults, virtual
):
    draw_waits(client, lambda _: 0.0)
    put(b"0")
    came = []

    def slow_the_first_time(arguments):
        virtual.now += 0 if came else 0.19
        came.append(virtual.now)
        return arguments

    faults.request("GetRecords", slow_the_first_time)
    faults.throttle(times=8)
    assert data(reading_of()) == [b"0"]
    assert most_in_a_second(came) == 5


def test_a_backlog_of_small_pages_is_read_without_being_throttled(put, reading_of, faults, refusals):
    put(*[b"%d" % item for item in range(30)])
    faults.page_size(1)
    assert data(reading_of()) == [b"%d" % item for item in range(30)]
    assert faults.count("GetRecords") == 30
    assert refusals == []


def test_a_backlog_of_full_pages_is_read_at_two_megabytes_a_second_without_being_throttled(
    kinesis, stream, reading_of, called, refusals, virtual
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    size = MIB - 1
    for _ in range(30):
        virtual.now += 1  # the limits are for writers too
        kinesis.put_record(StreamName=stream, Data=bytes(size), PartitionKey="k")
    began = virtual.now
    reading = reading_of()
    pages = [sum(len(record.data) for record in records) for records in reading]
    assert pages == [10 * size, 10 * size, 10 * size]
    assert refusals == []
    assert [round(time - began, 1) for time in called] == [0, 5.2, 10.5]


def test_long_partition_keys_count_in_what_a_shard_gives(put, reading_of, faults, refusals, virtual):
    for _ in range(8):
        put(*[b"x"] * 500, partition_key="k" * 256)
        virtual.now += 1
    faults.page_size(2000)
    assert len(data(reading_of())) == 8 * 500
    assert refusals == []
