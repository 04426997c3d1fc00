"""Positions: validation, text and JSON formats, the arguments of GetShardIterator, and the first record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.kinesis.position import Position, PositionKind, may_return

NUMBER = "49680404395535651255759693338678593731398313481915596802"
MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123000, UTC)

POSITIONS = [
    Position(PositionKind.TRIM_HORIZON),
    Position(PositionKind.LATEST),
    Position.at_timestamp(MOMENT),
    Position(PositionKind.AT_SEQUENCE_NUMBER, sequence_number=NUMBER),
    Position.after(NUMBER),
    Position.after(NUMBER, 0),
    Position.after(NUMBER, 12),
]


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_text_reads_back_as_the_same_position(position):
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_json_reads_back_as_the_same_position(position):
    assert msgspec.json.decode(msgspec.json.encode(position), type=Position) == position


def test_text_is_the_kind_and_its_argument():
    assert [str(position) for position in POSITIONS] == [
        "TRIM_HORIZON",
        "LATEST",
        "AT_TIMESTAMP:2026-01-31T12:00:00.123000Z",
        f"AT_SEQUENCE_NUMBER:{NUMBER}",
        f"AFTER_SEQUENCE_NUMBER:{NUMBER}",
        f"AFTER_SEQUENCE_NUMBER:{NUMBER}:0",
        f"AFTER_SEQUENCE_NUMBER:{NUMBER}:12",
    ]


def test_kind_is_parsed_in_any_case_and_with_surrounding_spaces():
    assert Position.parse(" trim_horizon\n") == Position(PositionKind.TRIM_HORIZON)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EARLIEST",
        "TRIM_HORIZON:1",
        "LATEST:2026-01-31T12:00:00Z",
        "AT_TIMESTAMP",
        "AT_TIMESTAMP:yesterday",
        "AT_TIMESTAMP:2026-01-31T12:00:00",
        "AT_SEQUENCE_NUMBER",
        "AFTER_SEQUENCE_NUMBER:",
        "AFTER_SEQUENCE_NUMBER:4e5",
        "AFTER_SEQUENCE_NUMBER:-1",
        "AFTER_SEQUENCE_NUMBER:١٢",  # str.isdigit accepts these digits, Kinesis does not
        "AFTER_SEQUENCE_NUMBER:12:",
        "AFTER_SEQUENCE_NUMBER:12:-1",
        "AFTER_SEQUENCE_NUMBER:12:01",
        "AFTER_SEQUENCE_NUMBER:12:1.0",
        "AFTER_SEQUENCE_NUMBER:12:١٢",
        "AFTER_SEQUENCE_NUMBER:12:3:4",
        "AFTER_SEQUENCE_NUMBER::3",
        "AFTER_SEQUENCE_NUMBER:12:" + "9" * 20,
        "AT_SEQUENCE_NUMBER:12:3",
        "TRIM_HORIZON:12:3",
        "LATEST::3",
    ],
)
def test_text_that_is_not_a_position_is_invalid_input(text):
    with pytest.raises(InvalidInput):
        Position.parse(text)


def test_the_error_of_an_unknown_kind_lists_the_known_kinds():
    with pytest.raises(InvalidInput, match=r"'EARLIEST'.*TRIM_HORIZON.*AFTER_SEQUENCE_NUMBER"):
        Position.parse("EARLIEST")


@pytest.mark.parametrize("kind", ["AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"])
def test_sequence_number_kinds_need_a_sequence_number(kind):
    with pytest.raises(InvalidInput, match="sequence number"):
        Position(PositionKind(kind))


@pytest.mark.parametrize("kind", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"])
def test_other_kinds_take_no_sequence_number(kind):
    with pytest.raises(InvalidInput, match="no sequence number"):
        Position(PositionKind(kind), sequence_number=NUMBER)


def test_timestamp_kind_needs_a_timestamp():
    with pytest.raises(InvalidInput, match="a timestamp"):
        Position(PositionKind.AT_TIMESTAMP)


def test_other_kinds_take_no_timestamp():
    with pytest.raises(InvalidInput, match="no timestamp"):
        Position(PositionKind.TRIM_HORIZON, timestamp=MOMENT)


@pytest.mark.parametrize("kind", ["TRIM_HORIZON", "LATEST", "AT_TIMESTAMP", "AT_SEQUENCE_NUMBER"])
def test_other_kinds_take_no_sub_sequence_number(kind):
    fields = {"AT_TIMESTAMP": {"timestamp": MOMENT}, "AT_SEQUENCE_NUMBER": {"sequence_number": NUMBER}}
    with pytest.raises(InvalidInput, match="sub-sequence number 3"):
        Position(PositionKind(kind), **fields.get(kind, {}), sub_sequence_number=3)


def test_a_negative_sub_sequence_number_is_invalid_input():
    with pytest.raises(InvalidInput, match="sub-sequence number -1"):
        Position.after(NUMBER, -1)


def test_the_position_after_the_first_sub_record_differs_from_the_one_after_the_whole_record():
    assert Position.after(NUMBER, 0) != Position.after(NUMBER)


def test_naive_timestamp_is_invalid_input():
    with pytest.raises(InvalidInput, match="UTC offset"):
        Position.at_timestamp(MOMENT.replace(tzinfo=None))


def test_a_timestamp_of_another_time_zone_is_converted_to_utc():
    position = Position.at_timestamp(MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert position.timestamp is not None
    assert position.timestamp.tzinfo is UTC
    assert str(position) == "AT_TIMESTAMP:2026-01-31T12:00:00.123000Z"


def test_iterator_arguments_are_those_of_the_api():
    assert [position.iterator_arguments() for position in POSITIONS] == [
        {"ShardIteratorType": "TRIM_HORIZON"},
        {"ShardIteratorType": "LATEST"},
        {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": MOMENT},
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": NUMBER},
        {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": NUMBER},
        # Inside an aggregate, the record itself must be read again.
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": NUMBER},
        {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": NUMBER},
    ]


def test_a_timestamp_is_truncated_to_milliseconds():
    position = Position.parse("AT_TIMESTAMP:2026-01-31T12:00:00.644999Z")
    assert str(position) == "AT_TIMESTAMP:2026-01-31T12:00:00.644000Z"
    assert msgspec.json.decode(msgspec.json.encode(position), type=Position) == position


@pytest.mark.parametrize(
    ("position", "numbers"),
    [
        ("TRIM_HORIZON", ["1", "9", "10", "11"]),
        ("AT_TIMESTAMP:2026-01-31T12:00:00Z", ["1", "9", "10", "11"]),
        ("AT_SEQUENCE_NUMBER:10", ["10", "11"]),
        ("AFTER_SEQUENCE_NUMBER:10", ["11"]),
        ("AFTER_SEQUENCE_NUMBER:10:3", ["10", "11"]),
        ("AFTER_SEQUENCE_NUMBER:9", ["10", "11"]),
    ],
)
def test_a_read_returns_no_record_that_its_position_has_passed(position, numbers):
    read_from = Position.parse(position)
    assert [number for number in ("1", "9", "10", "11") if may_return(read_from, number)] == numbers
