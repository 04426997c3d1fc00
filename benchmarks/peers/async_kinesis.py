"""The Consumer of async-kinesis: receives records as text, and discards them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kinesis import Consumer, StringProcessor

from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, serve_requests

if TYPE_CHECKING:
    from collections.abc import Callable


async def read(request: ReadRequest) -> ReadResult:
    """Read the stream of a request, with as many calls per second and shard as Kinesis allows."""
    records = size = 0
    consumer = Consumer(
        request.stream,
        endpoint_url=request.url,
        region_name="us-east-1",
        use_list_shards=True,
        shard_fetch_rate=5,
        sleep_time_no_records=0.01,
        processor=StringProcessor(),
    )
    async with consumer:
        while records < request.records:
            async for text in consumer:
                records += 1
                size += len(text)
                if records == request.records:
                    break  # the iteration would wait for more records until its idle timeout
    return ReadResult(records, size)


def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
    """Return the work; there is nothing to prepare."""
    return lambda: asyncio.run(read(request))


if __name__ == "__main__":
    serve_requests(prepare)
