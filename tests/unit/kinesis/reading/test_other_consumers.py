"""A stream that other consumers read too: the limits of a shard are for all of them together."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.sdk import sdk_client
from kinesis_assets.kinesis.settings import ReadTiming
from kinesis_assets.kinesis.transport.concurrency import Turns
from support.one_shard import BEGINNING, SHARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.reading.reading import ShardReading

SECONDS = 60.0
CALLS = 5 * SECONDS
"""The calls that the shard allows in this time."""


@dataclass
class Consumer:
    """Another consumer, which calls at nearly constant intervals, whatever the service returns.

    Attributes:
        kinesis: A client that makes one attempt of each call.
        iterator: Its next iterator.
        seconds_between_calls: Seconds from a call to the next one, within 5%.
        begin: Seconds until its first call.
        draws: Draws the seconds.
        records: The number of records that it has read.
        refusals: The number of its calls that were throttled.
        pages: The number of its other calls.
    """

    kinesis: Any
    iterator: str
    seconds_between_calls: float
    begin: float
    draws: random.Random = field(default_factory=lambda: random.Random(2))
    records: int = 0
    refusals: int = 0
    pages: int = 0

    async def consume(self, turns: Turns) -> None:
        await turns.pause(self.begin)
        while True:
            try:
                page = self.kinesis.get_records(ShardIterator=self.iterator)
            except self.kinesis.exceptions.ProvisionedThroughputExceededException:
                self.refusals += 1
            else:
                self.iterator = page["NextShardIterator"]
                self.pages += 1
                self.records += len(page["Records"])
            await turns.pause(self.draws.uniform(0.95, 1.05) * self.seconds_between_calls)


@dataclass
class Iterations:
    """The readings of a continuous run that is behind: one a second, each with a pace of its own.

    Attributes:
        reading_of: Creates a reading.
        records: The number of records that they have read.
    """

    reading_of: Callable[..., ShardReading]
    records: int = 0

    async def consume(self, turns: Turns) -> None:
        position = BEGINNING
        while True:
            reading = self.reading_of(position, max_seconds=1.0)
            await read(reading, turns)
            position = reading.position
            self.records += reading.records
            await turns.pause(ReadTiming().seconds_between_calls)


async def read(reading: ShardReading, turns: Turns) -> None:
    """Read a range to its end, side by side with others."""
    reading._pause = turns.pause
    async for _ in reading.batches():
        pass


@pytest.fixture(autouse=True)
def _seed():
    random.seed(7)


@pytest.fixture
def client(stream, settings, virtual):
    return StreamClient(stream, replace(settings, timing=ReadTiming(clock=virtual)), attempts=1)


@pytest.fixture
def small_pages(put, faults, virtual):
    """The test's shard has more records than its limits allow to read, and one in each page."""
    for _ in range(1):
        put(*[b"%d" % number for number in range(400)])
    faults.page_size(1)
    faults.enforce_limits(virtual.monotonic)


@pytest.fixture
def consumer(kinesis, stream, settings):
    """Create another consumer of the shard."""

    def consumer(seconds_between_calls, begin=0.05, first="TRIM_HORIZON"):
        place = {"StreamName": stream, "ShardId": SHARD, "ShardIteratorType": first}
        first = kinesis.get_shard_iterator(**place)["ShardIterator"]
        return Consumer(sdk_client(settings, attempts=1), first, seconds_between_calls, begin)

    return consumer


def run(virtual, *consumers, seconds=SECONDS):
    """Run readings and other consumers side by side."""
    turns = Turns(1, virtual)

    class Over(Exception):
        """The time is over."""

    async def consume(consumer):
        async with turns:
            await (consumer.consume(turns) if hasattr(consumer, "consume") else read(consumer, turns))

    async def ends():
        async with turns:
            await turns.pause(seconds)
        raise Over

    with pytest.raises(Over):
        turns.run([*map(consume, consumers), ends()])


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
def test_a_reading_that_has_the_shard_to_itself_is_never_refused_and_nearly_as_fast_as_the_limits_allow(
    reading_of, virtual
):
    reading = reading_of()
    run(virtual, reading)
    assert reading.throttles == 0
    assert reading.records > 0.95 * CALLS


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("readings", [2, 3])
def test_readings_of_the_same_shard_get_similar_shares_of_its_calls(reading_of, virtual, readings):
    readings = [reading_of() for _ in range(readings)]
    run(virtual, *readings)
    records = [reading.records for reading in readings]
    assert min(records) > 0.6 * max(records)
    assert sum(records) > 0.7 * CALLS


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("begin", [0.05, 10])
def test_a_reading_leaves_the_calls_of_a_slower_consumer_to_it(consumer, reading_of, virtual, begin):
    reading, other = reading_of(), consumer(0.5, begin)
    run(virtual, reading, other)
    assert other.refusals < 0.3 * (other.records + other.refusals)
    assert reading.records > 0.35 * CALLS


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seconds_between_calls", [0.5, 1.0])
def test_a_continuous_run_that_is_behind_leaves_the_calls_of_a_slower_consumer_to_it(
    consumer, reading_of, virtual, seconds_between_calls
):
    iterations, other = Iterations(reading_of), consumer(seconds_between_calls, 10)
    run(virtual, iterations, other)
    assert other.refusals < 0.3 * (other.records + other.refusals)
    assert iterations.records > 0.35 * CALLS


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages")
def test_a_consumer_that_calls_as_often_as_the_shard_allows_does_not_stop_a_reading(
    consumer, reading_of, virtual
):
    reading, other = reading_of(), consumer(0.2)
    run(virtual, reading, other)
    assert reading.records > 0.1 * CALLS
    assert other.records > 0.6 * CALLS


@pytest.mark.slow
def test_a_consumer_at_the_tip_gets_calls_through_while_a_backlog_of_full_pages_is_read(
    consumer, put, faults, reading_of, virtual
):
    faults.enforce_limits(virtual.monotonic)
    for _ in range(65):
        virtual.now += 1  # writes are limited too
        put(bytes(1_000_000))
    faults.page_size(10)
    reading, other = reading_of(), consumer(1.0, first="LATEST")
    run(virtual, reading, other, seconds=30)
    assert (reading.records, reading.throttles) == (60, 0)
    assert other.pages > 0


@pytest.mark.slow
@pytest.mark.usefixtures("small_pages", "share")
def test_a_share_of_the_calls_and_a_consumer_of_the_rest_do_not_throttle_each_other(
    consumer, reading_of, virtual
):
    reading, other = reading_of(), consumer(0.36)
    run(virtual, reading, other)
    assert (reading.throttles, other.refusals) == (0, 0)
    assert reading.records > 0.95 * 2 * SECONDS
