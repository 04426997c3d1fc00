"""The account: every stream of one AWS account in one region."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kinesis_assets.local.clock import Clock
from kinesis_assets.local.errors import (
    InvalidArgumentException,
    LimitExceededException,
    ResourceInUseException,
    ResourceNotFoundException,
)
from kinesis_assets.local.streams import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

ACCOUNT_ID = "000000000000"
REGION = "us-east-1"
SHARD_LIMIT = 20_000
"""The account's quota of open shards: https://docs.aws.amazon.com/streams/latest/dev/service-sizes-and-limits.html"""


class Account:
    """The whole state of the service.

    Whoever uses it holds `lock`, so every operation on it is atomic.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self.clock = Clock(now)
        self._streams: dict[str, Stream] = {}

    @property
    def stream_names(self) -> list[str]:
        """The names of all streams, in order."""
        return sorted(self._streams)

    def create_stream(self, name: str, shard_count: int) -> Stream:
        """Create a stream of evenly split shards."""
        if name in self._streams:
            raise ResourceInUseException(f"Stream {name} under account {ACCOUNT_ID} already exists.")
        self.check_shard_limit(shard_count)
        arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT_ID}:stream/{name}"
        stream = self._streams[name] = Stream(name, arn, shard_count, self.clock)
        return stream

    def delete_stream(self, stream: Stream) -> None:
        """Forget a stream and its records."""
        del self._streams[stream.name]

    def stream(self, name: str | None, arn: str | None = None) -> Stream:
        """The stream of that name, or of that ARN, or of both; without what is past its retention."""
        if name is None and arn is None:
            raise InvalidArgumentException("Either StreamName or StreamARN should be provided.")
        found = self._streams.get(name if name is not None else str(arn).rpartition("/")[2])
        if found is None or (name is None and found.arn != arn):
            raise ResourceNotFoundException(f"Stream {name or arn} under account {ACCOUNT_ID} not found.")
        if arn is not None and found.arn != arn:
            raise InvalidArgumentException(f"StreamARN {arn} is not that of stream {name}.")
        found.trim()
        return found

    def same_stream(self, name: str, created_at: int) -> Stream:
        """The stream of that name, if it is still the one that was created then."""
        stream = self.stream(name)
        if stream.created_at != created_at:
            raise ResourceNotFoundException(
                f"Stream {name} under account {ACCOUNT_ID} not found: it was deleted and created again."
            )
        return stream

    def check_shard_limit(self, additional: int) -> None:
        """Refuse what would open more shards than an account may have."""
        current = sum(len(stream.open_shards) for stream in self._streams.values())
        if current + additional > SHARD_LIMIT:
            raise LimitExceededException(
                f"This request would exceed the shard limit for the account {ACCOUNT_ID} in {REGION}. "
                f"Current shard count for the account: {current}. Limit: {SHARD_LIMIT}. "
                f"Number of additional shards that would have resulted from this request: {additional}."
            )
