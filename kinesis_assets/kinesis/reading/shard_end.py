"""Whether a shard has ended: never on the word of one response.

The service ends a shard with a null NextShardIterator and the shard's children in the same response. A null
iterator alone is an incomplete response: reading goes on after its records with a new iterator. Services that
do not return children, such as older emulators, then respond so again without records, perhaps after an
empty page; what ends the shard is a list, made after that, which shows it closed.

Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html; the Kinesis Client
Library retries such responses too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import CallFailed, ShardListIncomplete
from kinesis_assets.kinesis.transport.awaitables import by_a_thread

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.transport.awaitables import Waits

UNCONFIRMED = "ShardEndUnconfirmed"
"""The code of the `CallFailed` for a response that ends a shard without proof."""


class ShardEnd:
    """What the responses to one shard's reads say about its end.

    Args:
        client: The stream.
        shard_id: The shard.

    Attributes:
        reached: The last response that was checked ends the shard.
    """

    def __init__(self, client: StreamClient, shard_id: str) -> None:
        self.reached = False
        self._client = client
        self._shard_id = shard_id
        self._repeated = False

    def check(self, *, null_iterator: bool, children: bool, records: bool) -> Waits[None]:
        """Check a response before anything is taken from it.

        Args:
            null_iterator: It has no NextShardIterator.
            children: It names children of the shard.
            records: It has records. Without children they are not known to be the last ones.

        Raises:
            CallFailed: It ends the shard without proof (`UNCONFIRMED`), or the shards cannot be listed.
        """
        self.reached = null_iterator and children
        if self.reached or records:
            self._repeated = False
            return
        if not null_iterator:
            return
        if not self._repeated:
            self._repeated = True
            raise self._unconfirmed("NextShardIterator is null, but ChildShards is missing")
        try:
            shards = yield from by_a_thread(self._client.list_shards)
        except ShardListIncomplete as error:
            raise self._unconfirmed(f"NextShardIterator is null without ChildShards, and {error}") from None
        self.reached = any(shard.shard_id == self._shard_id and shard.closed for shard in shards)
        if not self.reached:
            raise self._unconfirmed(
                "NextShardIterator is null without ChildShards, and ListShards does not show the shard closed"
            )

    def _unconfirmed(self, sentence: str) -> CallFailed:
        return CallFailed(self._client.stream, "GetRecords", UNCONFIRMED, sentence)
