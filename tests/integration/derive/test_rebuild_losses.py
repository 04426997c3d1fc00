"""A rebuild by policy loses nothing that the source no longer has; an explicit one says what it loses."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.losses import lost_rows
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import rebuild
from kinesis_assets.errors import SchemaChangeRefused, SourceRowsDeleted, TableRewritten
from support.derived import maintain_table, order
from support.formats import derived_at


def rebuilt(derived, *, apply=True):
    """Rebuild a table explicitly, as the command does."""
    derivation = derived.derivation
    table, source = derived_at(derived.table.uri), open_source(derivation.source)
    return rebuild(table, source, derivation.definition, (), by="ann", apply=apply)


def lost(derived):
    return lost_rows(open_source(derived.derivation.source), derived.table.snapshot().newest)


def state(derived):
    return derived.table.snapshot().delta.version(), derived.values("id")


@pytest.fixture
def expired(bench, derived):
    """The orders 0 and 1 were consumed and have expired; 2 was consumed, and is still in the source."""
    bench.set_retention(hours=200)
    for orders in ([order(0), order(1)], [order(2)]):
        bench.put(*orders)
        bench.run()
        bench.later(days=2)
        derived.run()
    maintain_table(bench, retention_days=3)
    return derived


def test_rows_that_expired_after_they_were_consumed_are_lost_and_those_that_are_not_consumed_yet_are_not(
    bench, expired
):
    assert (lost(expired), rebuilt(expired, apply=False).lost) == (2, 2)
    bench.put(order(3), order(4))
    bench.run()
    assert lost(expired) == 2


def test_a_policy_does_not_lose_rows_that_expired(bench, expired):
    bench.seek(f"AT_TIMESTAMP:{bench.now.date() - timedelta(days=3)}T00:00:00Z")
    before = state(expired)
    with pytest.raises(SourceRowsDeleted, match=r"no longer has 2 of the rows.*kinesis-assets rebuild"):
        expired.run(on_deleted=OnDeleted.REBUILD)
    assert state(expired) == before


def test_the_explicit_rebuild_loses_them(bench, expired):
    bench.put(order(3))
    bench.run()
    rebuilt(expired)
    assert expired.values("id") == []
    expired.run()
    assert (expired.values("id"), lost(expired)) == ([2, 3], 0)


def test_a_seek_back_loses_nothing_since_its_rows_are_read_again(bench, derived):
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    bench.put(order(3))
    bench.run()
    bench.seek("TRIM_HORIZON")
    assert lost(derived) == 0
    derived.run(on_deleted=OnDeleted.REBUILD)
    bench.run()
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [1, 2, 3]


def test_a_rebuild_says_how_many_rows_it_deleted(bench, derived):
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    bench.seek("TRIM_HORIZON")
    bench.run()
    rebuild, again = derived.run(on_deleted=OnDeleted.REBUILD)
    assert [(each.rows, each.deleted) for each in (rebuild, again)] == [(0, 2), (2, 0)]


def test_rows_that_another_program_deleted_are_lost(bench, derived):
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    DeltaTable(bench.table.uri).delete(f"data = CAST('{order(2).decode()}' AS BYTEA)")
    bench.seek("TRIM_HORIZON")
    bench.put(order(3))
    before = state(derived)
    with pytest.raises(SourceRowsDeleted, match=r"no longer has 1 of the rows"):
        derived.run(on_deleted=OnDeleted.REBUILD)
    assert state(derived) == before


def test_rows_that_a_replay_added_again_are_not_lost(bench, derived):
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    DeltaTable(bench.table.uri).delete(f"data = CAST('{order(2).decode()}' AS BYTEA)")
    assert lost(derived) == 1
    bench.replay("TRIM_HORIZON")
    assert lost(derived) == 0


def test_another_type_restarts_no_table_that_would_lose_rows(bench, expired):
    bench.put(order(3))
    bench.run()
    texts = replace(expired.derivation, transform=lambda new: new.selectExpr("'x' AS id"))
    expired.derivation = texts
    before = state(expired)
    with pytest.raises(SourceRowsDeleted, match=r"the column id has the type .* 2 of the rows"):
        expired.run(on_deleted=OnDeleted.REBUILD)
    with pytest.raises(SchemaChangeRefused, match="kinesis-assets rebuild"):
        expired.run()
    assert state(expired) == before
    rebuilt(expired)
    expired.run()
    assert expired.values("id") == ["x", "x"]


def test_a_restored_table_that_would_lose_rows_is_rebuilt_explicitly(expired):
    DeltaTable(expired.table.uri).restore(1)
    before = state(expired)
    for policy, refusal in ((OnDeleted.REBUILD, SourceRowsDeleted), (OnDeleted.FAIL, TableRewritten)):
        with pytest.raises(refusal, match="kinesis-assets rebuild"):
            expired.run(on_deleted=policy)
    assert state(expired) == before
    rebuilt(expired)
    expired.run()
    assert expired.values("id") == [2]


def test_the_explicit_rebuild_is_a_way_out_of_deleted_rows(bench, derived):
    bench.put(order(1))
    bench.run()
    derived.run()
    bench.seek("TRIM_HORIZON")
    bench.run()
    with pytest.raises(SourceRowsDeleted, match="kinesis-assets rebuild"):
        derived.run()
    rebuilt(derived)
    derived.run()
    assert derived.values("id") == [1]


def test_the_rows_of_the_history_are_counted_step_by_step(bench, derived):
    for number in range(3):
        bench.put(order(number), order(number))
        bench.run()
    DeltaTable(bench.table.uri).optimize.compact()
    bench.put(order(9))
    bench.run()
    assert [commit.consumed for commit in derived.steps(max_bytes=1)] == [6, 7]
    bench.put(order(10))
    bench.run()
    assert [commit.consumed for commit in derived.run()] == [8]


def test_a_table_below_one_that_replaces_rows_follows_its_rebuild(bench, derived, tmp_path):
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    derivation = replace(
        derived.derivation, source=derived.table.uri, transform=lambda new: new.select("id", "amount")
    )
    second = replace(derived, table=derived_at(str(tmp_path / "second")), derivation=derivation)
    second.run()
    rebuilt(derived)
    derived.run()
    second.run(on_deleted=OnDeleted.REBUILD)
    assert second.values("id") == [1, 2]
