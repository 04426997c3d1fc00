"""The changes of a positions file since its base."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.positions.positions_file import apply, changes, pack, unpack
from kinesis_assets.table.positions.range_stats import RangeStats
from support.attempts import BEGINNING, LISTED_AT
from support.stored_positions import shard_after, shard_at

# Columns


@given(st.lists(st.integers(-(10**129), 10**129), max_size=20))
def test_a_column_survives_a_round_trip(numbers):
    assert unpack(pack(numbers), len(numbers)) == numbers


def test_a_column_of_another_length_is_refused():
    with pytest.raises(msgspec.ValidationError, match=r"\b2 bytes\b.*\b3 x 1\b"):
        unpack(pack([1, 2]), 3)


def test_a_column_whose_lowest_value_is_no_number_is_refused():
    with pytest.raises(msgspec.ValidationError, match="not a number"):
        unpack(msgspec.structs.replace(pack([1, 2]), lowest="x"), 2)


# Changes


MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
TIMES = st.none() | MOMENTS
NUMBERS = st.integers(0, 10**129 - 1).map(str)
POSITIONS = (
    st.just(BEGINNING)
    | st.builds(Position.after, NUMBERS, st.none() | st.integers(0, 1 << 40))
    | MOMENTS.map(Position.at_timestamp)
)
SHARDS = st.builds(
    shard_at,
    POSITIONS,
    finished=st.booleans(),
    tip_time=TIMES,
    last_arrival=TIMES,
    bytes_per_second=st.none() | st.integers(0, 10**7),
    retention_hours=st.none() | st.integers(24, 8760),
)
STATS = st.builds(
    RangeStats,
    start=POSITIONS,
    through=POSITIONS,
    first_sequence_number=NUMBERS,
    last_sequence_number=NUMBERS,
    rows=st.integers(1, 10**9),
    bytes=st.integers(0, 10**12),
    checksum=st.integers(0, 1 << 63),
)
NAMES = st.sampled_from("abcdef")
READ = RangeStats(
    start=Position.after("3"),
    through=Position.after("5"),
    first_sequence_number="4",
    last_sequence_number="5",
    rows=2,
    bytes=20,
    checksum=5,
)


@example({}, {"a": shard_after(5)}, {"a": READ})  # rows of a shard that the base does not have
@example({"a": shard_after(3)}, {}, {"a": READ})  # or that has been removed
@given(st.dictionaries(NAMES, SHARDS), st.dictionaries(NAMES, SHARDS), st.dictionaries(NAMES, STATS))
@pytest.mark.slow
def test_changes_applied_to_their_base_give_the_new_positions(before, now, added):
    assert apply(before, changes(before, now, added)) == (now, added)


@given(st.dictionaries(NAMES, SHARDS, min_size=1), st.data())
def test_changes_of_read_shards_are_stored_in_columns_only(before, data):
    now, added = {}, {}
    for shard_id, shard in before.items():
        last = data.draw(st.integers(10**55, 10**56))
        now[shard_id] = msgspec.structs.replace(
            shard, position=Position.after(str(last)), tip_time=LISTED_AT, last_arrival=LISTED_AT
        )
        added[shard_id] = RangeStats(
            start=Position.after(str(last - 9)),
            through=now[shard_id].position,
            first_sequence_number=str(last - 5),
            last_sequence_number=str(last),
            rows=5,
            bytes=500,
            checksum=1 << 33,
        )
    changed = changes(before, now, added)
    assert (changed.whole, changed.added_whole) == ({}, {})
    assert apply(before, changed) == (now, added)


def test_an_unchanged_shard_takes_no_space():
    named = {f"{number}": shard_after(number) for number in range(1000)}
    same = {shard_id: msgspec.structs.replace(shard) for shard_id, shard in named.items()}
    assert len(msgspec.msgpack.encode(changes(named, same, {}))) < 20


def test_changes_of_another_base_are_refused():
    changed = changes({"a": shard_at(), "b": shard_at()}, {"a": shard_at(), "b": shard_after(5)}, {})
    with pytest.raises(msgspec.ValidationError, match="its base"):
        apply({"a": shard_at()}, changed)
