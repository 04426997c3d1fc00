"""What a source offers to the tables derived from it: what an amendment deleted, and rows of one batch."""

from __future__ import annotations

from datetime import date

import pytest

from kinesis_assets.derive.policy import DeletedRows, Deletion
from kinesis_assets.derive.source import RankedFile, of_amendment
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.data_file import TableFile
from kinesis_assets.table.positions.range_stats import RangeStats
from support.amendments import new_amendment

EARLY, LATE = date(2026, 1, 1), date(2026, 2, 1)
FILLED = {
    "shardId-0": RangeStats(
        start=Position.after("1"),
        through=Position.after("2"),
        first_sequence_number="2",
        last_sequence_number="2",
        rows=1,
        bytes=1,
        checksum=1,
    )
}


def expired(before: date) -> DeletedRows:
    return DeletedRows(deletion=Deletion.EXPIRED, before=before)


def test_a_first_floor_deletes_what_arrived_before_it():
    assert of_amendment(new_amendment(floor=EARLY), None).deleted == [expired(EARLY)]


def test_an_amendment_without_a_floor_deletes_nothing():
    assert of_amendment(new_amendment(filled=FILLED), None).deleted == []


def test_a_higher_floor_deletes_what_arrived_before_it():
    before = new_amendment(floor=EARLY)
    assert of_amendment(new_amendment(before, floor=LATE), before).deleted == [expired(LATE)]


def test_a_lowered_floor_deletes_nothing():
    before = new_amendment(floor=LATE)
    lowered = new_amendment(before, floor=EARLY, lowered_from=LATE)
    assert of_amendment(lowered, before).deleted == []


def test_the_same_floor_again_deletes_what_has_landed_below_it():
    before = new_amendment(floor=EARLY)
    assert of_amendment(new_amendment(before), before).deleted == [expired(EARLY)]


@pytest.mark.parametrize("changes", [{"filled": FILLED}, {"accepted": 7}])
def test_an_amendment_of_another_kind_deletes_nothing(changes):
    before = new_amendment(floor=EARLY)
    assert of_amendment(new_amendment(before, **changes), before).deleted == []


def test_a_seek_deletes_the_rows_of_its_shards():
    before = new_amendment(floor=EARLY)
    rewound = of_amendment(new_amendment(before, rewound=("shardId-0",)), before)
    assert rewound.deleted == [DeletedRows(deletion=Deletion.REWOUND, shards=("shardId-0",))]


@pytest.mark.parametrize(
    ("first", "last", "rows"), [(5, 5, 3), (5, 6, None), (None, None, None), (None, 6, None)]
)
def test_a_file_has_rows_of_one_batch_if_its_first_and_its_last_row_have(first, last, rows):
    assert RankedFile(TableFile("part.parquet", 1, 3), first, last).rows_of_one_batch == rows
