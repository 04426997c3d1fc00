"""What the calls for records answer, as typed structs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from kinesis_assets.kinesis.shards import NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_LONGEST_NUMBER = 129
_ZERO, _NINE = np.uint8(ord("0")), 9


class Record(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """One record: as the wire has it, or taken out of an aggregate.

    Attributes:
        sequence_number: Decimal text.
        approximate_arrival_timestamp: Seconds since the epoch, exact to the millisecond.
        data: The payload's bytes.
        partition_key: As the producer gave it.
        sub_sequence_number: Its place in the aggregate, from 0; 0 for a plain record.
        error: What is wrong with it; None when all is well.
    """

    sequence_number: str
    approximate_arrival_timestamp: float
    data: bytes
    partition_key: str
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


class Records(list[Record]):
    """Records in shard order, with their columns, each of which is made once. Not to be changed.

    Attributes:
        plain: None of them is known to come out of an aggregate, or to have an error.
        continued: The last one's aggregate goes on in the list after this one.
    """

    def __init__(
        self, records: Iterable[Record] = (), *, plain: bool = True, continued: bool = False
    ) -> None:
        super().__init__(records)
        self.plain = plain
        self.continued = continued

    @classmethod
    def of(cls, records: Sequence[Record]) -> Records:
        """Any records."""
        return records if isinstance(records, cls) else cls(records, plain=False)

    def first(self, count: int) -> Records:
        """So many of the leading ones."""
        return self if count == len(self) else Records(self[:count], plain=self.plain)

    def drop_data_column(self) -> None:
        """Free its memory; who asks for it again makes it again."""
        vars(self).pop("data_column", None)

    @cached_property
    def numbers(self) -> list[str]:
        """Their sequence numbers."""
        return [record.sequence_number for record in self]

    @cached_property
    def payloads(self) -> list[bytes]:
        """Their data."""
        return [record.data for record in self]

    @cached_property
    def arrivals(self) -> list[float]:
        """Their arrivals, in seconds since the epoch."""
        return [record.approximate_arrival_timestamp for record in self]

    @cached_property
    def number_column(self) -> pa.StringArray:
        """Their sequence numbers."""
        return pa.array(self.numbers, pa.string())

    @cached_property
    def key_column(self) -> pa.StringArray:
        """Their partition keys."""
        return pa.array([record.partition_key for record in self], pa.string())

    @cached_property
    def data_column(self) -> pa.BinaryArray:
        """Their data, copied once: a builder would copy them again whenever it grows."""
        ends = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, self.payloads), np.int64, len(self)), out=ends[1:])
        buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(self.payloads))]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)

    @property
    def payload_bytes(self) -> int:
        """Bytes of their data together."""
        return int(letters(self.data_column)[1][-1])

    @property
    def key_bytes(self) -> int:
        """Bytes of their partition keys together."""
        return int(letters(self.key_column)[1][-1])


def letters(column: pa.StringArray | pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """All bytes of a whole column, and where each of its values begins in them; at last, where all end."""
    _, begins, data = column.buffers()
    return np.frombuffer(data, np.uint8), np.frombuffer(begins, np.int32)[: len(column) + 1]


def first_that_is_no_number(numbers: pa.StringArray) -> str | None:
    """The first text that `shards.NUMBER` does not take; None if it takes all.

    One look at all of them together costs less than one at each.
    """
    if not len(numbers):
        return None
    text, begins = letters(numbers)
    lengths = begins[1:] - begins[:-1]
    fine = (
        lengths.min() > 0
        and lengths.max() <= _LONGEST_NUMBER
        and (text - _ZERO).max() <= _NINE  # what is below '0' wraps around
        and text[begins[:-1]].min() > _ZERO
    )
    if fine:
        return None
    return next((text for text in numbers.to_pylist() if not NUMBER.fullmatch(text)), None)


class Page(msgspec.Struct, frozen=True, rename="pascal"):
    """One answer of GetRecords.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html

    Attributes:
        records: In shard order. Empty does not mean the tip. Required: a body cut in transit lacks it.
        next_shard_iterator: None once a closed shard has been read to its end, and only then.
        millis_behind_latest: How far the end of this page is behind the tip; 0 at the tip.
    """

    records: list[Record]
    millis_behind_latest: int
    next_shard_iterator: str | None = None


class ShardIterator(msgspec.Struct, frozen=True, rename="pascal"):
    """One answer of GetShardIterator."""

    shard_iterator: str


class IncompleteBody(msgspec.Struct, frozen=True):
    """A successful answer whose body is not a whole one."""

    reason: str


def page_of(answer: dict[str, Any]) -> Page:
    """A page that botocore's own parser gave.

    Raises:
        KeyError: Something required is not there.
        TypeError, ValueError: It is of another kind.
    """
    records = [
        Record(
            sequence_number=_text(record["SequenceNumber"]),
            approximate_arrival_timestamp=record["ApproximateArrivalTimestamp"].timestamp(),
            data=record["Data"],
            partition_key=_text(record["PartitionKey"]),
        )
        for record in answer["Records"]
    ]
    return msgspec.convert(
        {
            "Records": records,
            "MillisBehindLatest": answer["MillisBehindLatest"],
            "NextShardIterator": answer.get("NextShardIterator"),
        },
        Page,
    )


def _text(value: str) -> str:
    """The value, if UTF-8 has it: JSON may hold half a surrogate pair."""
    str.encode(value)
    return value
