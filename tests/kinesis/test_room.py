"""The memory that pages take together: never more than there is, and nobody waits for ever."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from traceback import walk_tb

import pytest

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.client import ClientSettings, StreamClient
from kinesis_assets.kinesis.direct_call import COPIES, LARGEST_BODY, DirectCall
from kinesis_assets.kinesis.http_answer import HttpAnswer
from kinesis_assets.kinesis.pages import Page, Records, WirePage
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.room import Room

SHARD = "shardId-000000000000"
BEGINNING = Position(PositionKind.TRIM_HORIZON)


def until(condition):
    """Wait for something that other threads do."""
    deadline = time.monotonic() + 5
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)


class Told(Room):
    """Notes what is asked of it."""

    def __init__(self, capacity):
        super().__init__(capacity)
        self.asked = []

    def take(self, amount):
        self.asked.append(amount)
        return super().take(amount)


def test_never_more_than_there_is_and_all_are_served():
    room, served = Room(100), []

    def work(number):
        seat = room.seat()
        for size in (number * 7 % 100, 100, 250, 1):
            seat.take(size)
            served.append(size)
            seat.leave()

    with ThreadPoolExecutor(16) as pool:
        for work_ in [pool.submit(work, number) for number in range(40)]:
            work_.result(timeout=30)
    assert len(served) == 160
    assert room.most_taken == 100


def test_who_asks_for_more_than_all_of_it_waits_until_it_is_alone():
    room = Room(100)
    small, large = room.seat(), room.seat()
    small.take(1)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(large.take, 1000)
        assert not waiting.done()
        small.leave()
        waiting.result(timeout=5)
    assert room.most_taken == 100


def test_a_large_one_is_not_passed_by_small_ones_for_ever():
    room = Room(100)
    holder, large, small = room.seat(), room.seat(), room.seat()
    holder.take(60)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(large.take, 80)
        until(lambda: room._waiting)
        second = pool.submit(small.take, 10)
        until(lambda: len(room._waiting) == 2 or second.done())
        passed = second.done()
        holder.leave()
        first.result(timeout=5)
        second.result(timeout=5)
    assert not passed


def test_a_seat_that_is_taken_again_holds_the_new_page_alone():
    room = Room(100)
    seat = room.seat()
    seat.take(90)
    seat.take(90)
    seat.leave()
    seat.leave()
    room.seat().take(100)


def page(client, room):
    seat = room.seat()
    found, _ = client.get_records(client.shard_iterator(SHARD, BEGINNING), 10_000, seat)
    return found


def test_a_page_takes_what_its_body_takes_before_it_is_read(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    bodies = []
    faults.answer("GetRecords", lambda _, answer: bodies.append(len(answer.body)))
    room = Told(1 << 30)
    assert [len(record.data) for record in page(client, room).records] == [100_000]
    assert room.asked == [int(COPIES * bodies[0])]


def test_a_body_is_not_read_before_there_is_room(kinesis, stream, client):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    room = Room(1000)
    holder = room.seat()
    holder.take(1000)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(page, client, room)
        until(lambda: room._waiting)
        assert not read.done()
        holder.leave()
        assert len(read.result(timeout=5).records) == 1


def test_a_page_that_the_sdk_reads_takes_as_much_as_the_largest(kinesis, stream, settings):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    client = StreamClient(
        stream, ClientSettings(settings.region_name, settings.endpoint_url, sdk_parser=True)
    )
    room = Told(1 << 30)
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
    records = [good] * 10_000 + [good | bad]
    faults.answer("GetRecords", lambda _, answer: replace(answer.but(Records=records), status=status))
    if wrong == "date":
        of, name = (StreamClient, "_get_records_by_sdk") if by_sdk else (DirectCall, "__call__")
        call = getattr(of, name)
        monkeypatch.setattr(of, name, lambda *arguments: (call(*arguments)[0], None))
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk), attempts=1)
    with pytest.raises(CallFailed) as caught:
        page(client, Room(1 << 30))
    kept = list(kept_by(caught.value))
    assert kept
    assert not [each for each in kept if isinstance(each, (HttpAnswer, Page, Records, WirePage))]
    assert max(len(each) for each in kept if isinstance(each, (str, bytes, bytearray, memoryview))) < 10_000
    assert not [each for each in kept if isinstance(each, dict) and "Records" in each]


@pytest.mark.parametrize("on_wire", [False, True])
def test_a_body_cut_on_its_way_is_a_failed_call(kinesis, stream, settings, faults, on_wire):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    faults.cut_body(kept=0.5, on_wire=on_wire)
    with pytest.raises(CallFailed, match="IncompleteBody"):
        page(StreamClient(stream, settings, attempts=1), Room(1 << 30))
