"""A stream that another consumer reads too: the limits of a shard are for both together."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks.harness.waiting import wait_until
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.read_timing import ReadTiming
from support.one_shard import data

RECORDS = 20
SHARD = "shardId-000000000000"


@dataclass
class Consumer(threading.Thread):
    """Another consumer, which makes three calls per second until it has read all records.

    Attributes:
        calls: The number of its calls that succeeded.
        refusals: The number of its calls that were throttled.
    """

    kinesis: Any
    stream: str
    calls: int = 0
    refusals: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self):
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self):
        iterator = self.kinesis.get_shard_iterator(
            StreamName=self.stream, ShardId=SHARD, ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        read = 0
        while read < RECORDS:
            begun = time.monotonic()
            try:
                page = self.kinesis.get_records(ShardIterator=iterator, Limit=1)
            except ClientError:
                self.refusals += 1
            else:
                self.calls += 1
                read += len(page["Records"])
                iterator = page["NextShardIterator"]
            self.done.wait(max(0.0, begun + 1 / 3 - time.monotonic()))


@pytest.fixture
def worker_client(stream, settings):
    """A client that takes two of the five calls per second."""
    return StreamClient(stream, replace(settings, timing=ReadTiming.of_share(2)), attempts=1)


@pytest.fixture
def client(worker_client):
    return worker_client


@pytest.mark.real_time
def test_both_consumers_read_everything_and_hardly_refuse_each_other(
    put, reading_of, faults, kinesis, stream
):
    put(*[b"%d" % item for item in range(RECORDS)])
    faults.page_size(1, stream=stream)
    faults.enforce_limits()
    other = Consumer(kinesis, stream)
    other.start()
    assert len(data(reading_of())) == RECORDS
    wait_until(lambda: not other.is_alive())
    assert other.calls == RECORDS
    assert other.refusals < RECORDS / 2
