"""The KinesisConsumer of quixstreams, without the Kafka producer of its source: discards the records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from quixstreams.sources.community.kinesis.consumer import KinesisConsumer

from benchmarks.harness.worker_protocol import ReadRequest, ReadResult, serve_requests

if TYPE_CHECKING:
    from collections.abc import Callable


class Checkpoints:
    """Checkpoints in memory, in place of the state of a source."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}

    def get(self, shard_id: str) -> str | None:
        """Return the last sequence number of a shard."""
        return self._numbers.get(shard_id)

    def set(self, shard_id: str, sequence_number: str) -> None:
        """Store the last sequence number of a shard."""
        self._numbers[shard_id] = sequence_number

    def commit(self, force: bool = False) -> None:
        """Do nothing; there is no state to write."""


def read(request: ReadRequest) -> ReadResult:
    """Read the stream of a request."""
    records = size = 0

    def count(record: dict[str, Any]) -> None:
        nonlocal records, size
        records += 1
        size += len(record["Data"])

    credentials = {
        "endpoint_url": request.url,
        "region_name": "us-east-1",
        "aws_access_key_id": "local",
        "aws_secret_access_key": "local",
    }
    consumer = KinesisConsumer(
        request.stream,
        credentials,
        count,
        Checkpoints(),
        auto_offset_reset="earliest",
        max_records_per_shard=10_000,
    )
    with consumer:
        while records < request.records:
            consumer.process_shards()
    return ReadResult(records, size)


def prepare(request: ReadRequest) -> Callable[[], ReadResult]:
    """Return the work; there is nothing to prepare."""
    return partial(read, request)


if __name__ == "__main__":
    serve_requests(prepare)
