"""The records of a shard: one by one, and as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np

from kinesis_assets.kinesis.records import columns
from kinesis_assets.kinesis.records.columns import bytes_and_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record of a shard, or a sub-record of an aggregate.

    Attributes:
        sequence_number: Decimal text.
        approximate_arrival_timestamp: Seconds since the epoch, exact to the millisecond.
        data: The payload.
        partition_key: As set by the producer. None if it set none, which a stream permits under the record
            distribution strategy AUTO (`stream.StreamSummary`).
        sub_sequence_number: Index in the aggregate, from 0; 0 for a record that is not part of one.
        error: Why the record is not sound; None if it is.
    """

    sequence_number: str
    approximate_arrival_timestamp: float
    data: bytes
    partition_key: str | None
    sub_sequence_number: int = 0
    error: str | None = None

    @property
    def arrival_ms(self) -> int:
        """The arrival time in milliseconds since the epoch."""
        return round(self.approximate_arrival_timestamp * 1000)

    @property
    def arrival(self) -> datetime:
        """The arrival time, in UTC."""
        return datetime.fromtimestamp(self.arrival_ms / 1000, UTC)


@dataclass(eq=False, repr=False)
class Records(Sequence[Record]):
    """An immutable sequence of records in shard order.

    It stores columns and creates a `Record` on access, because few records are accessed one by one.

    Attributes:
        numbers: Sequence numbers.
        arrivals: Arrival times, in seconds since the epoch.
        payloads: Data.
        keys: Partition keys; None for a record that has none.
        subs: Sub-sequence numbers. None if no record is known to be part of an aggregate.
        errors: Errors of the records. None under the same condition.
        continued: Whether the records that follow this sequence belong to the aggregate of its last one.
    """

    numbers: list[str]
    arrivals: list[float]
    payloads: list[bytes]
    keys: list[str | None]
    subs: list[int] | None = None
    errors: list[str | None] | None = None
    continued: bool = False

    @classmethod
    def of(cls, records: Sequence[Record], *, continued: bool = False) -> Records:
        """Create a sequence from records that may be part of aggregates."""
        return cls(
            [record.sequence_number for record in records],
            [record.approximate_arrival_timestamp for record in records],
            [record.data for record in records],
            [record.partition_key for record in records],
            [record.sub_sequence_number for record in records],
            [record.error for record in records],
            continued=continued,
        )

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Records: ...

    def __getitem__(self, index: int | slice) -> Record | Records:
        lists = (self.numbers, self.arrivals, self.payloads, self.keys, self.subs, self.errors)
        selected: list[Any] = [values[index] for values in lists if values is not None]
        return Records(*selected) if isinstance(index, slice) else Record(*selected)

    def __iter__(self) -> Iterator[Record]:
        optional = () if self.subs is None or self.errors is None else (self.subs, self.errors)
        return map(Record, self.numbers, self.arrivals, self.payloads, self.keys, *optional)

    def first(self, count: int) -> Records:
        """Return the first `count` records."""
        return self if count == len(self) else self[:count]

    def drop_data_column(self) -> None:
        """Free the memory of `data_column`, which is built again on the next access."""
        vars(self).pop("data_column", None)

    @cached_property
    def number_column(self) -> pa.StringArray:
        """Sequence numbers."""
        return columns.texts(self.numbers)

    @cached_property
    def key_column(self) -> pa.StringArray:
        """Partition keys; null for a record that has none."""
        try:
            return columns.texts(self.keys)  # type: ignore[arg-type]  # raises for None, at no cost if there is none
        except TypeError:
            return columns.texts_or_nulls(self.keys)

    @cached_property
    def arrival_seconds(self) -> NDArray[np.float64]:
        """Arrival times, in seconds since the epoch."""
        return np.array(self.arrivals, np.float64)

    @cached_property
    def data_column(self) -> pa.BinaryArray:
        """Data."""
        return columns.binaries(self.payloads)

    @property
    def payload_bytes(self) -> int:
        """Total size of the data, in bytes."""
        return int(bytes_and_offsets(self.data_column)[1][-1])

    @property
    def key_bytes(self) -> int:
        """Total size of the partition keys, in bytes of UTF-8."""
        return int(bytes_and_offsets(self.key_column)[1][-1])
