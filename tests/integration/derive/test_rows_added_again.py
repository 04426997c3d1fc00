"""Rows that a recovery of the raw table adds again are not added twice to a table that consumed them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from kinesis_assets.derive.derivation import Rollup, Upsert
from kinesis_assets.derive.policy import Deletion, OnDeleted
from kinesis_assets.errors import SourceRowsDeleted, SourceRowsMissing
from kinesis_assets.operations.catch_up import jump
from kinesis_assets.table.maintenance.retention import expire, lower_floor
from support.catch_ups import fill_gaps
from support.derived import order
from support.formats import delete

pytestmark = pytest.mark.any_format


def land(bench, *orders_):
    if orders_:
        bench.put(*orders_)
    bench.run()


def restore_and_replay(bench, version):
    """Recover from a restore as docs/recovery.md says."""
    bench.restore(version)
    bench.replay()
    bench.adopt()


def recover_from_restore(bench, derived):
    version = bench.version
    land(bench, order(1), order(2))
    derived.run()
    restore_and_replay(bench, version)


def recover_from_delete(bench, derived):
    land(bench, order(1), order(2))
    derived.run()
    delete(bench.table, "sub_sequence_number >= 0")
    bench.replay()


def recover_from_retention(bench, derived):
    bench.set_retention(hours=100)
    land(bench, order(1), order(2))
    derived.run()
    expire_and_replay(bench)


def expire_and_replay(bench):
    """Let the table's rows expire, and then add them again as docs/maintenance.md says."""
    bench.later(days=2)
    identity, today = bench.positions.identity, bench.now.date()
    list(expire(bench.table, identity, today - timedelta(days=1), bench.now))
    lower_floor(bench.table, identity, today - timedelta(days=3), bench.now)
    bench.replay()


RECOVERIES = [recover_from_restore, recover_from_delete, recover_from_retention]


@pytest.fixture(params=RECOVERIES, ids=lambda recovery: recovery.__name__)
def recovered(request, bench, derived):
    """An order was consumed, then two others, which the raw table lost and has again."""
    land(bench, order(0))
    derived.run()
    request.param(bench, derived)


@pytest.mark.usefixtures("recovered")
def test_a_recovery_doubles_no_row_and_what_was_left_out_is_recorded(bench, derived):
    with pytest.raises(SourceRowsDeleted, match=rf"{bench.shard_ids[0]}.*on_deleted"):
        derived.run()
    assert derived.values("id") == [0, 1, 2]
    added = bench.arrow("batch_id")["batch_id"].to_pylist()
    land(bench, order(3))
    (commit,) = derived.run(on_deleted=OnDeleted.IGNORE)
    assert derived.values("id") == [0, 1, 2, 3]
    assert commit == derived.table.snapshot().newest
    assert (commit.rows, commit.on_deleted) == (1, OnDeleted.IGNORE)
    (given_up,) = commit.given_up
    assert given_up.deletion is Deletion.ADDED_AGAIN
    assert given_up.rows == added.count(given_up.batch_id) > 1
    assert derived.run() == []


@pytest.mark.usefixtures("recovered")
def test_a_rebuild_after_a_recovery_has_each_row_once(derived):
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [0, 1, 2]


def test_rows_of_a_replay_that_a_restore_moved_back_to_their_first_batch_need_a_rebuild(bench, derived):
    land(bench, order(0))
    derived.run()
    land(bench, order(1))
    version = bench.version
    delete(bench.table, "sub_sequence_number >= 0")
    bench.replay()
    restore_and_replay(bench, version)
    with pytest.raises(SourceRowsMissing):
        derived.run(on_deleted=OnDeleted.IGNORE)
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [0, 1]


@pytest.fixture
def brought_back(bench, derived):
    """An order that was deleted before the table consumed the other one, and that a restore brought back."""
    land(bench, order(1), order(2))
    version = bench.version
    delete(bench.table, "sequence_number = '{}'".format(bench.rows[1]["sequence_number"]))
    derived.run()
    restore_and_replay(bench, version)


@pytest.mark.usefixtures("brought_back")
def test_rows_that_a_restore_brings_back_fail_the_run(derived):
    with pytest.raises(SourceRowsDeleted, match="1 rows, which were deleted and added again"):
        derived.run()
    assert derived.values("id") == [1]


@pytest.mark.usefixtures("brought_back")
def test_rows_that_a_restore_brings_back_are_consumed_by_a_rebuild(derived):
    derived.run(on_deleted=OnDeleted.REBUILD)
    assert derived.values("id") == [1, 2]


@pytest.mark.usefixtures("brought_back")
def test_rows_that_a_restore_brings_back_are_given_up_once_if_they_are_ignored(derived):
    (commit,) = derived.run(on_deleted=OnDeleted.IGNORE)
    assert [(each.deletion, each.rows) for each in commit.given_up] == [(Deletion.ADDED_AGAIN, 1)]
    assert derived.run() == []


