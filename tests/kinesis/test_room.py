"""The memory that pages take together: never more than there is, and nobody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from traceback import walk_tb

import pytest
from told_room import ToldRoom

from kinesis_assets.errors import CallFailed, ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.record import Records
from kinesis_assets.kinesis.records.wire import Page, WirePage
from kinesis_assets.kinesis.settings import ClientSettings
from kinesis_assets.kinesis.transport.awaitables import Pause, RoomWait, by_a_thread, waited_out
from kinesis_assets.kinesis.transport.event_loop import EventLoop
from kinesis_assets.kinesis.transport.http_response import HttpAnswer
from kinesis_assets.kinesis.transport.memory_limiter import Room
from kinesis_assets.kinesis.transport.signed_call import COPIES, LARGEST_BODY, DirectCall

SHARD = "shardId-000000000000"
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)


def begun(work):
    """What some work waits for, for a first time; None if it is over."""
    return next(work, None)


def test_never_more_than_there_is_and_all_are_served():
    room, served, held = ToldRoom(100), [], {}

    def work(number):
        seat = room.seat()
        for size in (number * 7 % 100, 100, 250, 1):
            yield from seat.take(size)
            held[number] = min(size, 100)
            assert sum(held.values()) <= 100
            served.append(size)
            yield from by_a_thread(lambda: None)
            del held[number]
            seat.leave()
            yield Pause(number % 3 * 0.001)

    EventLoop(16).run([work(number) for number in range(40)])
    assert len(served) == 160
    assert room.most_taken == 100


def test_who_asks_for_more_than_all_of_it_waits_until_it_is_alone():
    room = ToldRoom(100)
    small, large = room.seat(), room.seat()
    waited_out(small.take(1))
    waiting = large.take(1000)
    wait = begun(waiting)
    assert not wait.is_over()
    small.leave()
    assert wait.is_over()
    assert begun(waiting) is None
    assert room.most_taken == 100


def test_a_large_one_is_not_passed_by_small_ones_for_ever():
    room = Room(100)
    holder, large, small = room.seat(), room.seat(), room.seat()
    waited_out(holder.take(60))
    larges, smalls = large.take(80), small.take(10)
    first, second = begun(larges), begun(smalls)
    assert not second.is_over()
    holder.leave()
    assert [first.is_over(), second.is_over()] == [True, False]
    assert begun(larges) is None
    assert second.is_over()
    assert begun(smalls) is None


def test_who_goes_while_it_waits_is_waited_for_no_longer():
    room = Room(100)
    holder, large, small = room.seat(), room.seat(), room.seat()
    waited_out(holder.take(60))
    larges, smalls = large.take(80), small.take(10)
    _, wait = begun(larges), begun(smalls)
    larges.close()
    assert wait.is_over()
    assert begun(smalls) is None
    holder.leave()
    small.leave()
    waited_out(room.seat().take(100))


def test_who_waits_holds_nothing_meanwhile():
    room = Room(100)
    one, other = room.seat(), room.seat()
    waited_out(one.take(50))
    waited_out(other.take(50))
    ones, others = one.take(100), other.take(100)
    _, wait = begun(ones), begun(others)
    assert begun(ones) is None
    assert not wait.is_over()
    one.leave()
    assert begun(others) is None


def test_a_seat_that_is_taken_again_holds_the_new_page_alone():
    room = Room(100)
    seat = room.seat()
    waited_out(seat.take(90))
    waited_out(seat.take(90))
    seat.leave()
    seat.leave()
    waited_out(room.seat().take(100))


def getting_page(client, room):
    iterator = client.shard_iterator(SHARD, BEGINNING)
    found, _ = yield from client.getting_records(iterator, 10_000, room.seat())
    return found


def page(client, room):
    return waited_out(getting_page(client, room))


def test_a_page_takes_what_its_body_takes_before_it_is_read(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    bodies = []
    faults.answer("GetRecords", lambda _, answer: bodies.append(len(answer.body)))
    room = ToldRoom(1 << 30)
    assert [len(record.data) for record in page(client, room).records] == [100_000]
    assert room.asked == [int(COPIES * bodies[0])]


@pytest.mark.parametrize("by_sdk", [False, True])
def test_a_body_is_not_read_before_there_is_room(kinesis, stream, settings, by_sdk):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(1_000_000), PartitionKey="k")
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk))
    room = Room(1000)
    holder = room.seat()
    waited_out(holder.take(1000))
    reading = getting_page(client, room)
    while not isinstance(wait := next(reading), RoomWait):
        wait.wait_out()
    assert not wait.is_over()
    holder.leave()
    assert wait.is_over()
    assert len(waited_out(reading).records) == 1


def test_a_page_that_the_sdk_reads_takes_as_much_as_the_largest(kinesis, stream, settings):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    client = StreamClient(
        stream, ClientSettings(settings.region_name, settings.endpoint_url, sdk_parser=True)
    )
    room = ToldRoom(1 << 30)
    page(client, room)
    assert room.asked == [int(COPIES * LARGEST_BODY)]


def kept_by(error):
    """What an error's frames in the package keep."""
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            if "kinesis_assets" in frame.f_code.co_filename:
                yield from frame.f_locals.values()
        error = error.__context__


