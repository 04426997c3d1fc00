"""Rows against what the commits say: which differences are told, and which are explained."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from kinesis_assets.kinesis.position import Position
from kinesis_assets.operations.row_proof import Accounts, Brought, Rewind, differences, unproven_rows
from kinesis_assets.spark.scan import Counted
from kinesis_assets.table.positions import Landed

FLOOR = date(2026, 2, 1)


def brought(batch_id: int, first: int, rows: int, arrived_from: date | None = None) -> Brought:
    """A batch of shard a, its sequence numbers consecutive; its token is its id."""
    landed = Landed(
        start=Position.after(str(first - 1)),
        through=Position.after(str(first + rows - 1)),
        first_sequence_number=str(first),
        last_sequence_number=str(first + rows - 1),
        rows=rows,
        bytes=rows,
        checksum=rows * 7,
    )
    return Brought(batch_id, batch_id, "a", landed, arrived_from)


def told(counted, *each: Brought, rewinds=(), floor=None, unproven=(), since=0) -> list[str]:
    accounts = Accounts(each, rewinds, floor, unproven, since)
    found = {(batch_id, "a"): Counted(rows, rows * 7) for batch_id, rows in counted.items()}
    return [sentence for _, sentence in differences(accounts, found)]


def test_rows_that_are_what_the_commits_brought_are_well():
    assert told({1: 10, 2: 5}, brought(1, 1, 10), brought(2, 11, 5)) == []


def test_rows_that_are_gone_are_told_with_the_range_to_replay():
    assert told({1: 10, 2: 4}, brought(1, 1, 10), brought(2, 11, 5)) == [
        "batch 2 brought 5 rows, 1 of them are gone; replay 11 to 15"
    ]
    assert told({}, brought(1, 1, 10)) == ["batch 1 brought 10 rows, 10 of them are gone; replay 1 to 10"]


def test_rows_that_are_there_twice_are_told():
    assert told({1: 20}, brought(1, 1, 10)) == [
        "batch 1 brought 10 rows, but 20 carry it: some are there twice"
    ]


def test_other_rows_than_those_that_were_brought_are_told():
    accounts = Accounts([brought(1, 1, 10)], (), None, (), 0)
    ((shard_id, sentence),) = differences(accounts, {(1, "a"): Counted(10, 71)})
    assert shard_id == "a"
    assert "their checksum differs" in sentence


def test_rows_that_nobody_brought_are_told():
    assert told({1: 10, 2: 3}, brought(1, 1, 10)) == [
        "batch 2: 3 rows, but no commit brought any of that shard"
    ]


def test_rows_of_commits_that_were_pruned_or_kept_no_proof_are_counted_apart():
    accounts = Accounts([brought(10, 1, 4)], (), None, {11}, since=10)
    counted = {(9, "a"): Counted(3, 0), (10, "a"): Counted(4, 28), (11, "a"): Counted(5, 0)}
    assert list(differences(accounts, counted)) == []
    assert unproven_rows(accounts, counted) == 8


@pytest.mark.parametrize(
    ("arrived_from", "explained"),
    [(None, True), (date(2026, 1, 31), True), (FLOOR, True), (date(2026, 2, 2), False)],
)
def test_the_tables_own_retention_explains_what_may_be_older_than_its_floor(arrived_from, explained):
    found = told({1: 3}, brought(1, 1, 10, arrived_from), floor=FLOOR)
    assert (found == []) is explained


def test_a_rewind_explains_the_rows_after_it_and_as_many_as_it_took():
    batches = brought(1, 1, 10), brought(2, 11, 10)
    rewind = Rewind(3, "a", (15, float("inf")), rows=5)
    again = brought(4, 16, 8)
    assert told({1: 10, 2: 5, 4: 8}, *batches, again, rewinds=[rewind]) == []
    assert told({1: 10, 2: 4, 4: 8}, *batches, again, rewinds=[rewind]) == [
        "6 rows are gone, more than the 5 that were taken out by hand"
    ]
    # Neither a batch that ended before it, nor one that came later.
    assert told({1: 9, 2: 5, 4: 7}, *batches, again, rewinds=[rewind]) == [
        "batch 1 brought 10 rows, 1 of them are gone; replay 1 to 10",
        "batch 4 brought 8 rows, 1 of them are gone; replay 16 to 23",
    ]


def filled(token: int, first: int, rows: int) -> Brought:
    return replace(brought(token, first, rows), filled=True)


def test_a_hole_that_was_filled_in_again_is_no_problem():
    batches = brought(1, 1, 10), brought(2, 11, 10)
    assert told({1: 8, 2: 10, 3: 2}, *batches, filled(3, 4, 2)) == []


def test_a_hole_that_was_filled_in_by_half_is_told():
    assert told({1: 8, 3: 1}, brought(1, 1, 10), filled(3, 4, 1)) == [
        "batch 1 brought 10 rows, 2 of them are gone; replay 1 to 10"
    ]


def test_rows_that_were_filled_in_elsewhere_or_before_fill_no_hole():
    batches = brought(1, 1, 10), brought(5, 21, 10)
    assert len(told({1: 8, 5: 10, 3: 2}, *batches, filled(3, 15, 2))) == 1
    assert len(told({1: 10, 5: 8, 3: 2}, *batches, filled(3, 21, 2))) == 1


def test_rows_that_were_filled_in_and_are_gone_are_told():
    assert told({1: 10, 3: 1}, brought(1, 1, 10), filled(3, 15, 2)) == [
        "batch 3 brought 2 rows, 1 of them are gone; replay 15 to 16"
    ]


def test_a_rewind_of_another_shard_explains_nothing():
    rewind = Rewind(3, "b", None, rows=5)
    assert len(told({1: 9}, brought(1, 1, 10), rewinds=[rewind])) == 1


def test_a_rewind_to_the_beginning_explains_all_rows():
    assert told({}, brought(1, 1, 10), rewinds=[Rewind(3, "a", None, rows=10)]) == []
