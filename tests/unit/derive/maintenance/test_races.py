"""Compaction of a derived table during upserts, appends, rebuilds and other compactions.

delta-rs alone accepts commits that double rows, so each order of the two commits is tested.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable, write_deltalake

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.derive import maintenance
from kinesis_assets.derive.derived_table import DerivedSnapshot
from kinesis_assets.derive.maintenance import compact_partition
from kinesis_assets.errors import CommitFailed, UpsertOvertaken
from kinesis_assets.table.maintenance.steps import State
from support.plain_derived import steps_of

pytestmark = pytest.mark.slow

A = "part=a"


def upserted(rows, *new):
    """Return rows after an upsert."""
    keys = {key for key, _, _ in new}
    return sorted([*(row for row in rows.elements() if row[0] not in keys), *new])


def test_an_upsert_that_was_planned_before_a_compaction_is_refused(busy):
    rows = busy.rows
    commit = busy.planned([(1, 7, "a")], replacing=True)
    compact_partition(busy.table, A)
    with pytest.raises(UpsertOvertaken):
        commit()
    assert busy.rows == rows
    busy.upsert((1, 7, "a"))
    assert sorted(busy.rows.elements()) == upserted(rows, (1, 7, "a"))


def test_an_upsert_that_was_planned_before_compactions_of_other_files_lands(busy):
    rows = busy.rows
    commit = busy.planned([(100, 7, "b"), (300, 7, "a")], replacing=True)
    compact_partition(busy.table, A)
    commit()
    assert sorted(busy.rows.elements()) == upserted(rows, (100, 7, "b"), (300, 7, "a"))


@pytest.mark.parametrize(
    "change",
    [
        lambda delta: write_deltalake(delta, delta.to_pyarrow_table().slice(0, 1), mode="append"),
        lambda delta: delta.delete("key = 0"),
        lambda delta: delta.alter.set_table_properties({"delta.checkpointInterval": "7"}),
    ],
    ids=["append", "deletion", "properties"],
)
def test_an_upsert_that_was_planned_before_another_change_of_the_table_is_refused(busy, change):
    commit = busy.planned([(100, 7, "b")], replacing=True)
    compact_partition(busy.table, A)
    change(DeltaTable(busy.table.uri))
    rows = busy.rows
    with pytest.raises(UpsertOvertaken):
        commit()
    assert busy.rows == rows


@pytest.mark.parametrize("moment", ["check_files", "replace"])
def test_a_compaction_is_refused_after_an_upsert_of_its_files_came_first(busy, when, moment):
    rows = busy.rows
    owner = maintenance if moment == "check_files" else DerivedSnapshot
    when(owner, moment, lambda: busy.upsert((1, 7, "a")))
    with pytest.raises(CommitFailed, match="another commit"):
        compact_partition(busy.table, A)
    assert sorted(busy.rows.elements()) == upserted(rows, (1, 7, "a"))


@pytest.mark.parametrize("moment", ["check_files", "replace"])
def test_a_compaction_lands_after_rows_were_appended(busy, when, moment):
    """A table with new rows every few seconds is compacted nevertheless."""
    rows = busy.rows
    owner = maintenance if moment == "check_files" else DerivedSnapshot
    when(owner, moment, lambda: busy.append((200, 200, "a")))
    compact_partition(busy.table, A)
    assert sorted(busy.rows.elements()) == upserted(rows, (200, 200, "a"))
    assert len(busy.active) == 3


def test_an_append_that_was_written_before_a_compaction_lands_after_it(busy):
    rows = busy.rows
    commit = busy.planned([(200, 200, "a")])
    compact_partition(busy.table, A)
    commit()
    assert sorted(busy.rows.elements()) == upserted(rows, (200, 200, "a"))


@pytest.mark.parametrize("moment", ["check_files", "replace"])
def test_of_two_compactions_of_the_same_files_one_lands(busy, when, moment):
    rows = busy.rows
    owner = maintenance if moment == "check_files" else DerivedSnapshot
    when(owner, moment, lambda: compact_partition(busy.table, A))
    with pytest.raises(CommitFailed):
        compact_partition(busy.table, A)
    assert (busy.rows, len(busy.active)) == (rows, 2)


def test_a_compaction_does_not_restore_the_rows_of_a_table_that_is_rebuilt(busy, when):
    when(DerivedSnapshot, "replace", busy.rebuild)
    with pytest.raises(CommitFailed):
        compact_partition(busy.table, A)
    assert not busy.rows


def test_a_compaction_whose_response_is_lost_is_not_repeated(busy, when):
    def lost():
        raise OSError("connection reset")

    rows = busy.rows
    when(DerivedSnapshot, "replace", lost, after=True)
    compact_partition(busy.table, A)
    assert (busy.rows, len(busy.active)) == (rows, 2)


def test_a_compaction_whose_request_fails_is_tried_again(busy, when):
    def failed():
        raise OSError("connection refused")

    rows = busy.rows
    when(DerivedSnapshot, "replace", failed)
    compact_partition(busy.table, A)
    assert (busy.rows, len(busy.active)) == (rows, 2)


@pytest.mark.slow
def test_a_compaction_that_keeps_losing_is_left(busy, monkeypatch):
    real, values = DerivedSnapshot.replace, iter(range(1, 100))

    def overtaken(snapshot, added, removed):
        busy.upsert((0, next(values), "a"))
        real(snapshot, added, removed)

    monkeypatch.setattr(DerivedSnapshot, "replace", overtaken)
    step = steps_of(busy)["compact", A]
    assert step.state is State.LEFT
    assert "another commit" in step.reason
    assert len(busy.rows) == 5


@pytest.mark.slow
def test_concurrent_maintenance_and_commits_double_no_rows(busy):
    def write(first):
        for number in range(first, first + 10):
            busy.append((number, 0, "a"))

    def upsert():
        for number in range(10):
            try:
                busy.upsert((0, number, "a"))
            except UpsertOvertaken:  # a run plans it again
                continue

    rows = sorted(busy.rows.elements())
    with ThreadPoolExecutor(3) as pool:
        maintenances = [pool.submit(steps_of, busy) for _ in range(2)]
        writer = pool.submit(write, 1000)
        for each in [*maintenances, writer]:
            each.result(timeout=SECONDS)
    new = [(number, 0, "a") for number in range(1000, 1010)]
    assert sorted(busy.rows.elements()) == [*rows, *new]
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(steps_of, busy), pool.submit(upsert)]:
            each.result(timeout=SECONDS)
    keys = sorted(key for key, _, _ in busy.rows.elements())
    assert keys == sorted({key for key, _, _ in [*rows, *new]})
