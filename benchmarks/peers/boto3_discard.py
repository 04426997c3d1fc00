"""A simple loop with boto3: reads one shard after the other, and discards the records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, serve_requests
from benchmarks.peers.boto3_calls import client, pages, shard_ids

if TYPE_CHECKING:
    from collections.abc import Callable


def read(request: ReadRequest) -> ReadResult:
    """Read the stream of a request."""
    kinesis = client(request.url)
    records = size = 0
    for shard_id in shard_ids(kinesis, request.stream):
        for page in pages(kinesis, request.stream, shard_id):
            records += len(page)
            size += sum(len(record["Data"]) for record in page)
    return ReadResult(records, size)


def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
    """Return the work; there is nothing to prepare."""
    return partial(read, request)


if __name__ == "__main__":
    serve_requests(prepare)
