"""The calls of a test to its stream, by their short names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kinesis_assets.kinesis.client import StreamClient

if TYPE_CHECKING:
    from kinesis_assets.kinesis.settings import ClientSettings
    from kinesis_assets.testing import Clock

HASH_KEYS = 1 << 128
RECORDS_IN_A_CALL = 500


class StreamCalls:
    """The stream of a bench.

    Attributes:
        acknowledged: Shard id, sequence number and data of every record that was put.
        clock: The service's clock, if the test controls it.
    """

    kinesis: Any
    settings: ClientSettings
    stream: str
    clock: Clock | None
    acknowledged: list[tuple[str, str, bytes]]

    @cached_property
    def client(self) -> StreamClient:
        return StreamClient(self.stream, self.settings)

    # The service's clock

    @property
    def now(self) -> datetime:
        assert self.clock is not None
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def later(self, **delta: float) -> datetime:
        """Advance the service's clock, as in `later(hours=3)`, and return its time."""
        assert self.clock is not None
        self.clock.advance(timedelta(**delta).total_seconds())
        return self.now

    # The stream

    def create(self, shards: int = 1) -> list[str]:
        """Create the stream and return the ids of its shards."""
        self.kinesis.create_stream(StreamName=self.stream, ShardCount=shards)
        return self.shard_ids

    def delete(self) -> None:
        self.kinesis.delete_stream(StreamName=self.stream)

    @property
    def shard_ids(self) -> list[str]:
        return [shard["ShardId"] for shard in self._shards]

    @property
    def _shards(self) -> list[dict[str, Any]]:
        """The stream's shards, as the service lists them."""
        page = self.kinesis.list_shards(StreamName=self.stream)
        shards = page["Shards"]
        while token := page.get("NextToken"):
            page = self.kinesis.list_shards(NextToken=token)
            shards += page["Shards"]
        return sorted(shards, key=lambda shard: shard["ShardId"])

    def hash_range(self, shard_id: str) -> tuple[int, int]:
        """Return a shard's first and last hash key."""
        (found,) = (shard["HashKeyRange"] for shard in self._shards if shard["ShardId"] == shard_id)
        return int(found["StartingHashKey"]), int(found["EndingHashKey"])

    def put(self, *items: int | bytes, part: float = 0, shard_id: str | None = None) -> list[str]:
        """Put records and return their sequence numbers.

        Args:
            items: The records' data. A number is put as its digits.
            part: The place in the hash key space, from 0 up to 1, which determines the shard.
            shard_id: The shard, instead of a place.
        """
        key = int(HASH_KEYS * part) if shard_id is None else self.hash_range(shard_id)[0]
        data = [item if isinstance(item, bytes) else str(item).encode() for item in items]
        entries = [{"Data": item, "PartitionKey": "k", "ExplicitHashKey": str(key)} for item in data]
        return self._put(entries)

    def put_many(self, count: int, shard_id: str | None = None) -> None:
        """Put different records, spread over the shards or all to one."""
        first = len(self.acknowledged)
        key = {} if shard_id is None else {"ExplicitHashKey": str(self.hash_range(shard_id)[0])}
        entries = [
            {"Data": f"record {number} ".encode() * 8, "PartitionKey": f"key-{number}", **key}
            for number in range(first, first + count)
        ]
        self._put(entries)

    def _put(self, entries: list[dict[str, Any]]) -> list[str]:
        numbers: list[str] = []
        for first in range(0, len(entries), RECORDS_IN_A_CALL):
            some = entries[first : first + RECORDS_IN_A_CALL]
            response = self.kinesis.put_records(StreamName=self.stream, Records=some)
            assert response["FailedRecordCount"] == 0
            for entry, record in zip(some, response["Records"], strict=True):
                numbers.append(record["SequenceNumber"])
                self.acknowledged.append((record["ShardId"], numbers[-1], entry["Data"]))
        return numbers

    def split(self, shard_id: str, part: float | None = None) -> list[str]:
        """Split a shard, in its middle or at a place in the hash key space, and return its children's ids."""
        key = (sum(self.hash_range(shard_id)) + 1) // 2 if part is None else int(HASH_KEYS * part)
        self.kinesis.split_shard(StreamName=self.stream, ShardToSplit=shard_id, NewStartingHashKey=str(key))
        return self.children(shard_id)

    def merge(self, shard_id: str, adjacent: str) -> str:
        """Merge two shards and return their child's id."""
        self.kinesis.merge_shards(
            StreamName=self.stream, ShardToMerge=shard_id, AdjacentShardToMerge=adjacent
        )
        (child,) = self.children(shard_id)
        return child

    def children(self, shard_id: str) -> list[str]:
        parents = ("ParentShardId", "AdjacentParentShardId")
        return [
            shard["ShardId"] for shard in self._shards if shard_id in (shard.get(each) for each in parents)
        ]

    def set_retention(self, hours: int) -> None:
        now = self.client.describe().retention_hours
        change = "increase" if hours > now else "decrease"
        call = getattr(self.kinesis, f"{change}_stream_retention_period")
        call(StreamName=self.stream, RetentionPeriodHours=hours)
