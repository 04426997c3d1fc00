"""Records, one by one and as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np

from kinesis_assets.kinesis.records import columns
from kinesis_assets.kinesis.records.columns import letters

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record: as it was put, or taken out of an aggregate.

    Attributes:
        sequence_number: Decimal text.
        approximate_arrival_timestamp: Seconds since the epoch, exact to the millisecond.
        data: The payload's bytes.
        partition_key: As the producer gave it; None if it gave none, as it may where the stream distributes
            records by itself (`stream.StreamSummary`).
        sub_sequence_number: Its place in the aggregate, from 0; 0 for a plain record.
        error: What is wrong with it; None when all is well.
    """

    sequence_number: str
    approximate_arrival_timestamp: float
    data: bytes
    partition_key: str | None
    sub_sequence_number: int = 0
    error: str | None = None

    @property
    def arrival_ms(self) -> int:
        """The arrival in milliseconds since the epoch."""
        return round(self.approximate_arrival_timestamp * 1000)

    @property
    def arrival(self) -> datetime:
        """The arrival, UTC."""
        return datetime.fromtimestamp(self.arrival_ms / 1000, UTC)


@dataclass(eq=False, repr=False)
class Records(Sequence[Record]):
    """Records in shard order, held as columns, since few are asked for one by one. Not to be changed.

    Attributes:
        numbers: Their sequence numbers.
        arrivals: Their arrivals, in seconds since the epoch.
        payloads: Their data.
        keys: Their partition keys; None where a record has none.
        subs: Their places in aggregates; and
        errors: what is wrong with each. Both are None where no record is known to come out of an aggregate.
        continued: The last one's aggregate goes on in the records after these.
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
        """Any records, some of which may come out of aggregates."""
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
        given: list[Any] = [each[index] for each in lists if each is not None]
        return Records(*given) if isinstance(index, slice) else Record(*given)

    def __iter__(self) -> Iterator[Record]:
        more = () if self.subs is None or self.errors is None else (self.subs, self.errors)
        return map(Record, self.numbers, self.arrivals, self.payloads, self.keys, *more)

    def first(self, count: int) -> Records:
        """So many of the leading ones."""
        return self if count == len(self) else self[:count]

    def drop_data_column(self) -> None:
        """Free its memory; who asks for it again makes it again."""
        vars(self).pop("data_column", None)

    @cached_property
    def number_column(self) -> pa.StringArray:
        """Their sequence numbers."""
        return columns.texts(self.numbers)

    @cached_property
    def key_column(self) -> pa.StringArray:
        """Their partition keys; null where a record has none."""
        try:
            return columns.texts(self.keys)  # type: ignore[arg-type]  # it raises for None, at no cost for others
        except TypeError:
            return columns.texts_or_nulls(self.keys)

    @cached_property
    def arrival_seconds(self) -> NDArray[np.float64]:
        """Their arrivals, in seconds since the epoch."""
        return np.array(self.arrivals, np.float64)

    @cached_property
    def data_column(self) -> pa.BinaryArray:
        """Their data."""
        return columns.binaries(self.payloads)

    @property
    def payload_bytes(self) -> int:
        """Bytes of their data together."""
        return int(letters(self.data_column)[1][-1])

    @property
    def key_bytes(self) -> int:
        """Bytes of their partition keys together."""
        return int(letters(self.key_column)[1][-1])
