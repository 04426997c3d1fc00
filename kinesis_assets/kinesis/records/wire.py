"""What the calls for records answer: as typed structs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from pybase64 import b64decode

from kinesis_assets.kinesis.records.page_checks import checked, checked_lag
from kinesis_assets.kinesis.records.record import Records

if TYPE_CHECKING:
    from collections.abc import Sequence


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
