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

from kinesis_assets.kinesis.records import columns
from kinesis_assets.kinesis.records.columns import letters
from kinesis_assets.kinesis.records.page_checks import checked, checked_lag

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
    partition_key: str | None = None


class WirePage(msgspec.Struct, frozen=True, rename="pascal"):
    """An answer of GetRecords as JSON has it; see `Page`. A body cut in transit lacks its records."""

    records: list[WireRecord]
    millis_behind_latest: int
    next_shard_iterator: str | None = None
    child_shards: list[ChildShard] | None = None

    def answer(self) -> Page:
        """The page that it tells of.

        Raises:
            ValueError: A record's data are not base64, or it is not accepted by `page_checks`.
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
        behind, children = checked_lag(self.millis_behind_latest), self.child_shards or ()
        return Page(checked(records), behind, self.next_shard_iterator, children)


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
        [None if (key := record.get("PartitionKey")) is None else _text(key) for record in listed],
    )
    behind = checked_lag(msgspec.convert(answer["MillisBehindLatest"], int))
    following = msgspec.convert(answer.get("NextShardIterator"), str | None)
    children = msgspec.convert(answer.get("ChildShards"), list[ChildShard] | None)
    return Page(checked(records), behind, following, children or ())


def _text(value: str) -> str:
    """The value, if UTF-8 has it: JSON may hold half a surrogate pair."""
    str.encode(value)
    return value
