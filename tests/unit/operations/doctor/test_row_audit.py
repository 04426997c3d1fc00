"""The audit of rows against commits: which differences are reported, and which are explained."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.doctor.finding import Level
from kinesis_assets.operations.doctor.history import CommittedRows, ExpectedRows, Rewind
from kinesis_assets.operations.doctor.row_audit import differences, unproven_rows
from kinesis_assets.operations.doctor.row_scan import Counted
from kinesis_assets.table.positions.range_stats import RangeStats
from support.mentions import assert_mentions, numbers

FLOOR = date(2026, 2, 1)


def checksum(first: int, rows: int) -> int:
    """A checksum of consecutive numbers, which differs for any other range of as many rows."""
    return sum(number**2 for number in range(first, first + rows))


def committed(batch_id: int, first: int, rows: int, arrived_from: date | None = None) -> CommittedRows:
    """A batch of shard a with consecutive sequence numbers, whose commit id is its batch id."""
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


def found_differences(counted, *each: CommittedRows, rewinds=(), floor=None) -> list[tuple[str, bool]]:
    """The sentences of the differences, and whether each is certain.

    Args:
        counted: The rows in the table by batch, as pairs of a first number and a number of rows.
        rewinds: The rewinds, which deleted rows.
        floor: The date before which rows have expired.
    """
    expected = ExpectedRows(each, rewinds, floor)
    found = {
        (batch_id, "a"): Counted(
            sum(rows for _, rows in pieces), sum(checksum(first, rows) for first, rows in pieces)
        )
        for batch_id, pieces in counted.items()
    }
    return [(each.sentence, each.level is Level.PROBLEM) for each in differences(expected, found)]


def complete(*each: CommittedRows) -> dict[int, list[tuple[int, int]]]:
    """Complete batches, as `counted`."""
    return {one.batch_id: [(one.stats.numbers[0], one.stats.rows)] for one in each}


def certain_sentences(found: list[tuple[str, bool]]) -> list[str]:
    """The sentences of differences, which must all be certain."""
    assert all(certain for _, certain in found)
    return [sentence for sentence, _ in found]


def assert_lost(sentence: str, *, batch: int, added: int, missing: int, replay: tuple[int, int]) -> None:
    """The sentence has these numbers and no others, and asks for the replay."""
    first, last = replay
    assert_mentions(
        sentence, f"batch {batch} ", f"{added} rows", f"{missing} of them", f"replay {first} to {last}"
    )
    assert numbers(sentence) == sorted([batch, added, missing, first, last])


def test_committed_rows_without_differences_are_accepted():
    batches = committed(1, 1, 10), committed(2, 11, 5)
    assert found_differences(complete(*batches), *batches) == []


def test_missing_rows_are_reported_with_the_range_to_replay():
    batches = committed(1, 1, 10), committed(2, 11, 5)
    (some,) = certain_sentences(found_differences({1: [(1, 10)], 2: [(11, 4)]}, *batches))
    assert_lost(some, batch=2, added=5, missing=1, replay=(11, 15))
    (all_,) = certain_sentences(found_differences({}, batches[0]))
    assert_lost(all_, batch=1, added=10, missing=10, replay=(1, 10))


def test_duplicate_rows_are_reported():
    (sentence,) = certain_sentences(found_differences({1: [(1, 10), (1, 10)]}, committed(1, 1, 10)))
    assert_mentions(sentence, "batch 1 ", "10 rows", "20 rows", "duplicates")


def test_rows_with_another_checksum_are_reported():
    ((sentence, certain),) = found_differences({1: [(2, 10)]}, committed(1, 1, 10))
    assert "checksum" in sentence
    assert certain


def test_rows_without_a_commit_are_reported():
    (sentence,) = certain_sentences(found_differences({1: [(1, 10)], 2: [(11, 3)]}, committed(1, 1, 10)))
    assert_mentions(sentence, "batch 2", "3 rows", "no commit")


def test_rows_of_commits_that_were_pruned_or_have_no_statistics_are_counted_separately():
    expected = ExpectedRows([committed(10, 1, 4)], unproven={11}, since=10)
    counted = {(9, "a"): Counted(3, 0), (10, "a"): Counted(4, checksum(1, 4)), (11, "a"): Counted(5, 0)}
    assert list(differences(expected, counted)) == []
    assert unproven_rows(expected, counted) == 8


# The floor


def test_a_missing_batch_completely_below_the_floor_is_accepted():
    each = replace(committed(1, 1, 10), arrived_through=date(2026, 1, 31))
    assert found_differences({}, each, floor=FLOOR) == []


@pytest.mark.parametrize(("lowered_at", "lost"), [(5, 0), (0, 1)])
def test_a_lowered_floor_explains_only_missing_rows_committed_before_it_was_lowered(lowered_at, lost):
    each = replace(committed(1, 1, 10), arrived_through=date(2026, 1, 31))
    expected = ExpectedRows([each], floor=date(2026, 1, 1), lowered=[(lowered_at, FLOOR)])
    assert len(list(differences(expected, {}))) == lost


@pytest.mark.parametrize("arrived_from", [None, date(2026, 1, 31), FLOOR])
def test_missing_rows_of_a_batch_across_the_floor_are_uncertain(arrived_from):
    each = replace(committed(1, 1, 10, arrived_from), arrived_through=FLOOR)
    ((sentence, certain),) = found_differences({1: [(8, 3)]}, each, floor=FLOOR)
    assert_mentions(sentence, "batch 1 ", "10 rows", "7 of them")
    assert not certain


def test_rows_that_arrived_after_the_floor_are_lost():
    found = found_differences({1: [(8, 3)]}, committed(1, 1, 10, date(2026, 2, 2)), floor=FLOOR)
    (sentence,) = certain_sentences(found)
    assert_lost(sentence, batch=1, added=10, missing=7, replay=(1, 10))


@pytest.mark.parametrize("arrived_from", [None, date(2026, 1, 31)])
def test_a_missing_batch_whose_last_row_is_not_below_the_floor_is_lost(arrived_from):
    each = replace(committed(1, 1, 10, arrived_from), arrived_through=FLOOR)
    assert len(certain_sentences(found_differences({}, each, floor=FLOOR))) == 1


def test_missing_rows_of_a_batch_across_the_floor_and_partly_replayed_are_uncertain():
    each = replace(committed(1, 1, 10), arrived_through=FLOOR)
    ((_, certain),) = found_differences({3: [(8, 3)]}, each, filled(3, 8, 3), floor=FLOOR)
    assert not certain


# Replays


def filled(commit_id: int, first: int, rows: int) -> CommittedRows:
    return replace(committed(commit_id, first, rows), filled=True)


def test_missing_rows_that_were_replayed_are_accepted():
    batches = committed(1, 1, 10), committed(2, 11, 10)
    fill = filled(3, 4, 2)
    assert found_differences({1: [(1, 3), (6, 5)]} | complete(batches[1], fill), *batches, fill) == []


def test_replayed_rows_that_were_lost_and_replayed_again_are_accepted():
    fill, again, once_more = filled(3, 4, 2), filled(4, 4, 2), filled(5, 5, 1)
    batch = {1: [(1, 3), (6, 5)]}
    assert found_differences(batch | complete(again), committed(1, 1, 10), fill, again) == []
    assert (
        found_differences(
            batch | {4: [(4, 1)]} | complete(once_more), committed(1, 1, 10), fill, again, once_more
        )
        == []
    )


def test_one_replay_of_missing_rows_of_two_batches_is_accepted():
    batches = committed(1, 1, 10), committed(2, 11, 10)
    fill = filled(3, 8, 6)
    found = {1: [(1, 7)], 2: [(14, 7)]}
    assert found_differences(found | complete(fill), *batches, fill) == []


def test_missing_rows_that_were_replayed_in_two_halves_are_accepted():
    fills = filled(3, 4, 2), filled(4, 6, 2)
    assert found_differences({1: [(1, 3), (8, 3)]} | complete(*fills), committed(1, 1, 10), *fills) == []


def test_missing_rows_of_which_half_was_replayed_are_reported():
    found = found_differences({1: [(1, 3), (6, 5)], 3: [(4, 1)]}, committed(1, 1, 10), filled(3, 4, 1))
    (sentence,) = certain_sentences(found)
    assert_lost(sentence, batch=1, added=10, missing=2, replay=(1, 10))


def test_a_replay_of_as_many_other_rows_does_not_explain_missing_rows():
    fill = filled(3, 6, 2)
    assert (
        len(
            certain_sentences(
                found_differences({1: [(1, 3), (6, 5)]} | complete(fill), committed(1, 1, 10), fill)
            )
        )
        == 1
    )


def test_missing_rows_within_a_larger_replay_are_uncertain():
    fill = filled(3, 10, 50)
    ((sentence, certain),) = found_differences({1: [(1, 5)]} | complete(fill), committed(1, 1, 10), fill)
    assert_mentions(sentence, "batch 1 ", "10 rows", "5 of them", "50 rows", "replay 1 to 10")
    assert not certain


def test_a_replay_that_explains_some_missing_rows_does_not_hide_others():
    batches = committed(1, 1, 60), committed(2, 61, 10)
    fill = filled(3, 1, 50), filled(4, 51, 15)
    found = {1: [(51, 10)], 2: [(61, 5)]}
    (sentence,) = certain_sentences(found_differences(found | complete(fill[0]), *batches, fill[0]))
    assert_lost(sentence, batch=2, added=10, missing=5, replay=(61, 70))
    uncertain = found_differences(found | complete(*fill), *batches, *fill)
    ((sentence, certain),) = uncertain
    assert ("batch 2 " in sentence, certain) == (True, False)


def test_rows_replayed_in_another_range_or_earlier_do_not_explain_missing_rows():
    batches = committed(1, 1, 10), committed(5, 21, 10)
    elsewhere, before = filled(3, 15, 2), filled(3, 21, 2)
    assert (
        len(
            certain_sentences(
                found_differences({1: [(3, 8)]} | complete(batches[1], elsewhere), *batches, elsewhere)
            )
        )
        == 1
    )
    assert (
        len(
            certain_sentences(
                found_differences({5: [(23, 8)]} | complete(batches[0], before), *batches, before)
            )
        )
        == 1
    )


def test_missing_replayed_rows_are_reported():
    batch, fill = committed(1, 1, 10), filled(3, 15, 2)
    (sentence,) = certain_sentences(found_differences(complete(batch) | {3: [(15, 1)]}, batch, fill))
    assert_lost(sentence, batch=3, added=2, missing=1, replay=(15, 16))


# Rewinds


def rewound(after: int, rows: int, commit_id: int = 3) -> Rewind:
    return Rewind(commit_id, "a", (after, math.inf), rows)


def test_a_missing_batch_that_a_rewind_deleted_is_accepted():
    batches, again = (committed(1, 1, 10), committed(2, 11, 10)), committed(4, 11, 15)
    assert found_differences(complete(batches[0], again), *batches, again, rewinds=[rewound(10, 10)]) == []


def test_a_rewind_to_the_beginning_explains_all_missing_rows():
    assert found_differences({}, committed(1, 1, 10), rewinds=[Rewind(3, "a", None, rows=10)]) == []


def test_missing_rows_of_a_batch_across_a_rewind_are_verified_by_the_rows_read_again():
    batches, again = (committed(1, 1, 10), committed(2, 11, 10)), (committed(4, 16, 2), committed(5, 18, 3))
    new = committed(6, 21, 4)
    found = complete(batches[0], *again, new) | {2: [(11, 5)]}
    assert found_differences(found, *batches, *again, new, rewinds=[rewound(15, 5)]) == []


@pytest.mark.parametrize("left", [(11, 5), (16, 5)], ids=["expected rows", "other rows"])
def test_missing_rows_of_a_batch_across_a_rewind_are_uncertain_by_number_alone(left):
    batches, again = (committed(1, 1, 10), committed(2, 11, 10)), committed(4, 16, 8)
    ((sentence, certain),) = found_differences(
        complete(batches[0], again) | {2: [left]}, *batches, again, rewinds=[rewound(15, 5)]
    )
    assert_mentions(sentence, "batch 2 ", "10 rows", "5 of them", "seek")
    assert not certain


def test_as_many_other_missing_rows_as_a_rewind_deleted_are_uncertain():
    again = committed(4, 11, 10)
    ((_, certain),) = found_differences(
        {1: [(11, 10)]} | complete(again), committed(1, 1, 20), again, rewinds=[rewound(10, 10)]
    )
    assert not certain


def test_more_missing_rows_than_a_rewind_deleted_are_lost():
    batches, again = (committed(1, 1, 10), committed(2, 11, 10)), committed(4, 16, 8)
    found = complete(batches[0], again) | {2: [(11, 4)]}
    (sentence,) = certain_sentences(found_differences(found, *batches, again, rewinds=[rewound(15, 5)]))
    assert numbers(sentence) == [5, 6]  # removed by seeks, missing


def test_a_rewind_explains_neither_rows_before_its_position_nor_later_batches():
    batches, again = (committed(1, 1, 10), committed(2, 11, 10)), committed(4, 16, 8)
    found = {1: [(1, 9)], 2: [(11, 5)], 4: [(16, 7)]}
    first, later = (
        sentence
        for sentence, certain in found_differences(found, *batches, again, rewinds=[rewound(15, 5)])
        if certain
    )
    assert_lost(first, batch=1, added=10, missing=1, replay=(1, 10))
    assert_lost(later, batch=4, added=8, missing=1, replay=(16, 23))


def test_a_rewind_of_another_shard_explains_nothing():
    rewind = Rewind(3, "b", None, rows=5)
    assert (
        len(certain_sentences(found_differences({1: [(1, 9)]}, committed(1, 1, 10), rewinds=[rewind]))) == 1
    )
