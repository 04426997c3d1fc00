"""The results that a range can have: positions that fit its start and first record; an end or an error."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.manifest import ShardLanding, is_reachable
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.reading.range import Bounds, RangeEnd, ShardRange
from kinesis_assets.table.positions.range_stats import RangeStats, ReadingFacts


def is_possible(start: str, position: str, first: str | None, *, up_to: str | None = None, records=1) -> bool:
    """Return whether a range from a start can have been read up to a position."""
    end = None if up_to is None else Position.parse(up_to)
    range_ = ShardRange("a", Position.parse(start), Bounds(), None, up_to=end)
    return is_reachable(range_, Position.parse(f"AFTER_SEQUENCE_NUMBER:{position}"), records, first)


@pytest.mark.parametrize(
    ("start", "position", "first"),
    [
        ("TRIM_HORIZON", "1", "1"),
        ("AT_SEQUENCE_NUMBER:5", "5", "5"),
        ("AT_SEQUENCE_NUMBER:5", "5:0", "5"),
        ("AFTER_SEQUENCE_NUMBER:5", "6", "6"),
        ("AFTER_SEQUENCE_NUMBER:5", "6:0", "6"),
        ("AFTER_SEQUENCE_NUMBER:5:2", "5:3", "5"),
        ("AFTER_SEQUENCE_NUMBER:5:2", "5", "5"),
        ("AFTER_SEQUENCE_NUMBER:5:2", "6:1", "5"),
        ("AFTER_SEQUENCE_NUMBER:9", "10", "10"),
    ],
)
def test_a_position_at_or_after_the_first_record_is_reachable(start, position, first):
    assert is_possible(start, position, first)


@pytest.mark.parametrize(
    ("start", "position", "first"),
    [
        ("AFTER_SEQUENCE_NUMBER:5", "5", "5"),
        ("AFTER_SEQUENCE_NUMBER:5", "6", "5"),
        ("AFTER_SEQUENCE_NUMBER:5", "5:9", "5"),
        ("AFTER_SEQUENCE_NUMBER:5:2", "5:2", "5"),
        ("AFTER_SEQUENCE_NUMBER:5:2", "5:1", "5"),
        ("AFTER_SEQUENCE_NUMBER:5", "4", "4"),
        ("AFTER_SEQUENCE_NUMBER:5", "7", "8"),
        ("AT_SEQUENCE_NUMBER:5", "5", "4"),
        ("AFTER_SEQUENCE_NUMBER:10", "9", "9"),
        ("TRIM_HORIZON", "1", None),
    ],
)
def test_what_the_position_had_passed_cannot_be_read_again(start, position, first):
    assert not is_possible(start, position, first)


@pytest.mark.parametrize(
    ("up_to", "position", "is_within"),
    [
        ("AFTER_SEQUENCE_NUMBER:9", "9", True),
        ("AFTER_SEQUENCE_NUMBER:9", "10", False),
        ("AT_SEQUENCE_NUMBER:9", "8", True),
        ("AT_SEQUENCE_NUMBER:9", "9", False),
        ("AFTER_SEQUENCE_NUMBER:9:0", "9:0", True),
    ],
)
def test_the_end_of_the_range_is_not_passed(up_to, position, is_within):
    assert is_possible("AFTER_SEQUENCE_NUMBER:5", position, "6", up_to=up_to) is is_within


@pytest.mark.parametrize(
    ("position", "first", "is_same"), [("5", None, True), ("6", None, False), ("5", "6", False)]
)
def test_without_records_the_position_is_the_start(position, first, is_same):
    assert is_possible("AFTER_SEQUENCE_NUMBER:5", position, first, records=0) is is_same


def test_a_range_is_not_read_up_to_a_position_that_includes_its_last_record():
    range_ = ShardRange("a", Position.after("5"), Bounds(), None)
    assert not is_reachable(range_, Position.parse("AT_SEQUENCE_NUMBER:7"), 1, "6")


@pytest.mark.parametrize(
    ("end", "error", "is_valid"),
    [
        (RangeEnd.TIP, None, True),
        (None, ReadFailed("a", "no response"), True),
        (None, None, False),
        (RangeEnd.TIP, ReadFailed("a", "no response"), False),
        (None, ReadFailed("b", "no response"), False),
    ],
)
def test_a_range_has_either_an_end_or_an_error_of_its_shard(end, error, is_valid):
    start = Position.after("5")
    shard = ShardLanding("a", RangeStats.unread(start), end, error, ReadingFacts.unread(), None)
    checks = shard.checks(ShardRange("a", start, Bounds(), None))
    assert any(fails for fails, _ in checks) is not is_valid


@pytest.mark.parametrize(("last", "is_valid"), [("7", True), ("6", False)])
def test_the_position_after_a_single_row_is_that_of_the_row(last, is_valid):
    start, arrival = Position.after("5"), datetime(2026, 1, 31, tzinfo=UTC)
    stats = replace(
        RangeStats.unread(start),
        through=Position.after("7"),
        first_sequence_number=last,
        last_sequence_number=last,
        rows=1,
    )
    facts = replace(ReadingFacts.unread(), first_arrival=arrival, last_arrival=arrival)
    shard = ShardLanding("a", stats, RangeEnd.TIP, None, facts, None)
    checks = shard.checks(ShardRange("a", start, Bounds(), None))
    assert [reason for fails, reason in checks if fails] == (
        [] if is_valid else ["a position that is not that of the last row"]
    )