def test_keys_that_an_upsert_deleted_do_not_come_back(bench, derived):
    upsert = Upsert(key=("id",), order_by=("amount",), delete_where="deleted")
    derived.derivation = replace(derived.derivation, mode=upsert)
    land(bench, order(1, 1.0), order(2, 1.0))
    derived.run()
    land(bench, order(1, 2.0, deleted=True))
    derived.run()
    delete(bench.table, "sequence_number = '{}'".format(bench.rows[0]["sequence_number"]))
    bench.replay()
    derived.run(on_deleted=OnDeleted.IGNORE)
    assert derived.values("id", "amount") == [(2, 1.0)]


def count(rows):
    return rows.groupBy("arrival_date").agg(F.count("*").alias("orders"))


def test_a_roll_up_counts_each_row_once_and_asks_nothing(bench, derived):
    derived.derivation = replace(derived.derivation, mode=Rollup(("arrival_date",)), transform=count)
    land(bench, order(0))
    version = bench.version
    land(bench, order(1), order(2))
    derived.run()
    restore_and_replay(bench, version)
    derived.run()
    assert derived.values("orders") == [3]


# Rows that were provably never consumed


def test_rows_that_were_lost_before_they_were_consumed_are_added(bench, derived):
    land(bench, order(0))
    derived.run()
    version = bench.version
    land(bench, order(1))
    land(bench, order(2))
    restore_and_replay(bench, version)
    derived.run(max_bytes=1)
    assert derived.values("id") == [0, 1, 2]


def test_rows_that_were_lost_from_a_batch_are_added_in_the_step_of_the_batch(bench, derived):
    land(bench, order(0))
    derived.run()
    land(bench, order(1), order(2))
    delete(bench.table, f"sequence_number = '{bench.rows[1]['sequence_number']}'")
    land(bench, order(3))
    bench.replay()
    (commit,) = derived.run(max_bytes=1)
    assert derived.values("id") == [0, 1, 2, 3]
    assert (commit.rows, commit.given_up) == (3, ())


def test_of_the_rows_of_one_recovery_only_those_that_the_table_lacks_are_added(bench, derived):
    land(bench, order(0))
    version = bench.version
    land(bench, order(1))
    derived.run()
    land(bench, order(2))
    restore_and_replay(bench, version)
    with pytest.raises(SourceRowsDeleted):
        derived.run()
    (commit,) = derived.run(on_deleted=OnDeleted.IGNORE)
    assert derived.values("id") == [0, 1, 2]
    assert [each.rows for each in commit.given_up] == [1]


def skip_order(bench):
    """Skip an order by a catch-up, and land another one."""
    bench.put(order(1))
    bench.later(hours=1)
    bench.put(order(2))
    jump(bench.client, bench.table, by="ann", apply=True)
    bench.later(seconds=5)
    bench.run()


def test_the_records_of_a_catch_up_are_added(bench, derived):
    land(bench, order(0))
    derived.run()
    skip_order(bench)
    fill_gaps(bench)
    land(bench, order(3))
    derived.run()
    assert derived.values("id") == [0, 1, 2, 3]


def test_the_records_that_a_catch_up_adds_after_its_gap_was_consumed_are_added(bench, derived):
    land(bench, order(0))
    skip_order(bench)
    derived.run()
    assert derived.values("id") == [0, 2]
    fill_gaps(bench)
    derived.run()
    assert derived.values("id") == [0, 1, 2]


def test_the_records_of_a_shard_that_was_never_read_before_a_catch_up_are_added(bench, derived):
    bench.run()
    skip_order(bench)
    derived.run()
    fill_gaps(bench)
    derived.run()
    assert derived.values("id") == [1, 2]


def test_the_records_of_a_gap_of_which_the_rest_expired_are_added(bench, derived):
    land(bench, order(0))
    bench.put(order(9))
    bench.later(hours=1)
    skip_order(bench)
    derived.run()
    bench.later(hours=22, minutes=30)
    fill_gaps(bench)
    derived.run()
    assert derived.values("id") == [0, 1, 2]


def test_the_records_of_a_gap_that_were_lost_and_filled_in_again_are_not_added_again(bench, derived):
    land(bench, order(0))
    skip_order(bench)
    version = bench.version
    fill_gaps(bench)
    derived.run()
    bench.restore(version)
    bench.adopt()
    bench.replay()
    with pytest.raises(SourceRowsDeleted):
        derived.run()


def test_the_records_before_the_first_run_are_added(bench, derived):
    numbers = []
    for number in range(2):
        numbers += bench.put(order(number))
        bench.later(minutes=1)
    bench.run(start="LATEST")
    land(bench, order(2))
    derived.run()
    assert derived.values("id") == [2]
    for number, found in zip(reversed(numbers), ([1, 2], [0, 1, 2]), strict=True):  # in two parts
        bench.replay(number, None, *bench.shard_ids)
        derived.run()
        assert derived.values("id") == found


def test_rows_that_expired_before_they_were_consumed_and_were_added_again_are_added(bench, derived):
    bench.set_retention(hours=100)
    land(bench)
    derived.run()
    land(bench, order(1))
    expire_and_replay(bench)
    derived.run()
    assert derived.values("id") == [1]
