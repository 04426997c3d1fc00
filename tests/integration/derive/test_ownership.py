"""A derived table has one owner and one definition, and a position for its rows. Anything else is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.derive.derivation import Rollup, Upsert
from kinesis_assets.derive.derived_source import open_source
from kinesis_assets.derive.derived_table import SOURCE_PROPERTY
from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.derive.rebuild import rebuild, take_over
from kinesis_assets.errors import (
    InvalidInput,
    PositionsMissing,
    PositionsUnreadable,
    TableOfAnotherSource,
    TableUnsuitable,
)
from support.derived import order
from support.formats import derived_at

BY_ID = Upsert(key=("id",), order_by=("amount",))


def rebuilt(derived, *, apply=True):
    """Rebuild a table explicitly, as the command does."""
    table, derivation = derived_at(derived.table.uri), derived.derivation
    source = open_source(derivation.source)
    return rebuild(table, source, derivation.definition, derivation.partition_by, by="ann", apply=apply)


def defined(derived, **changes):
    """The same table with another derivation, as another process runs it."""
    return replace(
        derived,
        table=derived_at(derived.table.uri),
        derivation=replace(derived.derivation, **changes),
    )


def state(derived):
    snapshot = derived_at(derived.table.uri).snapshot()
    return snapshot.delta.version(), snapshot.commit_id, derived.values("id")


@pytest.fixture
def owned(bench, derived):
    """A table of the asset orders with the rows 1 and 2, upserted by their id. The source has a new row."""
    bench.put(order(1), order(2))
    bench.run()
    owned = defined(derived, owner="orders", mode=BY_ID)
    owned.run()
    bench.put(order(3))
    bench.run()
    return owned


def test_the_table_of_another_asset_is_refused_with_both_names(owned):
    before = state(owned)
    with pytest.raises(TableOfAnotherSource, match=r"orders.*\bcopies\b.*--take-over"):
        defined(owned, owner="copies").run(on_deleted=OnDeleted.REBUILD)
    assert state(owned) == before


@pytest.mark.parametrize(
    ("mode", "old", "new"),
    [
        (None, r"upsert with key: \[id\]", "append"),
        (Upsert(("id", "day"), ("amount",)), r"\[id\]", r"upsert with key: \[id, day\]"),
        (Rollup(("id",)), "upsert", r"roll-up with by: \[id\]"),
    ],
    ids=["append", "another key", "roll-up"],
)
@pytest.mark.parametrize(
    "policy",
    [pytest.param(each, marks=() if each is OnDeleted.FAIL else pytest.mark.thorough) for each in OnDeleted],
)
def test_another_definition_is_refused_with_old_and_new(owned, mode, old, new, policy):
    before = state(owned)
    with pytest.raises(TableUnsuitable, match=rf"{old}.*{new}.*kinesis-assets rebuild"):
        defined(owned, mode=mode).run(on_deleted=policy)
    assert state(owned) == before


def test_the_order_of_the_key_and_what_decides_about_later_rows_may_change(bench, derived):
    key = Upsert(("id", "item"), ("amount",))
    bench.put(order(1, item="a"))
    bench.run()
    defined(derived, mode=key).run()
    bench.put(order(1, 2.0, item="a"), order(2, item="b", deleted=True))
    bench.run()
    defined(derived, mode=Upsert(("item", "id"), ("day", "amount"), "deleted")).run()
    assert derived.values("id", "amount") == [(1, 2.0)]


def test_an_explicit_rebuild_accepts_another_owner_and_another_definition(owned):
    other = defined(owned, owner="copies", mode=None)
    planned = rebuilt(other, apply=False)
    assert (planned.rows, planned.lost, str(planned.recorded), planned.recorded.owner) == (
        *(2, 0),
        *("upsert with key: [id]", "orders"),
    )
    rebuilt(other)
    other.run()
    assert owned.values("id") == [1, 2, 3]
    with pytest.raises(TableOfAnotherSource):
        owned.run()


def test_a_renamed_asset_takes_over_the_table_with_its_rows(owned):
    renamed = defined(owned, owner="shop/orders")
    definition = renamed.derivation.definition
    assert take_over(derived_at(owned.table.uri), definition, by="ann", apply=False).commit is None
    with pytest.raises(TableOfAnotherSource):
        renamed.run()
    take_over(derived_at(owned.table.uri), definition, by="ann", apply=True)
    (commit,) = defined(renamed).run()
    assert (commit.rows, commit.definition.owner, owned.values("id")) == (1, "shop/orders", [1, 2, 3])


def test_only_the_owner_is_taken_over(owned):
    before = state(owned)
    renamed = defined(owned, owner="shop/orders", mode=None).derivation.definition
    with pytest.raises(TableUnsuitable):
        take_over(derived_at(owned.table.uri), renamed, by="ann", apply=True)
    with pytest.raises(InvalidInput):
        take_over(derived_at(owned.table.uri), owned.derivation.definition, by="ann", apply=True)
    assert state(owned) == before


def test_a_table_that_records_none_is_taken_over_by_its_next_commit(bench, derived, monkeypatch):
    bench.put(order(1))
    bench.run()
    from kinesis_assets.derive import commit as commits  # noqa: PLC0415

    real = commits.DerivedCommit
    monkeypatch.setattr(commits, "DerivedCommit", lambda **fields: real(**fields | {"definition": None}))
    defined(derived, owner="orders").run()
    monkeypatch.undo()
    assert derived.table.snapshot().newest.definition is None
    bench.put(order(2))
    bench.run()
    defined(derived, owner="orders").run()
    with pytest.raises(TableOfAnotherSource):
        defined(derived, owner="copies").run()


def test_a_run_without_an_asset_keeps_the_owner(owned):
    (commit,) = defined(owned, owner=None).run()
    assert commit.definition.owner == "orders"


# Rows without a position


@pytest.fixture
def copied(bench, derived, tmp_path):
    """A copy of a derived table with its rows and properties, as CREATE TABLE LIKE and INSERT make."""
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    original = DeltaTable(derived.table.uri)
    write_deltalake(tmp_path / "copy", original.to_pyarrow_table())
    properties = original.metadata().configuration
    DeltaTable(tmp_path / "copy").alter.set_table_properties(properties, raise_if_not_exists=False)
    return replace(derived, table=derived_at(str(tmp_path / "copy")))


@pytest.mark.parametrize("policy", OnDeleted)
def test_rows_without_a_position_are_refused(copied, policy):
    assert SOURCE_PROPERTY in DeltaTable(copied.table.uri).metadata().configuration
    before = state(copied)
    with pytest.raises(PositionsMissing, match="kinesis-assets rebuild"):
        copied.run(on_deleted=policy)
    assert state(copied) == before


def test_rows_without_a_position_are_deleted_by_an_explicit_rebuild(copied):
    assert rebuilt(copied, apply=False).rows == 2
    rebuilt(copied)
    copied.run()
    assert copied.values("id") == [1, 2]


def test_rows_without_a_position_are_not_consumed(copied, tmp_path):
    derivation = replace(copied.derivation, source=copied.table.uri, transform=lambda new: new.select("id"))
    with pytest.raises(PositionsMissing, match="kinesis-assets rebuild"):
        replace(copied, table=derived_at(str(tmp_path / "below")), derivation=derivation).run()


def missing(path):
    path.unlink()


def damaged(path):
    path.write_bytes(path.read_bytes()[:-20])


@pytest.mark.parametrize("loss", [missing, damaged])
def test_a_lost_record_is_refused_until_the_table_is_rebuilt(bench, derived, tmp_path, loss):
    bench.put(order(1), order(2))
    bench.run()
    derived.run()
    loss(next(tmp_path.glob("orders/_kinesis/derived/*.json")))
    again = defined(derived)
    before = state(again)
    with pytest.raises(PositionsUnreadable, match="kinesis-assets rebuild"):
        again.run(on_deleted=OnDeleted.REBUILD)
    planned = rebuilt(again, apply=False)
    assert state(again) == before
    assert (planned.rows, planned.lost) == (2, None)
    assert "_kinesis/derived" in planned.unreadable
    rebuilt(again)
    defined(derived).run()
    assert derived.values("id") == [1, 2]
