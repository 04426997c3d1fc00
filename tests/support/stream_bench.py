"""A stream whose clock the test moves, and its table: what benches of several folders have in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from kinesis_assets.kinesis.client import StreamClient

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.table.positions import ShardPosition, StreamPositions
    from kinesis_assets.table.table import PositionedTable
    from kinesis_assets.testing import Clock

HASH_KEYS = 1 << 128


@dataclass
class StreamBench:
    """A stream, the service's clock, and a table."""

    clock: Clock
    kinesis: Any
    settings: ClientSettings
    stream: str
    table: PositionedTable

    @cached_property
    def client(self) -> StreamClient:
        return StreamClient(self.stream, self.settings, wait=lambda _: None)

    @property
    def shard_ids(self) -> list[str]:
        return [shard.shard_id for shard in self.client.list_shards()]

    @property
    def now(self) -> datetime:
        """What the service's clock shows."""
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def later(self, **span: float) -> datetime:
        """Move the service's clock on, as `later(hours=3)`; what it shows then."""
        self.clock.advance(timedelta(**span).total_seconds())
        return self.now

    def create(self, shards: int = 1) -> list[str]:
        """Create the stream; its shards' ids."""
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        return self.shard_ids

    def put(self, *items: int | bytes, part: float = 0) -> list[str]:
        """Put numbers (or bytes as they are) where a part (0 up to 1) of the hash keys lies."""
        return self.put_at(int(HASH_KEYS * part), items)

    def put_at(self, hash_key: int, items: tuple[int | bytes, ...]) -> list[str]:
        """Put numbers (or bytes as they are) at a hash key; their sequence numbers."""
        entries = [
            {
                "Data": item if isinstance(item, bytes) else str(item).encode(),
                "PartitionKey": "k",
                "ExplicitHashKey": str(hash_key),
            }
            for item in items
        ]
        answer = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        return [record["SequenceNumber"] for record in answer["Records"]]

    def split(self, shard_id: str, part: float = 0.5) -> list[str]:
        """Split a shard where a part of all hash keys lies; its children's ids."""
        key = str(int(HASH_KEYS * part))
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=key)
        return self.children(shard_id)

    def children(self, shard_id: str) -> list[str]:
        return [shard.shard_id for shard in self.client.list_shards() if shard_id in shard.parents]

    @property
    def positions(self) -> StreamPositions:
        found = self.table.snapshot().positions(self.client.describe().identity)
        assert found is not None
        return found

    def at(self, shard_id: str) -> ShardPosition:
        """Where the table says that a shard is."""
        return self.positions.shards[shard_id]

    @property
    def version(self) -> int:
        return DeltaTable(self.table.folder.uri).version()
