"""Each emulator starts, stores records and returns them."""

from __future__ import annotations

import itertools
import uuid
from contextlib import closing

from integration.emulators.emulators import client


def test_records_put_into_two_shards_are_read_back_from_trim_horizon(emulator_endpoint: str) -> None:
    stream = f"smoke-{uuid.uuid4()}"
    payloads = [f"record {n}".encode() for n in range(10)]
    with closing(client(emulator_endpoint)) as kinesis:
        kinesis.create_stream(StreamName=stream, ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(
            StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
        )
        for payload in payloads:
            kinesis.put_record(StreamName=stream, PartitionKey=payload.decode(), Data=payload)

        shards = [shard["ShardId"] for shard in kinesis.list_shards(StreamName=stream)["Shards"]]
        read = [_read(kinesis, stream, shard) for shard in shards]

    assert len(shards) == 2
    assert all(read), "ten keys reach both shards"
    assert sorted(itertools.chain(*read)) == payloads


def _read(kinesis, stream: str, shard: str) -> list[bytes]:
    iterator = kinesis.get_shard_iterator(StreamName=stream, ShardId=shard, ShardIteratorType="TRIM_HORIZON")[
        "ShardIterator"
    ]
    return [record["Data"] for record in kinesis.get_records(ShardIterator=iterator)["Records"]]
