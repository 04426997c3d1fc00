"""Where another consumer is in each shard, whatever it stores that in, and the record there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.kinesis.limits import Bounds
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.reading.range import ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from kinesis_assets.kinesis.settings import PageSizes

if TYPE_CHECKING:
    from datetime import datetime

    from kinesis_assets.kinesis.shards import Shard


@dataclass(frozen=True, slots=True)
class ConsumerShard:
    """Where another consumer is in a shard.

    Attributes:
        source: Where it stores this, such as "lease shardId-000000000000".
        position: The position at which the consumer would go on; None if it has none that is fixed in time.
        ended: It has read the shard to its end.
        hash_range: The hash range that it stores; None if it stores none.
    """

    source: str
    stored: str
    position: Position | None
    ended: bool = False
    hash_range: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class WholeRecord:
    """A record of a shard with all its sub-records.

    Attributes:
        last_sub: The sub-sequence number of its last sub-record; 0 if it is no aggregate.
    """

    last_sub: int
    arrival: datetime


class RecordReader:
    """Reads single records of a stream by their sequence numbers."""

    def __init__(self, client: StreamClient) -> None:
        settings = replace(client.settings, page_sizes=PageSizes(page=1, smallest_request=1))
        self._client = StreamClient(str(client.address), settings)

    def at(self, shard: Shard, sequence_number: str) -> WholeRecord | None:
        """Return a record; None if it cannot be read, for example because it has expired.

        Raises:
            ShardError: The shard cannot be read.
        """
        start = Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=sequence_number)
        range_ = ShardRange(shard.shard_id, start, Bounds(), hash_range=None, closed=shard.closed)
        found = None
        for records in ShardReading(self._client, range_):
            own = [record for record in records if record.sequence_number == sequence_number]
            if own:
                found = WholeRecord(own[-1].sub_sequence_number, own[-1].arrival)
            if len(own) < len(records) or not records.continued:
                break
        return found
