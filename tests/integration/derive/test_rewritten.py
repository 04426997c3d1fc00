"""Derived tables that were restored or overwritten: their position is then ahead of their rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from kinesis_assets.derive.policy import OnDeleted
from kinesis_assets.errors import TableRewritten
from support.derived import order
from support.formats import derived_at


def restored(derived, version):
    DeltaTable(derived.table.uri).restore(version)


def overwritten(derived, _):
    write_deltalake(derived.table.uri, derived.rows.slice(0, 1), mode="overwrite")


def delete_log_entries(derived):
    """Delete the log entries before a new one, which changes no rows."""
    table = DeltaTable(derived.table.uri)
    table.create_checkpoint()
    entries = list(Path(derived.table.uri, "_delta_log").glob("*.json"))
    table.alter.set_table_properties({"delta.checkpointInterval": "50"})
    for entry in entries:
        entry.unlink()


@pytest.fixture
def consumed(bench, derived):
    """A derived table with the orders 1 and 2, each in a commit of its own, and the version of the first."""
    versions = []
    for number in (1, 2):
        bench.put(order(number))
        bench.run()
        derived.run()
        versions.append(derived.table.snapshot().delta.version())
    return versions[0]


@pytest.mark.parametrize("change", [restored, overwritten])
def test_a_rewritten_table_is_refused_until_it_is_rebuilt(bench, derived, consumed, change):
    change(derived, consumed)
    bench.put(order(3))
    bench.run()
    with pytest.raises(TableRewritten):
        derived.run()
    assert len(derived.values("id")) == 1
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [1, 2, 3]
    assert derived.run() == []


def test_a_restore_is_detected_by_the_rows_if_its_log_entry_was_deleted(derived, consumed):
    restored(derived, consumed)
    delete_log_entries(derived)
    with pytest.raises(TableRewritten):
        derived.run()


def test_deleted_log_entries_alone_are_no_rewrite(bench, derived, consumed):
    del consumed
    DeltaTable(derived.table.uri).optimize.compact()
    delete_log_entries(derived)
    bench.put(order(3))
    bench.run()
    derived.run()
    assert derived.values("id") == [1, 2, 3]


def test_a_restored_table_is_not_consumed(derived, consumed, tmp_path):
    derivation = replace(derived.derivation, source=derived.table.uri, transform=lambda new: new.select("id"))
    second = replace(derived, table=derived_at(str(tmp_path / "second")), derivation=derivation)
    second.run()
    restored(derived, consumed)
    with pytest.raises(TableRewritten):
        second.run()
