"""A stream of one shard whose records expire."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kinesis_assets.kinesis.data_loss import Expiry, OnDataLoss
from kinesis_assets.kinesis.reading.range import Bounds, ShardRange
from kinesis_assets.kinesis.reading.reading import ShardReading
from support.one_shard import ALL_KEYS, SHARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.kinesis.client import StreamClient
    from kinesis_assets.kinesis.position import Position
    from kinesis_assets.testing import Clock, Faults


CONTINUE = "continue"


@dataclass
class OneShard:
    """A stream of one shard that keeps records for 24 hours, and the service's clock."""

    clock: Clock
    kinesis: Any
    stream: str
    client: StreamClient
    faults: Faults

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.seconds, UTC)

    def later(self, **duration: float) -> None:
        self.clock.advance(timedelta(**duration).total_seconds())

    def expire(self) -> None:
        """Delete all records, as the service does once their retention has passed."""
        self.faults.trim(self.stream)

    def put(self, *items: int | bytes) -> list[str]:
        data = [item if isinstance(item, bytes) else str(item).encode() for item in items]
        entries = [{"Data": content, "PartitionKey": "k"} for content in data]
        response = self.kinesis.put_records(StreamName=self.stream, Records=entries)
        return [record["SequenceNumber"] for record in response["Records"]]

    def reading(
        self,
        start: Position,
        complete_until: datetime,
        on_data_loss: OnDataLoss = "fail",
        retention_hours: int = 24,
    ) -> ShardReading:
        """A reading of a shard that has been read completely up to a time."""
        expiry = Expiry(
            complete_until=complete_until, retention_hours=retention_hours, on_data_loss=on_data_loss
        )
        range_ = ShardRange(SHARD, start, Bounds(), ALL_KEYS, expiry=expiry)
        return ShardReading(self.client, range_)


def items(reading, between: Callable[[], object] = lambda: None):
    """Read to the end of the range and return the data; call `between` after each batch."""
    numbers = []
    for records in reading:
        numbers += [int(record.data) for record in records]
        between()
    return numbers
