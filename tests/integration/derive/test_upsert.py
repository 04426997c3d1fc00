"""Derived tables with a key: of all rows with a key, only the newest stays."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from deltalake import DeltaTable

from kinesis_assets.derive.derivation import Upsert
from kinesis_assets.errors import TableUnsuitable
from support.derived import order
from support.formats import FORMAT

pytestmark = pytest.mark.any_format

DAY_1, DAY_2 = date(2026, 1, 1), date(2026, 1, 2)
BY_ID = Upsert(key=("id",), order_by=("amount",))


@pytest.fixture
def upserted(derived):
    """The newest order of each id, which is the one with the greatest amount."""
    derived.derivation = replace(derived.derivation, mode=BY_ID)
    return derived


def files_of(derived):
    """Return the paths of the files of the newest version."""
    return [file.path for file in derived.table.snapshot().data_files()]


def consume(bench, derived, *orders):
    bench.put(*orders)
    bench.run()
    return derived.run()


def test_of_the_new_rows_the_newest_of_each_key_stays(bench, upserted):
    consume(bench, upserted, order(1, 1.0), order(1, 3.0), order(1, 2.0), order(2, 1.0))
    assert upserted.values("id", "amount") == [(1, 3.0), (2, 1.0)]


@pytest.mark.usefixtures("compiled")
def test_a_newer_or_equal_row_replaces_the_one_in_the_table(bench, upserted):
    consume(bench, upserted, order(1, 1.0), order(2, 1.0), order(3, 1.0, item="first"))
    (commit,) = consume(bench, upserted, order(1, 2.0), order(3, 1.0, item="second"))
    assert upserted.values("id", "amount", "item") == [(1, 2.0, None), (2, 1.0, None), (3, 1.0, "second")]
    assert (commit.rows, commit.deleted) == (2, 2)


def test_an_older_row_replaces_none(bench, upserted):
    consume(bench, upserted, order(1, 2.0))
    files = files_of(upserted)
    (commit,) = consume(bench, upserted, order(1, 1.0))
    assert (commit.rows, upserted.values("id", "amount")) == (0, [(1, 2.0)])
    assert files_of(upserted) == files


def test_rows_without_a_key_are_all_kept(bench, upserted):
    consume(bench, upserted, order(None, 1.0), order(None, 1.0), order(1, 1.0))
    consume(bench, upserted, order(None, 2.0), order(1, 2.0))
    assert upserted.values("id", "amount") == [(1, 2.0), (None, 1.0), (None, 1.0), (None, 2.0)]


def test_only_files_with_one_of_the_keys_are_rewritten(bench, upserted):
    consume(bench, upserted, order(1, 1.0))
    (untouched,) = files_of(upserted)
    consume(bench, upserted, order(2, 1.0))
    (rewritten,) = {*files_of(upserted)} - {untouched}
    consume(bench, upserted, order(2, 2.0))
    assert untouched in files_of(upserted)
    assert rewritten not in files_of(upserted)


def test_rows_that_are_copied_keep_their_batch_id(bench, upserted):
    (first,) = consume(bench, upserted, order(1, 1.0), order(2, 1.0))
    (second,) = consume(bench, upserted, order(1, 2.0))
    assert upserted.values("id", "_batch_id") == [(1, second.batch_id), (2, first.batch_id)]


def test_a_row_of_delete_where_deletes_its_key(bench, upserted):
    deleting = replace(BY_ID, delete_where="deleted")
    upserted.derivation = replace(upserted.derivation, mode=deleting)
    consume(bench, upserted, order(1, 1.0), order(2, 1.0))
    consume(bench, upserted, order(1, 2.0, deleted=True))
    assert upserted.values("id") == [2]


def test_a_partition_column_in_the_key_limits_the_files_that_are_read(bench, derived):
    derived.derivation = replace(
        derived.derivation, mode=replace(BY_ID, key=("day", "id")), partition_by=("day",)
    )
    consume(bench, derived, order(1, 1.0, day="2026-01-01"), order(1, 1.0, day="2026-01-02"))
    consume(bench, derived, order(1, 2.0, day="2026-01-02"))
    assert derived.values("day", "amount") == [
        (DAY_1, 1.0),
        (DAY_2, 2.0),
    ]


def test_a_key_has_one_row_after_its_row_moved_to_another_partition(bench, derived):
    by = ("day(day)", "bucket(4, id)", "truncate(1, item)") if FORMAT == "iceberg" else ("day", "item")
    derived.derivation = replace(derived.derivation, mode=BY_ID, partition_by=by)
    consume(bench, derived, order(1, 1.0, day="2026-01-01", item="ab"), order(2, 1.0, day="2026-01-01"))
    consume(bench, derived, order(1, 2.0, day="2026-01-02", item="ab"), order(2, 0.5, day="2026-01-02"))
    assert derived.values("id", "day", "amount") == [(1, DAY_2, 2.0), (2, DAY_1, 1.0)]


@pytest.mark.delta
@pytest.mark.parametrize(
    "feature",
    ["delta.enableChangeDataFeed", "delta.appendOnly", "delta.enableDeletionVectors"],
)
def test_a_table_whose_files_cannot_be_replaced_is_refused(bench, upserted, feature):
    consume(bench, upserted, order(1, 1.0))
    DeltaTable(upserted.table.uri).alter.set_table_properties({feature: "true"})
    with pytest.raises(TableUnsuitable, match="replaced"):
        consume(bench, upserted, order(1, 2.0))
