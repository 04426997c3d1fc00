"""A stream that another consumer reads too: the limits of a shard are for both together."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from kinesis_assets.kinesis.sdk_client import sdk_client
from support.one_shard import SHARD
from support.virtual_time import VirtualTime


@dataclass
class Consumer:
    """Another consumer, which calls at nearly constant intervals, whatever the service returns.

    Attributes:
        kinesis: A client that makes one attempt of each call.
        iterator: Its next iterator.
        next_call: The time of its next call.
        seconds_between_calls: Seconds from a call to the next one, within 5%.
        draws: Draws the seconds.
        records: The number of records that it has read.
        refusals: The number of its calls that were throttled.
    """

    kinesis: Any
    iterator: str
    next_call: float
    seconds_between_calls: float
    draws: Random = field(default_factory=lambda: Random(2))
    records: int = 0
    refusals: int = 0

    def call(self):
        self.next_call += self.draws.uniform(0.95, 1.05) * self.seconds_between_calls
        try:
            page = self.kinesis.get_records(ShardIterator=self.iterator)
        except self.kinesis.exceptions.ProvisionedThroughputExceededException:
            self.refusals += 1
        else:
            self.iterator = page["NextShardIterator"]
            self.records += len(page["Records"])


class SharedTime(VirtualTime):
    """A clock that the waits of the reader advance. The other consumer makes its calls meanwhile."""

    other: Consumer | None = None

    def sleep(self, seconds):
        end = self.now + seconds
        while self.other is not None and self.other.next_call <= end:
            self.now = max(self.now, self.other.next_call)
            self.other.call()
        super().sleep(end - self.now)


@pytest.fixture
def virtual():
    return SharedTime()


@pytest.fixture
def client(worker_client):
    return worker_client


@pytest.mark.usefixtures("share")
def test_a_share_of_the_calls_and_a_consumer_of_the_rest_do_not_throttle_each_other(
    put, reading_of, kinesis, stream, settings, faults, virtual
):
    put(*[b"%d" % number for number in range(20)])
    faults.page_size(1)
    faults.enforce_limits(virtual.monotonic)
    place = {"StreamName": stream, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
    iterator = kinesis.get_shard_iterator(**place)["ShardIterator"]
    virtual.other = Consumer(sdk_client(settings, attempts=1), iterator, virtual.now + 0.05, 0.36)
    times = [virtual.now for _ in reading_of()]
    virtual.sleep(10.0)
    assert (len(times), virtual.other.records, virtual.other.refusals) == (20, 20, 0)
    assert max(later - earlier for earlier, later in pairwise(times)) < 0.6
