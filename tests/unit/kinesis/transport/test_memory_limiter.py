"""The memory limiter: reservations never exceed its size, and no waiter starves."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from traceback import walk_tb

import pytest

from kinesis_assets.errors import CallFailed, ReadFailed
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.records.records import Records
from kinesis_assets.kinesis.records.wire import Page, WirePage
from kinesis_assets.kinesis.settings import LARGEST_BODY, ClientSettings
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter, Reservation, Turns, run
from kinesis_assets.kinesis.transport.http import HttpResponse
from kinesis_assets.kinesis.transport.signed_call import MEMORY_PER_BODY_BYTE, SignedCall
from support.recording_limiter import RecordingLimiter

SHARD = "shardId-000000000000"
ALL_KEYS = ("0", str((1 << 128) - 1))
BEGINNING = Position(PositionKind.TRIM_HORIZON)


async def started(coroutine):
    """Start a coroutine as a task, and let it run until it waits."""
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


def in_loop(test):
    """Run a test in an event loop."""

    @functools.wraps(test)
    def runs():
        run(test())

    return runs


def test_reservations_never_exceed_the_size_and_every_waiter_is_served():
    limiter, served, held = RecordingLimiter(100), [], {}
    turns = Turns(16)

    async def work(number):
        reservation = limiter.reservation()
        async with turns:
            for size in (number * 7 % 100, 100, 250, 1):
                await reservation.acquire(size)
                held[number] = min(size, 100)
                assert sum(held.values()) <= 100
                served.append(size)
                await asyncio.to_thread(lambda: None)
                del held[number]
                reservation.release()
                await turns.pause(number % 3 * 0.001)

    turns.run(map(work, range(40)))
    assert len(served) == 160
    assert limiter.max_reserved == 100


@in_loop
async def test_a_reservation_larger_than_the_size_waits_until_it_is_the_only_one():
    limiter = RecordingLimiter(100)
    small, large = limiter.reservation(), limiter.reservation()
    await small.acquire(1)
    waiting = await started(large.acquire(1000))
    assert not waiting.done()
    small.release()
    await waiting
    assert limiter.max_reserved == 100


@in_loop
async def test_a_large_reservation_is_not_overtaken_by_later_small_ones():
    limiter = MemoryLimiter(100)
    holder, large, small = limiter.reservation(), limiter.reservation(), limiter.reservation()
    await holder.acquire(60)
    first, second = await started(large.acquire(80)), await started(small.acquire(30))
    assert not second.done()
    holder.release()
    await first
    assert not second.done()
    large.release()
    await second


@in_loop
async def test_a_waiter_that_is_canceled_no_longer_delays_others():
    limiter = MemoryLimiter(100)
    holder, large, small = limiter.reservation(), limiter.reservation(), limiter.reservation()
    await holder.acquire(60)
    first, second = await started(large.acquire(80)), await started(small.acquire(10))
    first.cancel()
    await second
    holder.release()
    small.release()
    await limiter.reservation().acquire(100)


@in_loop
async def test_a_waiter_that_is_canceled_when_it_is_served_holds_no_memory():
    limiter = MemoryLimiter(100)
    holder = limiter.reservation()
    await holder.acquire(60)
    waiting = await started(limiter.reservation().acquire(80))
    holder.release()
    waiting.cancel()
    await limiter.reservation().acquire(100)
    assert waiting.cancelled()


@in_loop
async def test_a_waiter_holds_no_memory():
    limiter = MemoryLimiter(100)
    one, other = limiter.reservation(), limiter.reservation()
    await one.acquire(50)
    await other.acquire(50)
    first, second = await started(one.acquire(100)), await started(other.acquire(100))
    assert (first.done(), second.done()) == (True, False)
    one.release()
    await second


@in_loop
async def test_a_second_acquire_replaces_the_first():
    limiter = MemoryLimiter(100)
    reservation = limiter.reservation()
    await reservation.acquire(90)
    await reservation.acquire(90)
    reservation.release()
    reservation.release()
    await limiter.reservation().acquire(100)


async def getting_page(client, limiter):
    iterator, _ = await client.getting_iterator(SHARD, BEGINNING)
    found, _ = await client.getting_records(iterator, 10_000, limiter.reservation())
    return found


def page(client, limiter):
    return run(getting_page(client, limiter))


def test_a_page_reserves_memory_in_proportion_to_its_body(kinesis, stream, client, faults):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    bodies = []
    faults.answer("GetRecords", lambda _, response: bodies.append(len(response.body)))
    limiter = RecordingLimiter(1 << 30)
    assert [len(record.data) for record in page(client, limiter).records] == [100_000]
    assert limiter.requested == [int(MEMORY_PER_BODY_BYTE * bodies[0])]


@pytest.mark.parametrize("by_sdk", [False, True])
def test_a_body_is_not_read_before_memory_is_available(kinesis, stream, settings, by_sdk):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(1_000_000), PartitionKey="k")
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk))
    limiter, waiting = MemoryLimiter(1000), asyncio.Event()

    class Waiting(Reservation):
        async def acquire(self, amount):
            waiting.set()
            await super().acquire(amount)

    limiter.reservation = lambda: Waiting(limiter)

    async def reads():
        holder = Reservation(limiter)
        await holder.acquire(1000)
        reading = asyncio.create_task(getting_page(client, limiter))
        await waiting.wait()
        await asyncio.sleep(0.05)
        assert not reading.done()
        holder.release()
        return await reading

    assert len(run(reads()).records) == 1


def test_a_page_read_by_the_sdk_reserves_memory_for_the_largest_body(kinesis, stream, settings):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    client = StreamClient(
        stream, ClientSettings(settings.region_name, settings.endpoint_url, sdk_parser=True)
    )
    limiter = RecordingLimiter(1 << 30)
    page(client, limiter)
    assert limiter.requested == [int(MEMORY_PER_BODY_BYTE * LARGEST_BODY)]


def kept_by(error):
    """The values that an error's frames in the package keep alive."""
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            if "kinesis_assets" in frame.f_code.co_filename:
                yield from frame.f_locals.values()
        error = error.__context__


