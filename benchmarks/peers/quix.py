"""quixstreams' KinesisConsumer, without the Kafka that its source feeds: records looked at and forgotten."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quixstreams.sources.community.kinesis.consumer import KinesisConsumer

from benchmarks.harness.worker_protocol import Order, Read, take_orders

if TYPE_CHECKING:
    from collections.abc import Callable


class Checkpoints:
    """In memory: what the state of a source would be."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def get(self, shard_id: str) -> str | None:
        """The last one."""
        return self._numbers.get(shard_id)

    def set(self, shard_id: str, sequence_number: str) -> None:
        """Keep it."""
        self._numbers[shard_id] = sequence_number

    def commit(self, force: bool = False) -> None:
        """Nothing is to be done."""


def read(order: Order) -> Read:
    """Read the stream."""
    records = size = 0

    def look(record: dict[str, Any]) -> None:
        nonlocal records, size
        records += 1
        size += len(record["Data"])

    credentials = {
        "endpoint_url": order.url,
        "region_name": "us-east-1",
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }
    consumer = KinesisConsumer(
        order.stream,
        credentials,
        look,
        Checkpoints(),
        auto_offset_reset="earliest",
        max_records_per_shard=10_000,
    )
    with consumer:
        while records < order.records:
            consumer.process_shards()
    return Read(records, size)


def prepare(order: Order) -> Callable[[], Read]:
    """Nothing is prepared."""
    return partial(read, order)


if __name__ == "__main__":
    take_orders(prepare)
