"""The pages of events that a subscription has received, and what they are refused for."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading import received_pages
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.reading.received_pages import Received, ReceivedEvent, ReceivedPages
from kinesis_assets.kinesis.records.records import Records
from kinesis_assets.kinesis.records.wire import Page
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, run
from support.one_shard import ALL_KEYS, BEGINNING, SHARD
from support.recording_limiter import RecordingLimiter

DATE = datetime(2026, 11, 28, 12, tzinfo=UTC)
POLLED = Page(Records(["99"], [1.0], [b""], ["k"]), 0, "iterator")


class Polls:
    """GetRecords, which returns one page."""

    def __init__(self):
        self.connected = []
        self.dropped = 0

    def drop_iterator(self):
        self.dropped += 1

    async def connect(self, position):
        self.connected.append(position)

    async def page(self, *_):
        return POLLED, DATE


def record(number, size=1, arrival=DATE):
    return {
        "SequenceNumber": str(number),
        "ApproximateArrivalTimestamp": arrival.timestamp(),
        "Data": base64.b64encode(b"x" * size).decode(),
        "PartitionKey": "k",
    }


def event(*records, behind=0, continuation="1", emptied=0.0, received=0.0):
    members = {"Records": records, "MillisBehindLatest": behind}
    if continuation is not None:
        members["ContinuationSequenceNumber"] = continuation
    at = [DATE + timedelta(seconds=seconds) for seconds in (emptied, received)]
    return ReceivedEvent(json.dumps(members).encode(), *at)


def pages_of(*events, start=BEGINNING, closed=False):
    return ReceivedPages(Received(start, list(events), 0, DATE), Polls(), closed=closed)


def read(pages, position=BEGINNING, limiter=None):
    """Read a page, and return the numbers of its records, its time and its lag."""

    async def read():
        await pages.connect(position)
        reservation = (limiter or MemoryLimiter(1 << 30)).reservation()
        page, served = await pages.page(1, position, reservation)
        return page.records.numbers, (served - DATE).total_seconds(), page.millis_behind_latest

    return run(read())


def test_events_are_one_page_that_has_the_lag_of_the_last_one():
    pages = pages_of(event(record(1), behind=7), event(record(2), record(3), behind=5), event(behind=4))
    assert read(pages) == (["1", "2", "3"], 0.0, 4)
    assert (pages.exhausted, pages.uses_shared_rates, pages.refused) == (True, False, None)


@pytest.mark.parametrize(
    ("bounds", "records", "end", "behind"),
    [({}, 5, RangeEnd.TIP, 0), ({"max_records": 2}, 2, RangeEnd.BOUND, 1)],
    ids=["no bound", "a bound at the end of a page"],
)
def test_a_reading_is_not_at_the_tip_before_it_has_read_all_events(client, bounds, records, end, behind):
    events = [event(record(n, size=1 << 19)) for n in range(1, 6)]
    range_ = ShardRange(SHARD, BEGINNING, Bounds(**bounds), ALL_KEYS)
    reading = ShardReading(client, range_, received=Received(BEGINNING, events, 0, DATE))
    assert sum(map(len, reading)) == records
    assert (reading.end, reading.millis_behind_latest) == (end, behind)


def test_a_page_that_was_not_used_is_read_by_getrecords():
    pages = pages_of(*(event(record(n, size=1 << 19)) for n in range(1, 6)))
    assert read(pages)[0] == ["1", "2"]
    pages.drop_iterator()
    assert read(pages)[0] == ["99"]
    assert (pages._polls.connected, pages._polls.dropped) == ([BEGINNING], 1)
    assert pages.refused == "its events leave out a record"


def test_a_page_has_not_much_more_than_a_mebibyte():
    pages = pages_of(*(event(record(n, size=1 << 19)) for n in range(1, 6)))
    assert read(pages)[0] == ["1", "2"]
    assert not pages.exhausted
    assert read(pages, Position.after("2"))[0] == ["3", "4"]
    assert read(pages, Position.after("4"))[0] == ["5"]
    assert pages.exhausted


def test_memory_is_reserved_for_a_page_by_the_size_of_its_events():
    limiter, events = RecordingLimiter(1 << 30), [event(record(1)), event(record(2))]
    read(pages_of(*events), limiter=limiter)
    assert limiter.requested == [int(2.5 * sum(len(each.payload) for each in events))]


@pytest.mark.parametrize(
    ("position", "unread"),
    [(Position.after("2"), ["3", "4"]), (Position.after("2", 5), ["2", "3", "4"])],
    ids=["after a record", "inside an aggregate"],
)
def test_events_that_were_read_in_part_start_at_the_position(position, unread):
    pages = pages_of(event(record(1), record(2), record(3)), event(record(4)))
    assert read(pages, position)[0] == unread
    assert pages.refused is None


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([event(record(6), record(6))], "not greater"),
        ([event(record(7), record(6))], "not greater"),
        ([event(record(6)), event(record(6))], "not greater"),
        ([event(record(5))], "starts at sequence number 5"),
        ([event(record(6) | {"Data": "?"})], "base64"),
        ([event({"SequenceNumber": "6"})], "missing required field"),
        ([ReceivedEvent(b"[" * 100_000, DATE, DATE)], "array"),
    ],
    ids=["twice", "backwards", "repeated", "before the position", "not base64", "no data", "nested"],
)
def test_getrecords_reads_instead_of_an_invalid_event(events, reason):
    start = Position.after("5")
    pages = pages_of(*events, event(record(8)), start=start)
    assert read(pages, start)[0] == ["99"]
    assert reason in pages.refused
    assert pages.uses_shared_rates
    assert not pages.exhausted


@pytest.mark.parametrize("ending", [{"continuation": None}, {"closed": True}], ids=["event", "closed"])
def test_getrecords_reads_the_end_of_a_shard(ending):
    closed = ending.pop("closed", False)
    pages = pages_of(event(record(1), **ending), closed=closed)
    read(pages)
    assert not pages.exhausted
    assert read(pages, Position.after("1"))[0] == ["99"]
    assert pages.refused is None


@pytest.mark.parametrize(("behind", "seconds"), [(0, 10), (1, 30)])
def test_the_time_of_a_page_up_to_the_tip_is_that_at_which_nothing_else_had_arrived(behind, seconds):
    arrived = DATE - timedelta(hours=1)
    pages = pages_of(event(record(1, arrival=arrived), behind=behind, emptied=10, received=30))
    assert read(pages)[1] == seconds


@pytest.mark.parametrize(("arrived", "seconds"), [(5, 10), (17, 17), (100, 30)])
def test_the_time_of_the_tip_is_not_before_the_arrival_of_the_last_record(arrived, seconds):
    arrival = DATE + timedelta(seconds=arrived)
    pages = pages_of(event(record(1, arrival=arrival), emptied=10, received=30))
    assert read(pages)[1] == seconds


def test_the_time_of_the_tip_does_not_go_back_while_more_arrives_than_a_page_has():
    arrival = DATE + timedelta(seconds=7)
    pages = pages_of(event(record(1, size=1 << 21, arrival=arrival), received=10), event(received=20))
    assert [read(pages)[1], read(pages, Position.after("1"))[1]] == [7, 7]


def test_what_was_received_can_be_sent_to_another_process():
    received = {
        "first": Received(Position.after("1", 2), [event(record(2), emptied=1.5), event(record(3))], 3, DATE),
        "second": Received(Position.after("7"), [], 0, DATE),
        "third": Received(Position.after("1"), [event(record(2, size=9))], 4, DATE + timedelta(seconds=1)),
    }
    assert received_pages.decode(b"".join(received_pages.encode(received))) == received
