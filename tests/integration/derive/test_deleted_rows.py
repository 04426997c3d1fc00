"""Rows that are deleted from the source: a declared policy applies, never silence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets import new_rows
from kinesis_assets.derive.policy import DeletedRows, Deletion, OnDeleted
from kinesis_assets.errors import SourceRowsDeleted, SourceRowsMissing, TableUnsuitable
from support.derived import maintain_table, order
from support.formats import derived_rows
from support.shifted_clock import ShiftedClock


@pytest.fixture
def rewound(bench, derived):
    """Two orders were consumed; then the stream's position was set back, and they are read again."""
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    bench.seek("TRIM_HORIZON")
    bench.run()


@pytest.mark.usefixtures("rewound")
def test_deleted_rows_fail_the_run_by_default_and_change_nothing(derived):
    before = derived.table.snapshot().delta.version()
    with pytest.raises(SourceRowsDeleted):
        derived.run()
    assert (derived.table.snapshot().delta.version(), derived.values("id")) == (before, [1, 2])


@pytest.mark.usefixtures("rewound")
def test_deleted_rows_are_kept_if_they_are_ignored(derived):
    derived.run(on_deleted=OnDeleted.IGNORE)
    assert derived.values("id") == [1, 1, 2, 2]


@pytest.mark.usefixtures("rewound")
def test_a_rebuild_starts_again_with_the_rows_that_the_source_has(derived):
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [1, 2]


@pytest.mark.usefixtures("rewound")
def test_nothing_is_deleted_before_the_source_was_read_a_second_time(derived):
    class Observing(ShiftedClock):
        def sleep(self, seconds):
            self.passed += seconds
            found.append(derived.values("id"))

    found = []
    derived.table.policy = replace(derived.table.policy, clock=Observing())
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert found == [[1, 2]]


@pytest.mark.usefixtures("rewound")
def test_a_rebuild_ends_after_one_rebuild(bench, derived):
    derived.run(on_deleted=OnDeleted.REBUILD)
    bench.put(order(3))
    bench.run()
    (commit,) = derived.run(on_deleted=OnDeleted.REBUILD)
    assert (commit.rows, commit.deleted) == (1, 0)


@pytest.fixture
def vanished(bench, derived):
    """Of two orders that were not consumed, another program has deleted one."""
    bench.put(order(1))
    bench.run()
    derived.run()
    bench.put(order(2), order(3))
    bench.run()
    DeltaTable(bench.table.uri).delete(f"data = CAST('{order(3).decode()}' AS BYTEA)")


@pytest.mark.usefixtures("vanished")
@pytest.mark.parametrize("policy", [OnDeleted.FAIL, OnDeleted.IGNORE])
def test_rows_that_vanished_without_an_amendment_fail_the_run(derived, policy):
    with pytest.raises(SourceRowsMissing):
        derived.run(on_deleted=policy)


@pytest.mark.usefixtures("vanished")
def test_a_rebuild_starts_again_without_the_rows_that_vanished(derived):
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [1, 2]


@pytest.mark.parametrize("policy", OnDeleted)
def test_rows_that_another_program_duplicated_fail_the_run(bench, derived, policy):
    bench.run()
    derived.run()
    bench.put(order(1))
    bench.run()
    rows = derived_rows(bench.table)
    write_deltalake(bench.table.uri, rows, mode="append")
    with pytest.raises(TableUnsuitable, match=r"\b1 rows\b.*\b2\b"):
        derived.run(on_deleted=policy)


def test_rows_that_expired_after_they_were_consumed_stay(bench, derived):
    bench.set_retention(hours=100)
    bench.put(order(1))
    bench.run()
    derived.run()
    bench.later(days=3)
    maintain_table(bench, retention_days=1)
    bench.put(order(2))
    bench.run()
    derived.run()
    assert derived.values("id") == [1, 2]


def test_rows_that_expired_before_they_were_consumed_fail_the_run(bench, derived):
    bench.run()
    derived.run()
    bench.put(order(1))
    bench.run()
    bench.later(days=3)
    maintain_table(bench, retention_days=1)
    with pytest.raises(SourceRowsDeleted):
        derived.run()


