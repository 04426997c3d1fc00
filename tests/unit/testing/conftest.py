"""Fixtures for tests of the test kit: a client without retries, and a stream with two shards."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from support.fixtures.stream import direct_calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kinesis_assets.testing import LocalKinesis

A, B = "shardId-000000000000", "shardId-000000000001"
OTHER = "444455556666"
KEYS = {A: "0", B: str(2**128 - 1)}

Connect = Callable[..., Any]
Rejected = Callable[[str, int], AbstractContextManager[None]]


@dataclass(frozen=True)
class Orders:
    """A stream, with methods for the calls that tests often make."""

    client: Any
    name: str

    def put(self, *data: bytes, shard_id: str = A) -> list[str]:
        """Put records into a shard, one by one, and return their sequence numbers."""
        return [
            self.client.put_record(
                StreamName=self.name, Data=each, PartitionKey="k", ExplicitHashKey=KEYS[shard_id]
            )["SequenceNumber"]
            for each in data
        ]

    def put_all(self, *data: bytes, shard_ids: tuple[str, ...] = (A,)) -> dict[str, Any]:
        """Put records with one call, into the shards in turn."""
        entries = [
            {"Data": each, "PartitionKey": "k", "ExplicitHashKey": KEYS[shard_ids[number % len(shard_ids)]]}
            for number, each in enumerate(data)
        ]
        response: dict[str, Any] = self.client.put_records(StreamName=self.name, Records=entries)
        return response

    def iterator(self, shard_id: str = A, kind: str = "TRIM_HORIZON", **more: Any) -> str:
        arguments = {"StreamName": self.name, "ShardId": shard_id, "ShardIteratorType": kind}
        return str(self.client.get_shard_iterator(**arguments, **more)["ShardIterator"])

    def page(self, iterator: str | None = None, shard_id: str = A) -> dict[str, Any]:
        page: dict[str, Any] = self.client.get_records(ShardIterator=iterator or self.iterator(shard_id))
        return page

    def data(self, shard_id: str = A) -> list[bytes]:
        """Return the data of the first page."""
        return [record["Data"] for record in self.page(shard_id=shard_id)["Records"]]

    def shard_ids(self, **more: Any) -> list[str]:
        listed = self.client.list_shards(**(more or {"StreamName": self.name}))
        return [shard["ShardId"] for shard in listed["Shards"]]

    @property
    def summary(self) -> dict[str, Any]:
        summary = self.client.describe_stream_summary(StreamName=self.name)["StreamDescriptionSummary"]
        assert isinstance(summary, dict)
        return summary

    @property
    def arn(self) -> str:
        return str(self.summary["StreamARN"])

    def created(self) -> Any:
        return self.summary["StreamCreationTimestamp"]


@pytest.fixture(scope="session")
def connect() -> Connect:
    """Create a boto3 client without retries."""

    def connect(local: LocalKinesis, **config: Any) -> Any:
        once = Config(retries={"total_max_attempts": 1}, **config)
        return boto3.client("kinesis", endpoint_url=local.endpoint_url, region_name=local.region, config=once)

    return connect


@pytest.fixture(scope="session")
def client(connect: Connect, local_kinesis: LocalKinesis) -> Any:
    """A client of the shared endpoint, which calls it without HTTP while there are no faults."""
    return direct_calls.connect(connect(local_kinesis))


@pytest.fixture
def orders(client: Any, stream: str, faults: Any) -> Orders:
    """A stream with the shards A and B on the shared endpoint."""
    client.create_stream(StreamName=stream, ShardCount=2)
    faults.clear()
    return Orders(client, stream)


@pytest.fixture
def second_account(local_kinesis: LocalKinesis, orders: Orders) -> Iterator[Any]:
    """A client of another account, which has a stream of the same name, and may read the one of `orders`."""
    local_kinesis.share(orders.arn, account_id=OTHER)
    client = boto3.client(
        "kinesis",
        endpoint_url=local_kinesis.endpoint_url,
        region_name=local_kinesis.region,
        aws_access_key_id=OTHER,
        aws_secret_access_key="secret",  # noqa: S106  # nobody checks it
        config=Config(retries={"total_max_attempts": 1}),
    )
    client.create_stream(StreamName=orders.name, ShardCount=2)
    yield client
    client.delete_stream(StreamName=orders.name)


@pytest.fixture
def rejected() -> Rejected:
    """Assert that a call in the block fails with a code and an HTTP status."""

    @contextmanager
    def rejected(code: str, status: int = 400) -> Iterator[None]:
        with pytest.raises(ClientError) as caught:
            yield
        response = caught.value.response
        assert (response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]) == (code, status)

    return rejected
