"""Fixtures for the tests of the embedded Kinesis."""

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from kinesis_assets.emulator import LocalKinesis
from kinesis_assets.testing import Clock
from support.direct_calls import DirectCalls


class Stream:
    """The test's stream, with methods for the most frequent calls."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name

    @property
    def summary(self) -> dict[str, Any]:
        return self.client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]

    @property
    def arn(self) -> str:
        return str(self.summary["StreamARN"])

    def put(self, data: bytes, key: str = "key", **more: str) -> dict[str, Any]:
        return self.client.put_record(StreamName=self.name, Data=data, PartitionKey=key, **more)

    def put_to(self, shard: dict[str, Any], data: bytes) -> dict[str, Any]:
        return self.put(data, ExplicitHashKey=shard["HashKeyRange"]["StartingHashKey"])

    def shards(self, filter_type: str | None = None, **more: Any) -> list[dict[str, Any]]:
        shard_filter = {} if filter_type is None else {"ShardFilter": {"Type": filter_type, **more}}
        return self.client.list_shards(StreamName=self.name, **shard_filter)["Shards"]

    def numbers(self, filter_type: str | None = None, **more: Any) -> list[int]:
        return [int(shard["ShardId"][-12:]) for shard in self.shards(filter_type, **more)]

    def shard(self, number: int = 0) -> dict[str, Any]:
        return next(shard for shard in self.shards() if int(shard["ShardId"][-12:]) == number)

    def iterator(self, kind: str = "TRIM_HORIZON", number: int = 0, **more: Any) -> str:
        return self.client.get_shard_iterator(
            StreamName=self.name, ShardId=f"shardId-{number:012}", ShardIteratorType=kind, **more
        )["ShardIterator"]

    def page(self, iterator: str | None = None, **more: Any) -> dict[str, Any]:
        return self.client.get_records(ShardIterator=iterator or self.iterator(), **more)

    def read(self, number: int = 0) -> list[dict[str, Any]]:
        records = []
        iterator = self.iterator(number=number)
        while iterator:
            page = self.page(iterator)
            records += page["Records"]
            iterator = page.get("NextShardIterator") if page["MillisBehindLatest"] else None
        return records

    def data(self, number: int = 0) -> list[bytes]:
        return [record["Data"] for record in self.read(number)]

    def split(self, number: int = 0, at: int | None = None) -> None:
        keys = self.shard(number)["HashKeyRange"]
        middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2 + 1
        self.client.split_shard(
            StreamName=self.name,
            ShardToSplit=f"shardId-{number:012}",
            NewStartingHashKey=str(middle if at is None else at),
        )

    def merge(self, number: int, adjacent: int) -> None:
        self.client.merge_shards(
            StreamName=self.name,
            ShardToMerge=f"shardId-{number:012}",
            AdjacentShardToMerge=f"shardId-{adjacent:012}",
        )

    def scale(self, shard_count: int) -> dict[str, Any]:
        return self.client.update_shard_count(
            StreamName=self.name, TargetShardCount=shard_count, ScalingType="UNIFORM_SCALING"
        )


@pytest.fixture(scope="session")
def clock() -> Clock:
    clock = Clock()
    clock.seconds = 1_800_000_000.0
    return clock


@pytest.fixture(scope="session")
def direct_calls() -> DirectCalls:
    return DirectCalls()


@pytest.fixture(scope="session")
def local(clock: Clock, direct_calls: DirectCalls) -> Iterator[LocalKinesis]:
    with direct_calls.serve(clock) as running:
        yield running


@pytest.fixture(scope="session")
def connect() -> Callable[..., Any]:
    """Create a client, whose access key ID is its account if it has twelve digits."""

    def connect(local: LocalKinesis, access_key_id: str = "any") -> Any:
        return boto3.client(
            "kinesis",
            endpoint_url=local.endpoint_url,
            region_name=local.region,
            aws_access_key_id=access_key_id,
            aws_secret_access_key="any",  # noqa: S106 - nothing is signed for anyone
            # The endpoint must validate and fail the request, not the client.
            config=Config(retries={"total_max_attempts": 1}, parameter_validation=False),
        )

    return connect


@pytest.fixture(scope="session")
def client(local: LocalKinesis, connect: Callable[..., Any], direct_calls: DirectCalls) -> Any:
    """A client that calls the emulator without HTTP; `send` and `call` send requests."""
    return direct_calls.connect(connect(local))


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    return (f"stream-{number:04}" for number in count())


@pytest.fixture
def create(client: Any, clock: Clock, names: Iterator[str]) -> Iterator[Callable[[int], Stream]]:
    created = []

    def create(shard_count: int = 1) -> Stream:
        stream = Stream(client, next(names))
        client.create_stream(StreamName=stream.name, ShardCount=shard_count)
        created.append(stream.name)
        clock.advance(1)  # Streams created in the same millisecond are dated one millisecond later.
        return stream

    yield create
    for name in set(client.list_streams()["StreamNames"]) & set(created):
        client.delete_stream(StreamName=name, EnforceConsumerDeletion=True)


@pytest.fixture
def stream(create: Callable[[], Stream]) -> Stream:
    return create()


@pytest.fixture
def send(local: LocalKinesis) -> Callable[..., tuple[http.client.HTTPResponse, bytes]]:
    """Send a request with any body and headers."""

    def send(body: bytes, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", local.port)
        connection.request("POST", "/", body, {name.replace("_", "-"): headers[name] for name in headers})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response, content

    return send


@pytest.fixture
def call(send: Callable[..., Any]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Send a request as it is on the wire, without boto3."""

    def call(operation: str, **members: Any) -> tuple[int, dict[str, Any]]:
        response, content = send(
            json.dumps(members).encode(),
            X_Amz_Target=f"Kinesis_20131202.{operation}",
            Content_Type="application/x-amz-json-1.1",
        )
        return response.status, json.loads(content or "{}")

    return call


@pytest.fixture
def refused() -> Callable[..., AbstractContextManager[None]]:
    @contextmanager
    def refused(kind: str, *words: str) -> Iterator[None]:
        with pytest.raises(ClientError) as raised:
            yield
        error = raised.value.response["Error"]
        assert error["Code"] == kind
        assert [word for word in words if word not in error["Message"]] == [], error["Message"]

    return refused