@pytest.mark.slow
@pytest.mark.parametrize("by_sdk", [False, True])
@pytest.mark.parametrize("wrong", ["data", "number", "date", "refused"])
def test_the_error_of_an_invalid_page_does_not_keep_the_page(
    kinesis, stream, settings, faults, monkeypatch, wrong, by_sdk
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    good = {"SequenceNumber": "1", "ApproximateArrivalTimestamp": 1.5, "Data": "eA==", "PartitionKey": "k"}
    bad = {"data": {"Data": "e!"}, "number": {"SequenceNumber": "one"}}.get(wrong, {})
    status = 400 if wrong == "refused" else 200
    records = [good | {"SequenceNumber": str(number)} for number in range(1, 10_001)]
    records.append(good | {"SequenceNumber": "10001"} | bad)
    faults.answer("GetRecords", lambda _, response: replace(response.but(Records=records), status=status))
    if wrong == "date":
        of, name = (StreamClient, "_get_records_by_sdk") if by_sdk else (SignedCall, "__call__")
        call = getattr(of, name)

        async def dateless(*arguments):
            return (await call(*arguments))[0], None

        monkeypatch.setattr(of, name, dateless)
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk), attempts=1)
    with pytest.raises(CallFailed) as caught:
        page(client, MemoryLimiter(1 << 30))
    kept = list(kept_by(caught.value))
    assert kept
    assert not [each for each in kept if isinstance(each, (HttpResponse, Page, Records, WirePage))]
    assert max(len(each) for each in kept if isinstance(each, (str, bytes, bytearray, memoryview))) < 10_000
    assert not [each for each in kept if isinstance(each, dict) and "Records" in each]


@pytest.mark.parametrize("by_sdk", [False, True])
def test_the_error_of_a_repeated_page_does_not_keep_the_page(
    kinesis, stream, settings, virtual, faults, by_sdk
):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    put = [kinesis.put_record(StreamName=stream, Data=b"x", PartitionKey="k") for _ in range(2)]
    faults.repeat_page()
    timing = replace(settings.timing, clock=virtual)
    client = StreamClient(stream, replace(settings, sdk_parser=by_sdk, timing=timing), attempts=1)
    start = Position.after(put[0]["SequenceNumber"])
    with pytest.raises(ReadFailed, match="RepeatedPage") as caught:
        list(ShardReading(client, ShardRange(SHARD, start, Bounds(), ALL_KEYS)))
    assert [each for each in kept_by(caught.value) if isinstance(each, Position)]
    assert not [each for each in kept_by(caught.value) if isinstance(each, (Page, Records))]


@pytest.mark.parametrize("on_wire", [False, True])
def test_a_truncated_body_fails_the_call(kinesis, stream, settings, faults, on_wire):
    kinesis.create_stream(StreamName=stream, ShardCount=1)
    kinesis.put_record(StreamName=stream, Data=bytes(100_000), PartitionKey="k")
    faults.cut_body(kept=0.5, on_wire=on_wire)
    with pytest.raises(CallFailed, match="IncompleteBody"):
        page(StreamClient(stream, settings, attempts=1), MemoryLimiter(1 << 30))