def days(bench, derived):
    """Put an order on each of three days, of which the first run consumes the first, one day a step."""
    bench.set_retention(hours=200)
    for number in range(3):
        bench.put(order(number))
        bench.run()
        bench.later(days=1)
    return derived.steps(max_bytes=1)


def test_rows_that_expire_during_the_history_after_they_were_consumed_stay(bench, derived):
    steps = days(bench, derived)
    next(steps)
    maintain_table(bench, retention_days=2)
    assert [commit.rows for commit in steps] == [1, 1]
    assert derived.values("id") == [0, 1, 2]


def test_rows_that_expire_during_the_history_before_they_were_consumed_fail_the_run(bench, derived):
    steps = days(bench, derived)
    next(steps)
    maintain_table(bench, retention_days=1)
    with pytest.raises(SourceRowsDeleted, match=r"\barrived before \d{4}-"):
        next(steps)
    assert derived.values("id") == [0]
    derived.run(on_deleted=OnDeleted.IGNORE)
    assert derived.values("id") == [0, 2]


# What is given up is recorded


@pytest.fixture
def expired(bench, derived):
    """One order was consumed; another expired before it was consumed, and its day is the floor's."""
    bench.set_retention(hours=200)
    bench.put(order(0))
    bench.run()
    derived.run()
    bench.put(order(1))
    bench.run()
    bench.later(days=3)
    maintain_table(bench, retention_days=1)


@pytest.mark.usefixtures("expired")
def test_rows_that_expired_unconsumed_are_recorded_if_they_are_ignored(bench, derived):
    batch_id = new_rows(bench.table.uri, derived.table.snapshot().newest.cursor).lost[0].batch_id
    (commit,) = derived.run(on_deleted=OnDeleted.IGNORE)
    lost = DeletedRows(deletion=Deletion.EXPIRED, rows=1, batch_id=batch_id, before=bench.amendment.floor)
    assert (commit.on_deleted, commit.given_up) == (OnDeleted.IGNORE, (lost,))
    assert derived.table.snapshot().newest == commit
    assert derived.run() == []


@pytest.mark.usefixtures("rewound")
def test_a_rebuild_records_why_and_how_many_rows_it_deleted(derived):
    emptied, filled = derived.run(on_deleted=OnDeleted.REBUILD)
    assert {each.deletion for each in emptied.given_up} == {Deletion.REWOUND}
    assert (emptied.on_deleted, emptied.deleted) == (OnDeleted.REBUILD, 2)
    assert (filled.on_deleted, filled.given_up) == (None, ())


def test_rows_that_expired_during_the_history_are_recorded(bench, derived):
    steps = days(bench, derived)
    next(steps)
    maintain_table(bench, retention_days=1)
    commits = derived.run(on_deleted=OnDeleted.IGNORE)
    assert {lost.before for commit in commits for lost in commit.given_up} == {bench.amendment.floor}


@pytest.mark.usefixtures("expired")
@pytest.mark.parametrize("policy", [OnDeleted.FAIL, OnDeleted.IGNORE])
def test_the_expiry_of_one_batch_excuses_no_missing_row_of_another(bench, derived, policy):
    bench.put(order(2), order(3))
    bench.run()
    bench.delta.delete(f"data = CAST('{order(3).decode()}' AS BYTEA)")
    with pytest.raises(SourceRowsMissing):
        derived.run(on_deleted=policy)


def test_a_seek_back_excuses_no_missing_row_of_another_shard(bench, derived):
    first, second = bench.split(bench.shard_ids[0])
    for _ in range(2):  # the parent first
        bench.run()
    derived.run()
    bench.put(order(1), shard_id=first)
    bench.put(order(2), shard_id=second)
    bench.run()
    bench.delta.delete(f"shard_id = '{first}'")
    bench.seek("TRIM_HORIZON", second)
    with pytest.raises(SourceRowsMissing):
        derived.run(on_deleted=OnDeleted.IGNORE)