@pytest.mark.parametrize("by_sdk", [False, True])
@pytest.mark.parametrize("wrong", ["data", "number", "date", "refused"])
def test_a_page_that_fails_is_not_kept_by_its_error(
    kinesis, stream, settings, faults, monkeypatch, wrong, by_sdk
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    good = {"SequenceNumber": "1", "ApproximateArrivalTimestamp": 1.5, "Data": "eA==", "PartitionKey": "k"}
    bad = {"data": {"Data": "e!"}, "number": {"SequenceNumber": "one"}}.get(wrong, {})
    status = 400 if wrong == "refused" else 200
    records = [good | {"SequenceNumber": str(number)} for number in range(1, 10_001)]
    records.append(good | {"SequenceNumber": "10001"} | bad)
    faults.answer("GetRecords", lambda _, answer: replace(answer.but(Records=records), status=status))
    if wrong == "date":
        of, name = (StreamClient, "_get_records_by_sdk") if by_sdk else (DirectCall, "__call__")
        call = getattr(of, name)

        def dateless(*arguments):
            return (yield from call(*arguments))[0], None

        monkeypatch.setattr(of, name, dateless)
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk), attempts=1)
    with pytest.raises(CallFailed) as caught:
        page(client, Room(1 << 30))
    kept = list(kept_by(caught.value))
    assert kept
    assert not [each for each in kept if isinstance(each, (HttpAnswer, Page, Records, WirePage))]
    assert max(len(each) for each in kept if isinstance(each, (str, bytes, bytearray, memoryview))) < 10_000
    assert not [each for each in kept if isinstance(each, dict) and "Records" in each]


@pytest.mark.parametrize("by_sdk", [False, True])
def test_a_page_that_is_repeated_is_not_kept_by_its_shards_error(kinesis, stream, settings, faults, by_sdk):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    put = [kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey="k") for _ in range(2)]
    faults.repeat_page()
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk), attempts=1)
    start = Position.after(put[0]["SequenceNumber"])
    with pytest.raises(ReadFailed, match="RepeatedPage") as caught:
        list(ShardReading(client, ShardRange(SHARD, start, Bounds(), ALL_KEYS)))
    assert [each for each in kept_by(caught.value) if isinstance(each, Position)]
    assert not [each for each in kept_by(caught.value) if isinstance(each, (Page, Records))]


@pytest.mark.parametrize("on_wire", [False, True])
def test_a_body_cut_on_its_way_is_a_failed_call(kinesis, stream, settings, faults, on_wire):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    faults.cut_body(kept=0.5, on_wire=on_wire)
    with pytest.raises(CallFailed, match="IncompleteBody"):
        page(StreamClient(stream, settings, attempts=1), Room(1 << 30))
