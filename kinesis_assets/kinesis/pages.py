"""What the calls for records answer: as typed structs, and the records as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import msgspec
import numpy as np
from pybase64 import b64decode

from kinesis_assets.kinesis import columns
from kinesis_assets.kinesis.shards import LONGEST_NUMBER, NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

_ZERO, _NINE = np.uint8(ord("0")), 9


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record: as it was put, or taken out of an aggregate.

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


@dataclass(eq=False, repr=False)
class Records(Sequence[Record]):
    """Records in shard order, held as columns, since few are asked for one by one. Not to be changed.

    Attributes:
        numbers: Their sequence numbers.
        arrivals: Their arrivals, in seconds since the epoch.
        payloads: Their data.
        keys: Their partition keys.
        subs: Their places in aggregates; and
        errors: what is wrong with each. Both are None where no record is known to come out of an aggregate.
        continued: The last one's aggregate goes on in the records after these.
    """

    numbers: list[str]
    arrivals: list[float]
    payloads: list[bytes]
    keys: list[str]
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
        """Their partition keys."""
        return columns.texts(self.keys)

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
        and lengths.max() <= LONGEST_NUMBER
        and (text - _ZERO).max() <= _NINE  # what is below '0' wraps around
        and text[begins[:-1]].min() > _ZERO
    )
    if fine:
        return None
    return next((text for text in numbers.to_pylist() if not NUMBER.fullmatch(text)), None)


@dataclass(frozen=True, slots=True)
class Page:
    """What GetRecords gives.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html

    Attributes:
        records: In shard order. Empty does not mean the tip.
        millis_behind_latest: How far the end of this page is behind the tip; 0 at the tip.
        next_shard_iterator: None once a closed shard has been read to its end; see `shard_end`.
        child_shards: The shard's children; only at its end.
    """

    records: Records
    millis_behind_latest: int
    next_shard_iterator: str | None
    child_shards: Sequence[ChildShard] = ()

    def names_children_of(self, shard_id: str) -> bool:
        """Whether it names children of a shard."""
        return any(shard_id in child.parent_shards for child in self.child_shards)


class ChildShard(msgspec.Struct, frozen=True, rename="pascal"):
    """A shard that a closed one was split or merged into; its hash keys are left out."""

    shard_id: str
    parent_shards: list[str]


class WireRecord(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """One record in an answer's JSON, its data still base64, which msgspec is slow at."""

    sequence_number: str
    approximate_arrival_timestamp: float
    data: str
    partition_key: str


class WirePage(msgspec.Struct, frozen=True, rename="pascal"):
    """An answer of GetRecords as JSON has it; see `Page`. A body cut in transit lacks its records."""

    records: list[WireRecord]
    millis_behind_latest: int
    next_shard_iterator: str | None = None
    child_shards: list[ChildShard] | None = None

    def answer(self) -> Page:
        """The page that it tells of.

        Raises:
            ValueError: A record's data are not base64, or its sequence number is none.
        """
        wire = self.records
        try:
            # Without validation it takes anything, and longer.
            payloads = [b64decode(record.data, None, True) for record in wire]
        except ValueError as error:
            raise ValueError(f"the data of a record are no base64: {error}") from None
        records = Records(
            [record.sequence_number for record in wire],
            [record.approximate_arrival_timestamp for record in wire],
            payloads,
            [record.partition_key for record in wire],
        )
        children = self.child_shards or ()
        return Page(_numbered(records), self.millis_behind_latest, self.next_shard_iterator, children)


class WireIterator(msgspec.Struct, frozen=True, rename="pascal"):
    """An answer of GetShardIterator as JSON has it."""

    shard_iterator: str

    def answer(self) -> str:
        """The iterator."""
        return self.shard_iterator


class IncompleteBody(msgspec.Struct, frozen=True):
    """A successful answer whose body is not a whole one."""

    reason: str


def page_of(answer: dict[str, Any]) -> Page:
    """A page that botocore's own parser gave.

    Raises:
        KeyError: Something required is not there.
        TypeError, ValueError: It is of another kind.
    """
    listed = answer["Records"]
    records = Records(
        [_text(record["SequenceNumber"]) for record in listed],
        [record["ApproximateArrivalTimestamp"].timestamp() for record in listed],
        [record["Data"] for record in listed],
        [_text(record["PartitionKey"]) for record in listed],
    )
    behind = msgspec.convert(answer["MillisBehindLatest"], int)
    following = msgspec.convert(answer.get("NextShardIterator"), str | None)
    children = msgspec.convert(answer.get("ChildShards"), list[ChildShard] | None)
    return Page(_numbered(records), behind, following, children or ())


def _numbered(records: Records) -> Records:
    """The records, if their sequence numbers are such."""
    wrong = first_that_is_no_number(records.number_column)
    if wrong is not None:
        raise ValueError(f"{wrong[:80]!r} is no sequence number")
    return records


def _text(value: str) -> str:
    """The value, if UTF-8 has it: JSON may hold half a surrogate pair."""
    str.encode(value)
    return value
