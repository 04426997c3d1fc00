"""A stream that another consumer reads too: the limits of a shard are for both together."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

import pytest

from kinesis_assets.kinesis.sdk_client import sdk_client
from support.one_shard import SHARD
from support.service_faults import draw_waits
from support.virtual_time import VirtualTime

MIB = 1 << 20

Pages = list[tuple[float, list[int]]]
"""The pages that a consumer has read: when, and the numbers in it."""


@dataclass
class Consumer:
    """Another consumer, which reads the shard to its tip.

    Attributes:
        kinesis: A client that makes one attempt of each call.
        iterator: Its next iterator.
        next_call: The time of its next call; infinite at the tip.
        seconds_between_calls: Seconds from a call to the next one.
        seconds_after_refusal: Seconds from a throttled call to the next one.
        pages: What it has read.
        refusals: The number of its calls that were throttled.
    """

    kinesis: Any
    iterator: str
    next_call: float
    seconds_between_calls: float
    seconds_after_refusal: float
    pages: Pages = field(default_factory=list)
    refusals: int = 0

    def call(self):
        """Make the next call, whose time has come."""
        called = self.next_call
        try:
            page = self.kinesis.get_records(ShardIterator=self.iterator)
        except self.kinesis.exceptions.ProvisionedThroughputExceededException:
            self.refusals += 1
            self.next_call = called + self.seconds_after_refusal
            return
        self.iterator = page["NextShardIterator"]
        self.pages.append((called, [number_of(record["Data"]) for record in page["Records"]]))
        at_tip = page["MillisBehindLatest"] == 0
        self.next_call = inf if at_tip else called + self.seconds_between_calls


class SharedTime(VirtualTime):
    """A clock that the waits of the reader advance. Another consumer makes its calls meanwhile.

    Attributes:
        other: The other consumer, if there is one.
    """

    other: Consumer | None = None

    def sleep(self, seconds):
        end = self.now + seconds
        while self.other is not None and self.other.next_call <= end:
            self.now = self.other.next_call
            self.other.call()
        super().sleep(end - self.now)


def numbered(count, size=4):
    """Return the data of some records, which begin with their numbers."""
    return [b"%04d" % number + bytes(size - 4) for number in range(count)]


def number_of(data):
    return int(data[:4])


def numbers(pages):
    return [number for _, page in pages for number in page]


def read_to_tip(reading, time):
    """Read the shard, then let the other consumer read its rest alone, and return the reader's pages."""
    pages = [(time.now, [number_of(record.data) for record in records]) for records in reading]
    time.sleep(3600)
    return pages


def while_both_read(mine, others):
    """Return when the first consumer had read everything, and how many pages each of them had until then."""
    end = min(mine[-1][0], others[-1][0])
    return end, *(sum(called <= end for called, _ in pages) for pages in (mine, others))


@pytest.fixture
def virtual():
    return SharedTime()


@pytest.fixture
def client(worker_client):
    """A client whose waits are the same each time."""
    draws = Random(1)
    draw_waits(worker_client, lambda seconds: draws.uniform(0, seconds))
    return worker_client


@pytest.fixture
def join(kinesis, stream, settings, virtual):
    """Lets another consumer start to read the stream."""

    def join(*, seconds_between_calls, seconds_after_refusal):
        iterator = kinesis.get_shard_iterator(
            StreamName=stream, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        virtual.other = Consumer(
            sdk_client(settings, attempts=1),
            iterator,
            virtual.now + 0.05,
            seconds_between_calls,
            seconds_after_refusal,
        )
        return virtual.other

    return join


@pytest.mark.usefixtures("share")
def test_a_share_of_the_calls_and_a_consumer_with_the_rest_do_not_refuse_each_other(
    put, reading_of, faults, virtual, join
):
    put(*numbered(20))
    faults.page_size(1)
    faults.enforce_limits(virtual.monotonic)
    other = join(seconds_between_calls=0.34, seconds_after_refusal=0.34)
    reading = reading_of()
    pages = read_to_tip(reading, virtual)
    assert numbers(pages) == numbers(other.pages) == list(range(20))
    assert reading.throttles == other.refusals == 0


def test_a_reader_and_a_consumer_that_make_all_calls_of_a_shard_do_not_starve_each_other(
    put, reading_of, faults, virtual, join
):
    put(*numbered(100))
    faults.page_size(1)
    faults.enforce_limits(virtual.monotonic)
    other = join(seconds_between_calls=0.2, seconds_after_refusal=1.0)
    began = virtual.now
    pages = read_to_tip(reading_of(), virtual)
    assert numbers(pages) == numbers(other.pages) == list(range(100))
    end, *calls = while_both_read(pages, other.pages)
    # Each makes at least one of the five calls a second.
    assert min(calls) >= end - began


def test_a_reader_and_a_consumer_of_large_pages_share_the_bytes_of_a_shard(
    put, reading_of, faults, virtual, join
):
    for data in numbered(60, MIB - 1):
        put(data)
    faults.enforce_limits(virtual.monotonic)
    other = join(seconds_between_calls=1.2, seconds_after_refusal=1.2)
    reading = reading_of()
    pages = read_to_tip(reading, virtual)
    assert numbers(pages) == numbers(other.pages) == list(range(60))
    assert [len(page) for _, page in pages] == [10] * 6
    _, mine, others = while_both_read(pages, other.pages)
    assert min(mine, others) >= 2
    # A large page of the other consumer refuses calls for five seconds: the reader backs off meanwhile.
    assert reading.throttles <= 8 * others
