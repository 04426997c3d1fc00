"""Checks of a page before any of its records is used.

A page with one wrong record is refused as a whole and requested again: no single response overrides what
holds for every page of a shard. The checks are vectorised, since every page passes them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kinesis_assets.errors import CallFailed
from kinesis_assets.kinesis.position import Position, PositionKind
from kinesis_assets.kinesis.records.columns import letters
from kinesis_assets.kinesis.shards import LONGEST_NUMBER, NUMBER

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from kinesis_assets.kinesis.records.record import Records

REPEATED_PAGE = "RepeatedPage"
"""The code of the `CallFailed` that `check_follows` raises."""

EARLIEST_ARRIVAL = 0.0
LATEST_ARRIVAL = datetime(9998, 1, 1, tzinfo=UTC).timestamp()
"""Arrivals are from the first of these on and before the second one, in seconds since the epoch: a year of
retention after it, a time is still one that Python, Arrow and Delta have."""

_LONGEST_LAG_MS = 100 * 366 * 86_400_000
"""A century: the longest retention is a year."""

_WORD = 8
"""Digits that are compared at once."""

_ZERO, _NINE = np.uint8(ord("0")), 9


def checked(records: Records) -> Records:
    """The records of one page, if they can be such.

    Raises:
        ValueError: A sequence number is not a number or not above the one before, or an arrival is no time.
    """
    if records:
        _check_numbers(records)
        _check_arrivals(records)
    return records


def checked_lag(milliseconds: int) -> int:
    """A page's MillisBehindLatest, if a time can be that far behind.

    Raises:
        ValueError: It is more than a century.
    """
    if abs(milliseconds) > _LONGEST_LAG_MS:
        raise ValueError(f"MillisBehindLatest is {str(milliseconds)[:80]}, more than a century")
    return milliseconds


def check_follows(stream: str, first: str | None, position: Position) -> None:
    """Refuse a page that a read from a position cannot give, such as the page before once more.

    Args:
        stream: The stream's name.
        first: The sequence number that the page begins with; None if it has no record.
        position: Where the read began. AT_SEQUENCE_NUMBER, and a position inside an aggregate, include the
            record that they name; AFTER_SEQUENCE_NUMBER excludes it. Other positions accept any page.

    Raises:
        CallFailed: Its first sequence number is before that; the code is `REPEATED_PAGE`.
    """
    if first is None or position.sequence_number is None:
        return
    found, number = int(first), int(position.sequence_number)
    inclusive = position.kind is PositionKind.AT_SEQUENCE_NUMBER or position.sub_sequence_number is not None
    if found < number or (found == number and not inclusive):
        raise CallFailed(
            stream,
            "GetRecords",
            REPEATED_PAGE,
            f"a page begins with sequence number {first}, which a read from {position} has passed",
        )


def first_that_is_no_number(numbers: pa.StringArray) -> str | None:
    """The first text that `shards.NUMBER` does not take; None if it takes all.

    Checking all of them at once costs less than one by one.
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


def _check_numbers(records: Records) -> None:
    numbers = records.number_column
    wrong = first_that_is_no_number(numbers)
    if wrong is not None:
        raise ValueError(f"invalid sequence number {wrong[:80]!r}")
    place = _first_that_does_not_ascend(numbers)
    if place is not None:
        before, number = records.numbers[place - 1 : place + 1]
        raise ValueError(f"sequence number {number} follows {before} in one page, and is not above it")


def _first_that_does_not_ascend(numbers: pa.StringArray) -> int | None:
    """The place of the first number that is not above the one before; None if all are."""
    text, begins = letters(numbers)
    lengths = np.diff(begins)
    if lengths.min() == lengths.max() >= _WORD:
        return _first_text_that_does_not_ascend(text, len(numbers), int(lengths[0]))
    values = [int(number) for number in numbers.to_pylist()]
    return next((place for place, (last, value) in enumerate(pairwise(values), 1) if value <= last), None)


def _first_text_that_does_not_ascend(text: NDArray[np.uint8], count: int, length: int) -> int | None:
    """Likewise for numbers of one length, which order as their texts do: eight digits at a time.

    In most pages the first digits of all are the same, and the next eight tell all of them apart.
    """
    undecided = np.ones(count - 1, np.bool_)
    falling = np.zeros(count - 1, np.bool_)
    for begin in (*range(0, length - _WORD, _WORD), length - _WORD):  # the last two may overlap
        words = np.ndarray((count,), ">u8", text, begin, (length,)).astype(np.uint64)
        before, after = words[:-1], words[1:]
        falling |= undecided & (after < before)
        undecided &= after == before
        if not undecided.any():
            break
    falling |= undecided  # the same number twice
    return int(falling.argmax()) + 1 if falling.any() else None


def _check_arrivals(records: Records) -> None:
    seconds = records.arrival_seconds
    if seconds.min() >= EARLIEST_ARRIVAL and seconds.max() < LATEST_ARRIVAL:  # neither holds for NaN
        return
    wrong = int((~((seconds >= EARLIEST_ARRIVAL) & (seconds < LATEST_ARRIVAL))).argmax())
    raise ValueError(
        f"the arrival {records.arrivals[wrong]!r} of record {records.numbers[wrong]} is outside the years "
        "1970 to 9997"
    )
