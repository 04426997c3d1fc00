"""The JSON of GetRecords, GetShardIterator and SubscribeToShard as structs, and the page, which is checked.

A page with one invalid record is rejected as a whole and requested again: no single response overrides what
holds for every page of a shard. The checks are vectorized, because they run on every page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from pybase64 import b64decode

from kinesis_assets.kinesis.position import LONGEST_NUMBER, NUMBER, may_return
from kinesis_assets.kinesis.records.records import Records, bytes_and_offsets

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from kinesis_assets.kinesis.position import Position


@dataclass(frozen=True, slots=True)
class Page:
    """A response of GetRecords.

    Source: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_GetRecords.html

    Attributes:
        records: In shard order. An empty page does not imply that the tip is reached.
        millis_behind_latest: Milliseconds from the end of this page to the tip; 0 at the tip.
        next_shard_iterator: None at the end of a closed shard, where some emulators return an empty text; see
            `pages`.
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
            ValueError: The data of a record are not base64, or `checked` refuses the page.
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


class WireEvent(msgspec.Struct, frozen=True, rename="pascal"):
    """The JSON of an event of SubscribeToShard. At the end of the shard it has no continuation."""

    records: list[WireRecord]
    millis_behind_latest: int
    continuation_sequence_number: str | None = None
    child_shards: list[ChildShard] | None = None


def page_of_events(events: Sequence[WireEvent]) -> Page:
    """Convert consecutive events, at least one, to a page as if GetRecords had returned it.

    Raises what `WirePage.to_result` raises.
    """
    last = events[-1]
    return WirePage(
        [record for event in events for record in event.records],
        last.millis_behind_latest,
        last.continuation_sequence_number,
        last.child_shards,
    ).to_result()


class WireIterator(msgspec.Struct, frozen=True, rename="pascal"):
    """The JSON of a GetShardIterator response."""

    shard_iterator: str

    def to_result(self) -> str:
        """Return the iterator."""
        return self.shard_iterator


class IncompleteBody(msgspec.Struct, frozen=True):
    """A successful response whose body is incomplete or invalid."""

    reason: str


def page_of(response: dict[str, Any]) -> Page:
    """Convert a GetRecords response that botocore parsed to a page.

    Raises:
        KeyError: A required field is missing.
        TypeError, ValueError: A field is of the wrong type, or `checked` refuses the page.
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


class RepeatedPage(ValueError):
    """A page starts before the position that it was read from."""


EARLIEST_ARRIVAL = 0.0
LATEST_ARRIVAL = datetime(9998, 1, 1, tzinfo=UTC).timestamp()
"""Valid arrival times, in seconds since the epoch: from `EARLIEST_ARRIVAL` (inclusive) to `LATEST_ARRIVAL`
(exclusive). Python, Arrow and Delta can represent a valid time plus one year of retention."""

_LONGEST_LAG_MS = 100 * 366 * 86_400_000
"""A century; the longest retention is a year."""

_WORD = 8
"""Number of digits compared at once."""

_ZERO, _NINE = np.uint8(ord("0")), 9


def checked(records: Records) -> Records:
    """Return the records of one page after validating them.

    Raises:
        ValueError: A sequence number is invalid or not greater than the previous one, or an arrival time is
            invalid.
    """
    if records:
        _check_numbers(records)
        _check_arrivals(records)
    return records


def checked_lag(milliseconds: int) -> int:
    """Return a page's MillisBehindLatest. Raises `ValueError` if it is more than a century."""
    if abs(milliseconds) > _LONGEST_LAG_MS:
        raise ValueError(f"MillisBehindLatest is {str(milliseconds)[:80]}, more than a century")
    return milliseconds


def check_follows(first: str | None, position: Position) -> None:
    """Reject a page that a read from a position cannot return, such as the previous page again.

    Args:
        first: The first sequence number of the page; None if the page is empty.
        position: Where the read started.

    Raises:
        RepeatedPage: The first sequence number is before the position.
    """
    if first is not None and not may_return(position, first):
        raise RepeatedPage(
            f"the page starts at sequence number {first}, which a read from {position} must not return"
        )


def first_invalid_number(numbers: pa.StringArray) -> str | None:
    """Return the first string that `position.NUMBER` does not match; None if all match.

    Checking the whole column at once costs less than matching the strings one by one.
    """
    if not len(numbers):
        return None
    text, offsets = bytes_and_offsets(numbers)
    lengths = offsets[1:] - offsets[:-1]
    all_valid = (
        lengths.min() > 0
        and lengths.max() <= LONGEST_NUMBER
        and (text - _ZERO).max() <= _NINE  # characters below '0' wrap around
        and text[offsets[:-1]].min() > _ZERO
    )
    if all_valid:
        return None
    return next((text for text in numbers.to_pylist() if not NUMBER.fullmatch(text)), None)


def _check_numbers(records: Records) -> None:
    numbers = records.number_column
    invalid = first_invalid_number(numbers)
    if invalid is not None:
        raise ValueError(f"invalid sequence number {invalid[:80]!r}")
    index = _first_not_ascending(numbers)
    if index is not None:
        previous, number = records.numbers[index - 1 : index + 1]
        raise ValueError(f"sequence number {number} follows {previous} in one page, but is not greater")


def _first_not_ascending(numbers: pa.StringArray) -> int | None:
    """Return the index of the first number that is not greater than the previous one, if any."""
    text, offsets = bytes_and_offsets(numbers)
    lengths = np.diff(offsets)
    if lengths.min() == lengths.max() >= _WORD:
        return _first_not_ascending_of_equal_length(text, len(numbers), int(lengths[0]))
    values = [int(number) for number in numbers.to_pylist()]
    return next((index for index, (last, value) in enumerate(pairwise(values), 1) if value <= last), None)


def _first_not_ascending_of_equal_length(text: NDArray[np.uint8], count: int, length: int) -> int | None:
    """Do the same for numbers of equal length, which sort like their text: compare eight digits at a time.

    In most pages all numbers share their first digits and differ within the next eight.
    """
    undecided = np.ones(count - 1, np.bool_)
    descending = np.zeros(count - 1, np.bool_)
    for start in (*range(0, length - _WORD, _WORD), length - _WORD):  # the last two may overlap
        words = np.ndarray((count,), ">u8", text, start, (length,)).astype(np.uint64)
        before, after = words[:-1], words[1:]
        descending |= undecided & (after < before)
        undecided &= after == before
        if not undecided.any():
            break
    descending |= undecided  # equal numbers
    return int(descending.argmax()) + 1 if descending.any() else None


def _check_arrivals(records: Records) -> None:
    seconds = records.arrival_seconds
    if seconds.min() >= EARLIEST_ARRIVAL and seconds.max() < LATEST_ARRIVAL:  # both are false for NaN
        return
    index = int((~((seconds >= EARLIEST_ARRIVAL) & (seconds < LATEST_ARRIVAL))).argmax())
    raise ValueError(
        f"the arrival {records.arrivals[index]!r} of record {records.numbers[index]} is outside the years "
        "1970 to 9997"
    )
