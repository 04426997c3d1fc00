"""Rows of a derived table without a key: each row of the source is consumed exactly once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kinesis_assets.derive.expiry import expire
from kinesis_assets.derive.policy import Retention
from kinesis_assets.table.clocks import AgreedClock
from support.derived import order
from support.formats import derived_at
from support.maintained_table import days_from_now
from support.shifted_clock import ShiftedClock

pytestmark = pytest.mark.any_format


def test_a_later_run_consumes_only_what_is_new(bench, derived):
    bench.put(order(1))
    bench.run()
    derived.run()
    bench.put(order(2))
    bench.run()
    (commit,) = derived.run()
    assert (commit.rows, derived.values("id")) == (1, [1, 2])


def test_a_run_without_new_rows_commits_nothing(bench, derived):
    bench.put(order(1))
    bench.run()
    derived.run()
    bench.run()
    assert derived.run() == []


def test_the_position_moves_once_it_is_a_day_old_although_rows_expire_each_day(bench, derived):
    bench.put(order(1))
    bench.run()
    derived.run()
    clock = ShiftedClock()
    derived.table = derived_at(derived.table.uri, replace(derived.table.policy, clock=clock))
    newest = bench.forge()  # without rows
    clock.advance(48)
    now = days_from_now(2)
    agreed = AgreedClock(derived.table.uri, now, lambda: now)
    list(expire(derived.table, Retention("day", 1), agreed, dry_run=False))
    before = derived.table.snapshot().newest
    (commit,) = derived.run()
    assert (before.maintains, commit.rows, derived.run()) == (True, 0, [])
    assert before.cursor.commit < commit.cursor.commit == newest.commit_id


def test_the_position_moves_after_fifty_commits_without_rows(bench, derived):
    bench.put(order(1))
    bench.run()
    derived.run()
    for _ in range(49):
        bench.forge()
    assert derived.run() == []
    newest = bench.forge()
    (commit,) = derived.run()
    assert (commit.rows, commit.cursor.commit, derived.run()) == (0, newest.commit_id, [])


def test_the_history_is_consumed_in_bounded_steps(bench, derived):
    for number in range(4):
        bench.put(order(number))
        bench.run()
    commits = derived.run(max_bytes=1)
    assert [commit.rows for commit in commits] == [1, 1, 1, 1]
    assert derived.values("id") == [0, 1, 2, 3]


def test_increments_are_consumed_in_bounded_steps(bench, derived):
    bench.run()
    derived.run()
    for number in range(3):
        bench.put(order(number))
        bench.run()
    commits = derived.run(max_bytes=1)
    assert [commit.rows for commit in commits if commit.rows] == [1, 1, 1]
    assert derived.values("id") == [0, 1, 2]


def test_rows_that_land_while_the_history_is_consumed_are_consumed_once(bench, derived):
    for number in range(3):
        bench.put(order(number))
        bench.run()
    steps = derived.steps(max_bytes=1)
    next(steps)
    bench.put(order(3))
    bench.run()
    list(steps)
    assert derived.values("id") == [0, 1, 2, 3]
