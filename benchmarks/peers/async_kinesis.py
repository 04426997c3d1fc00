"""async-kinesis' Consumer: records as text, looked at and forgotten."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kinesis import Consumer, StringProcessor

from benchmarks.harness.worker_protocol import Order, Read, take_orders

if TYPE_CHECKING:
    from collections.abc import Callable


async def read(order: Order) -> Read:
    """Read the stream; as many calls a second and shard as Kinesis allows."""
    records = size = 0
    consumer = Consumer(
        order.stream,
        endpoint_url=order.url,
        region_name="us-east-1",
        use_list_shards=True,
        shard_fetch_rate=5,
        sleep_time_no_records=0.01,
        processor=StringProcessor(),
    )
    async with consumer:
        while records < order.records:
            async for text in consumer:
                records += 1
                size += len(text)
                if records == order.records:
                    break  # at its own idle timeout it would wait for more
    return Read(records, size)


def prepare(order: Order) -> Callable[[], Read]:
    """Nothing is prepared."""
    return lambda: asyncio.run(read(order))


if __name__ == "__main__":
    take_orders(prepare)
