"""Responses of GetRecords and GetShardIterator: the JSON as structs, and the page that it is converted to."""

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
    """A response of GetRecords.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html

    Attributes:
        records: In shard order. An empty page does not imply that the tip is reached.
        millis_behind_latest: Milliseconds from the end of this page to the tip; 0 at the tip.
        next_shard_iterator: None at the end of a closed shard, where some emulators return an empty text; see
            `shard_end`.
        child_shards: The shard's children; only at its end.
    """

    records: Records
    millis_behind_latest: int
    next_shard_iterator: str | None
    child_shards: Sequence[ChildShard] = ()

    def names_children_of(self, shard_id: str) -> bool:
        """Return whether the page names children of a shard."""
        return any(shard_id in child.parent_shards for child in self.child_shards)


class ChildShard(msgspec.Struct, frozen=True, rename="pascal"):
    """A shard that a closed shard was split or merged into, without its hash keys."""

    shard_id: str
    parent_shards: list[str]


class WireRecord(msgspec.Struct, frozen=True, rename="pascal", gc=False):
    """A record in the JSON of a response. Its data stay base64, because msgspec decodes base64 slowly."""

    sequence_number: str
    approximate_arrival_timestamp: float
    data: str
    partition_key: str | None = None


class WirePage(msgspec.Struct, frozen=True, rename="pascal"):
    """The JSON of a GetRecords response; see `Page`. `records` is required: a truncated body lacks it."""

    records: list[WireRecord]
    millis_behind_latest: int
    next_shard_iterator: str | None = None
    child_shards: list[ChildShard] | None = None

    def to_result(self) -> Page:
        """Convert the response to a page: decode the records' data, store them as columns, and check them.

        Raises:
            ValueError: The data of a record are not base64, or `page_checks` rejects the page.
        """
        wire = self.records
        try:
            # Decoding without validation accepts anything, and is slower.
            payloads = [b64decode(record.data, None, True) for record in wire]
        except ValueError as error:
            raise ValueError(f"the data of a record are not base64: {error}") from None
        records = Records(
            [record.sequence_number for record in wire],
            [record.approximate_arrival_timestamp for record in wire],
            payloads,
            [record.partition_key for record in wire],
        )
        behind, children = checked_lag(self.millis_behind_latest), self.child_shards or ()
        return Page(checked(records), behind, self.next_shard_iterator or None, children)


class WireIterator(msgspec.Struct, frozen=True, rename="pascal"):
    """The JSON of a GetShardIterator response."""

    shard_iterator: str

    def to_result(self) -> str:
        """Return the iterator."""
        return self.shard_iterator


class IncompleteBody(msgspec.Struct, frozen=True):
    """A successful response whose body is incomplete or invalid.

    Attributes:
        reason: Why it is.
    """

    reason: str


def page_of(response: dict[str, Any]) -> Page:
    """Convert a GetRecords response that botocore parsed to a page.

    Raises:
        KeyError: A required field is missing.
        TypeError, ValueError: A field is of the wrong type, or `page_checks` rejects the page.
    """
    listed = response["Records"]
    records = Records(
        [_text(record["SequenceNumber"]) for record in listed],
        [record["ApproximateArrivalTimestamp"].timestamp() for record in listed],
        [record["Data"] for record in listed],
        [None if (key := record.get("PartitionKey")) is None else _text(key) for record in listed],
    )
    behind = checked_lag(msgspec.convert(response["MillisBehindLatest"], int))
    next_iterator = msgspec.convert(response.get("NextShardIterator"), str | None)
    children = msgspec.convert(response.get("ChildShards"), list[ChildShard] | None)
    return Page(checked(records), behind, next_iterator or None, children or ())


def _text(value: str) -> str:
    """Return a string after checking that UTF-8 can encode it: JSON may contain half of a surrogate pair."""
    str.encode(value)
    return value
