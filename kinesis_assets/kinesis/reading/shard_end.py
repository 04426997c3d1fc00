"""Detect the end of a shard, never from a single response.

The service ends a shard with a null NextShardIterator and the shard's children in the same response. If that
response lacked some of the shard's records, they would be lost, because a finished shard is never read again.
Reading therefore continues after the last record with a new iterator, and the shard has ended if the response
to that has a null iterator again and no records.

Services that do not return children, such as older emulators, end a shard in the same two steps; it has ended
if a list of shards that is requested afterwards shows it closed. An empty page may come in between.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html; the Kinesis Client
Library retries responses with a null iterator alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed, ShardListIncomplete
from kinesis_assets.kinesis.transport.waits import to_thread

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.transport.waits import NonBlocking

UNCONFIRMED = "ShardEndUnconfirmed"
"""The code of the `CallFailed` for a response that ends a shard without confirmation."""


class ShardEnd:
    """The end of one shard, from the responses to its reads.

    Args:
        client: The stream.
        shard_id: The shard.

    Attributes:
        reached: Whether the last checked response ends the shard.
        unconfirmed: Whether a response has ended the shard, and a second one must confirm it.
    """

    def __init__(self, client: StreamClient, shard_id: str) -> None:
        self.reached = False
        self.unconfirmed = False
        self._client = client
        self._shard_id = shard_id

    def check(self, *, null_iterator: bool, children: bool, records: bool) -> NonBlocking[None]:
        """Check a response before any of it is used.

        Args:
            null_iterator: Whether NextShardIterator is missing.
            children: Whether the response names children of the shard.
            records: Whether the response has records after the position. More may follow them.

        Raises:
            CallFailed: The end of the shard is not confirmed (`UNCONFIRMED`), or listing the shards failed.
        """
        second, self.reached = self.unconfirmed and not records, False
        if null_iterator or records:
            self.unconfirmed = null_iterator
        if not (null_iterator and second):
            return
        if children:
            self.reached = True
            return
        try:
            shards = yield from to_thread(self._client.list_shards)
        except ShardListIncomplete as error:
            raise self._unconfirmed(
                f"NextShardIterator is null without ChildShards, and {error.reason}"
            ) from None
        self.reached = any(shard.shard_id == self._shard_id and shard.closed for shard in shards)
        if not self.reached:
            raise self._unconfirmed(
                "NextShardIterator is null without ChildShards, and ListShards does not show the shard closed"
            )

    def _unconfirmed(self, reason: str) -> CallFailed:
        return CallFailed(self._client.stream, "GetRecords", UNCONFIRMED, reason)
