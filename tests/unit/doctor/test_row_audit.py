"""Rows against what the commits say: which differences are told, and which are explained."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import pytest

from kinesis_assets.doctor.expected_rows import CommittedRows, ExpectedRows, Rewind
from kinesis_assets.doctor.row_audit import differences, unproven_rows
from kinesis_assets.doctor.row_scan import Counted
from kinesis_assets.kinesis.position import Position
from kinesis_assets.table.range_stats import RangeStats

FLOOR = date(2026, 2, 1)


def checksum(first: int, rows: int) -> int:
    """Of records with consecutive numbers: of no others with as many rows."""
    return sum(number**2 for number in range(first, first + rows))


def brought(batch_id: int, first: int, rows: int, arrived_from: date | None = None) -> CommittedRows:
    """A batch of shard a, its sequence numbers consecutive; its token is its id."""
    stats = RangeStats(
        start=Position.after(str(first - 1)),
        through=Position.after(str(first + rows - 1)),
        first_sequence_number=str(first),
        last_sequence_number=str(first + rows - 1),
        rows=rows,
        bytes=rows,
        checksum=checksum(first, rows),
    )
    return CommittedRows(batch_id, batch_id, "a", stats, arrived_from)


def told(counted, *each: CommittedRows, rewinds=(), floor=None) -> list[tuple[str, bool]]:
    """What is told, and whether it is certain.

    Args:
        counted: By batch, what stands of it: pieces of a first number and a count of rows.
        each: What was brought.
        rewinds: What was taken out.
        floor: What was expired.
    """
    accounts = ExpectedRows(each, rewinds, floor, (), 0)
    found = {
        (batch_id, "a"): Counted(
            sum(rows for _, rows in pieces), sum(checksum(first, rows) for first, rows in pieces)
        )
        for batch_id, pieces in counted.items()
    }
    return [(difference.sentence, difference.certain) for difference in differences(accounts, found)]


def whole(*each: CommittedRows) -> dict[int, list[tuple[int, int]]]:
    """Batches of which nothing is gone."""
    return {one.batch_id: [(one.stats.numbers[0], one.stats.rows)] for one in each}


def sentences(found: list[tuple[str, bool]]) -> list[str]:
    """What is told; nothing of it may be uncertain."""
    assert all(certain for _, certain in found)
    return [sentence for sentence, _ in found]


def test_rows_that_are_what_the_commits_brought_are_well():
    batches = brought(1, 1, 10), brought(2, 11, 5)
    assert told(whole(*batches), *batches) == []


def test_rows_that_are_gone_are_told_with_the_range_to_replay():
    batches = brought(1, 1, 10), brought(2, 11, 5)
    assert sentences(told({1: [(1, 10)], 2: [(11, 4)]}, *batches)) == [
        "batch 2 added 5 rows, 1 of them are missing; replay 11 to 15"
    ]
    assert sentences(told({}, batches[0])) == [
        "batch 1 added 10 rows, 10 of them are missing; replay 1 to 10"
    ]


def test_rows_that_are_there_twice_are_told():
    assert sentences(told({1: [(1, 10), (1, 10)]}, brought(1, 1, 10))) == [
        "batch 1 added 10 rows, but 20 rows carry its id: some are duplicates"
    ]


def test_other_rows_than_those_that_were_brought_are_told():
    ((sentence, certain),) = told({1: [(2, 10)]}, brought(1, 1, 10))
    assert "their checksum differs" in sentence
    assert certain


def test_rows_that_nobody_brought_are_told():
    assert sentences(told({1: [(1, 10)], 2: [(11, 3)]}, brought(1, 1, 10))) == [
        "batch 2: 3 rows, but no commit added any of this shard"
    ]


def test_rows_of_commits_that_were_pruned_or_kept_no_proof_are_counted_apart():
    accounts = ExpectedRows([brought(10, 1, 4)], (), None, {11}, since=10)
    counted = {(9, "a"): Counted(3, 0), (10, "a"): Counted(4, checksum(1, 4)), (11, "a"): Counted(5, 0)}
    assert list(differences(accounts, counted)) == []
    assert unproven_rows(accounts, counted) == 8


# The floor


def test_a_batch_that_is_older_than_the_floor_as_a_whole_is_due_to_be_gone():
    each = replace(brought(1, 1, 10), arrived_through=date(2026, 1, 31))
    assert told({}, each, floor=FLOOR) == []


@pytest.mark.parametrize(("lowered_at", "lost"), [(5, 0), (0, 1)])
def test_a_floor_that_was_lowered_later_took_what_was_there_and_nothing_since(lowered_at, lost):
    each = replace(brought(1, 1, 10), arrived_through=date(2026, 1, 31))
    accounts = ExpectedRows([each], (), date(2026, 1, 1), (), 0, [(lowered_at, FLOOR)])
    assert len(list(differences(accounts, {}))) == lost


@pytest.mark.parametrize("arrived_from", [None, date(2026, 1, 31), FLOOR])
def test_what_the_floor_may_have_taken_of_a_batch_cannot_be_proven(arrived_from):
    each = replace(brought(1, 1, 10, arrived_from), arrived_through=FLOOR)
    ((sentence, certain),) = told({1: [(8, 3)]}, each, floor=FLOOR)
    assert sentence.startswith("batch 1 added 10 rows, 7 of them are missing")
    assert "cannot be proven" in sentence
    assert not certain


def test_rows_that_arrived_after_the_floor_are_lost():
    assert sentences(told({1: [(8, 3)]}, brought(1, 1, 10, date(2026, 2, 2)), floor=FLOOR)) == [
        "batch 1 added 10 rows, 7 of them are missing; replay 1 to 10"
    ]


@pytest.mark.parametrize("arrived_from", [None, date(2026, 1, 31)])
def test_a_batch_that_is_gone_although_its_last_row_is_to_be_kept_is_lost(arrived_from):
    each = replace(brought(1, 1, 10, arrived_from), arrived_through=FLOOR)
    assert len(sentences(told({}, each, floor=FLOOR))) == 1


def test_what_a_floor_left_of_a_batch_and_a_replay_filled_in_again_is_not_lost_for_certain():
    each = replace(brought(1, 1, 10), arrived_through=FLOOR)
    ((_, certain),) = told({3: [(8, 3)]}, each, filled(3, 8, 3), floor=FLOOR)
    assert not certain


# Fills


def filled(commit_id: int, first: int, rows: int) -> CommittedRows:
    return replace(brought(commit_id, first, rows), filled=True)


def test_a_hole_that_was_filled_in_again_is_no_problem():
    batches = brought(1, 1, 10), brought(2, 11, 10)
    fill = filled(3, 4, 2)
    assert told({1: [(1, 3), (6, 5)]} | whole(batches[1], fill), *batches, fill) == []


def test_a_fill_that_was_lost_and_filled_in_again_is_no_problem():
    fill, again, once_more = filled(3, 4, 2), filled(4, 4, 2), filled(5, 5, 1)
    batch = {1: [(1, 3), (6, 5)]}
    assert told(batch | whole(again), brought(1, 1, 10), fill, again) == []
    assert told(batch | {4: [(4, 1)]} | whole(once_more), brought(1, 1, 10), fill, again, once_more) == []


def test_several_holes_that_were_filled_in_at_once_are_no_problem():
    batches = brought(1, 1, 10), brought(2, 11, 10)
    fill = filled(3, 8, 6)
    found = {1: [(1, 7)], 2: [(14, 7)]}
    assert told(found | whole(fill), *batches, fill) == []


def test_a_hole_that_was_filled_in_twice_by_half_is_no_problem():
    fills = filled(3, 4, 2), filled(4, 6, 2)
    assert told({1: [(1, 3), (8, 3)]} | whole(*fills), brought(1, 1, 10), *fills) == []


def test_a_hole_that_was_filled_in_by_half_is_told():
    assert sentences(told({1: [(1, 3), (6, 5)], 3: [(4, 1)]}, brought(1, 1, 10), filled(3, 4, 1))) == [
        "batch 1 added 10 rows, 2 of them are missing; replay 1 to 10"
    ]


def test_a_fill_of_as_many_other_rows_closes_no_hole():
    fill = filled(3, 6, 2)
    assert len(sentences(told({1: [(1, 3), (6, 5)]} | whole(fill), brought(1, 1, 10), fill))) == 1


def test_whether_a_larger_fill_closed_a_hole_cannot_be_proven():
    fill = filled(3, 10, 50)
    ((sentence, certain),) = told({1: [(1, 5)]} | whole(fill), brought(1, 1, 10), fill)
    assert sentence == (
        "batch 1 added 10 rows, 5 of them are missing: a replay filled in 50 rows of this range, but whether "
        "these are the same rows cannot be proven; to be sure, replay 1 to 10"
    )
    assert not certain


def test_a_fill_that_closed_one_hole_does_not_hide_another():
    batches = brought(1, 1, 60), brought(2, 61, 10)
    fill = filled(3, 1, 50), filled(4, 51, 15)
    found = {1: [(51, 10)], 2: [(61, 5)]}
    assert sentences(told(found | whole(fill[0]), *batches, fill[0])) == [
        "batch 2 added 10 rows, 5 of them are missing; replay 61 to 70"
    ]
    uncertain = told(found | whole(*fill), *batches, *fill)
    assert [(sentence.split(" added")[0], certain) for sentence, certain in uncertain] == [("batch 2", False)]


def test_rows_that_were_filled_in_elsewhere_or_before_fill_no_hole():
    batches = brought(1, 1, 10), brought(5, 21, 10)
    elsewhere, before = filled(3, 15, 2), filled(3, 21, 2)
    assert len(sentences(told({1: [(3, 8)]} | whole(batches[1], elsewhere), *batches, elsewhere))) == 1
    assert len(sentences(told({5: [(23, 8)]} | whole(batches[0], before), *batches, before))) == 1


def test_rows_that_were_filled_in_and_are_gone_are_told():
    batch, fill = brought(1, 1, 10), filled(3, 15, 2)
    assert sentences(told(whole(batch) | {3: [(15, 1)]}, batch, fill)) == [
        "batch 3 added 2 rows, 1 of them are missing; replay 15 to 16"
    ]


# Rewinds


def rewound(after: int, rows: int, commit_id: int = 3) -> Rewind:
    return Rewind(commit_id, "a", (after, math.inf), rows)


def test_a_batch_after_a_rewind_is_due_to_be_gone():
    batches, again = (brought(1, 1, 10), brought(2, 11, 10)), brought(4, 11, 15)
    assert told(whole(batches[0], again), *batches, again, rewinds=[rewound(10, 10)]) == []


def test_a_rewind_to_the_beginning_takes_all_rows():
    assert told({}, brought(1, 1, 10), rewinds=[Rewind(3, "a", None, rows=10)]) == []


def test_a_batch_that_a_rewind_cut_is_proven_by_what_was_read_again():
    batches, again = (brought(1, 1, 10), brought(2, 11, 10)), (brought(4, 16, 2), brought(5, 18, 3))
    new = brought(6, 21, 4)
    found = whole(batches[0], *again, new) | {2: [(11, 5)]}
    assert told(found, *batches, *again, new, rewinds=[rewound(15, 5)]) == []


@pytest.mark.parametrize("left", [(11, 5), (16, 5)], ids=["as it should", "other rows"])
def test_what_a_rewind_took_of_a_batch_cannot_be_proven_by_their_number(left):
    batches, again = (brought(1, 1, 10), brought(2, 11, 10)), brought(4, 16, 8)
    ((sentence, certain),) = told(
        whole(batches[0], again) | {2: [left]}, *batches, again, rewinds=[rewound(15, 5)]
    )
    assert sentence.startswith(
        "batch 2 added 10 rows, 5 of them are missing: a seek removed rows after the position"
    )
    assert "cannot be proven" in sentence
    assert not certain


def test_ten_other_rows_than_a_rewind_took_are_not_proven():
    again = brought(4, 11, 10)
    ((_, certain),) = told(
        {1: [(11, 10)]} | whole(again), brought(1, 1, 20), again, rewinds=[rewound(10, 10)]
    )
    assert not certain


def test_more_rows_than_a_rewind_took_are_lost():
    batches, again = (brought(1, 1, 10), brought(2, 11, 10)), brought(4, 16, 8)
    found = whole(batches[0], again) | {2: [(11, 4)]}
    assert sentences(told(found, *batches, again, rewinds=[rewound(15, 5)])) == [
        "6 rows are missing, more than the 5 that seeks removed"
    ]


def test_a_rewind_explains_neither_a_batch_before_its_place_nor_one_that_came_later():
    batches, again = (brought(1, 1, 10), brought(2, 11, 10)), brought(4, 16, 8)
    found = {1: [(1, 9)], 2: [(11, 5)], 4: [(16, 7)]}
    lost = [
        sentence for sentence, certain in told(found, *batches, again, rewinds=[rewound(15, 5)]) if certain
    ]
    assert lost == [
        "batch 1 added 10 rows, 1 of them are missing; replay 1 to 10",
        "batch 4 added 8 rows, 1 of them are missing; replay 16 to 23",
    ]


def test_a_rewind_of_another_shard_explains_nothing():
    rewind = Rewind(3, "b", None, rows=5)
    assert len(sentences(told({1: [(1, 9)]}, brought(1, 1, 10), rewinds=[rewind]))) == 1
