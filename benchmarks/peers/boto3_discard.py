"""The plain boto3 loop: one shard after the other, every record looked at and forgotten."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.worker_protocol import Order, Read, take_orders
from benchmarks.peers.boto3_calls import client, pages, shard_ids

if TYPE_CHECKING:
    from collections.abc import Callable


def read(order: Order) -> Read:
    """Read the stream."""
    kinesis = client(order.url)
    records = size = 0
    for shard_id in shard_ids(kinesis, order.stream):
        for page in pages(kinesis, order.stream, shard_id):
            records += len(page)
            size += sum(len(record["Data"]) for record in page)
    return Read(records, size)


def prepare(order: Order) -> Callable[[], Read]:
    """Nothing is prepared."""
    return partial(read, order)


if __name__ == "__main__":
    take_orders(prepare)
