"""GetRecords answers as typed structs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.kinesis.shards import NUMBER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST_NUMBER = 129


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

    @cached_property
    def numbers(self) -> list[str]:
        """Their sequence numbers."""
        return [record.sequence_number for record in self]

    @cached_property
    def payloads(self) -> list[bytes]:
        """Their data."""
        return [record.data for record in self]

    @cached_property
    def keys(self) -> list[str]:
        """Their partition keys."""
        return [record.partition_key for record in self]

    @cached_property
    def arrivals(self) -> list[float]:
        """Their arrivals, in seconds since the epoch."""
        return [record.approximate_arrival_timestamp for record in self]

    @cached_property
    def payload_bytes(self) -> int:
        """Bytes of their data together."""
        return sum(map(len, self.payloads))


def first_that_is_no_number(texts: Sequence[str]) -> str | None:
    """The first text that `shards.NUMBER` does not take; None if it takes all.

    One look at all of them together costs half of one at each.
    """
    if not texts:
        return None
    lines = "\n".join(texts).encode()
    digits = lines.replace(b"\n", b"")
    fine = (
        len(lines) - len(digits) == len(texts) - 1
        and digits.isdigit()
        and min(texts)[:1] not in {"", "0"}  # of digits, those sort first
        and max(map(len, texts)) <= _LONGEST_NUMBER
    )
    return None if fine else next((text for text in texts if not NUMBER.fullmatch(text)), None)


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


class IncompleteBody(msgspec.Struct, frozen=True):
    """A successful GetRecords answer whose body is not a whole page."""

    reason: str


def page_of(answer: dict[str, Any]) -> Page:
    """A page that botocore's own parser gave.

    Raises:
        KeyError: Something required is not there.
        TypeError, ValueError: It is of another kind.
    """
    records = [
        Record(
            sequence_number=record["SequenceNumber"],
            approximate_arrival_timestamp=record["ApproximateArrivalTimestamp"].timestamp(),
            data=record["Data"],
            partition_key=record["PartitionKey"],
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
