"""The check of the mirror of the positions: late, failing, and well again, also if nothing runs."""

from __future__ import annotations

import time

import dagster as dg
import pytest

from kinesis_assets.dagster.checks import evaluation
from kinesis_assets.dagster.checks.mirror_check import (
    LateMirror,
    check_lease_table,
    lateness,
    recorded_state,
)
from kinesis_assets.dagster.settings.check_settings import SCANNING, LeaseTableCheck
from kinesis_assets.errors import LeaseTableFailed
from kinesis_assets.operations.leases.mirror import LeaseMirror
from kinesis_assets.table.run_files.states import MirrorState
from support.daemon import Daemon
from support.mentions import assert_mentions
from support.raw_checks import CHECKS
from support.shard_ids import A, B

NAME = "clicks-positions"
CHECK = LeaseTableCheck(max_seconds=900)
DENIED = "lease table clicks-positions: Scan failed with AccessDeniedException. Check its permissions"

HOUR = 3_774_873_600_000
"""An hour in commit ids."""

FIRST = 500_000 * HOUR
SECOND = FIRST + HOUR
NOW = 500_001 * 3600.0
"""The time of the second commit."""


def state(commit_id=None, failed=0, error=None):
    return MirrorState(lease_table=NAME, commit_id=commit_id, failed=failed, error=error)


def test_a_mirror_with_the_newest_commit_is_never_late():
    assert lateness(state(SECOND), SECOND, LateMirror(FIRST, NOW), NOW + 9000) is None
    assert lateness(state(SECOND), FIRST, None, NOW) is None  # a commit that the tick has not seen yet
    result = check_lease_table(CHECK, state(SECOND), None, NOW)
    assert (result.passed, result.metadata["lag (s)"]) == (True, 0)
    assert result.metadata["mirrored up to"] == "2027-01-15T09:00:00Z"


def test_a_mirror_is_late_from_the_commit_that_it_has_not():
    late = lateness(state(FIRST), SECOND, None, NOW + 10)
    assert late == LateMirror(FIRST, NOW)
    assert lateness(state(FIRST), SECOND + HOUR, late, NOW + 5000) == late


def test_a_mirror_that_moves_behind_a_busy_stream_is_not_late():
    late = LateMirror(FIRST, NOW - 3600)
    assert lateness(state(SECOND), SECOND + 1, late, NOW + 1) == LateMirror(SECOND, NOW)


def test_a_mirror_that_was_never_written_is_late_from_the_first_tick():
    assert lateness(state(), FIRST, None, NOW) == LateMirror(None, NOW)


@pytest.mark.parametrize(("seconds", "passed"), [(900, True), (901, False)])
def test_the_mirror_may_be_late_up_to_the_bound(seconds, passed):
    result = check_lease_table(CHECK, state(FIRST), LateMirror(FIRST, NOW), NOW + seconds)
    assert (result.passed, result.severity) == (passed, "WARN")
    assert_mentions(result.description, NAME, "for 15 min")


def test_a_late_mirror_says_why_and_what_to_do():
    late = LateMirror(FIRST, NOW - 1000)
    assert_mentions(check_lease_table(CHECK, state(FIRST, 1, DENIED), late, NOW).description, DENIED)
    unknown = check_lease_table(CHECK, state(FIRST), late, NOW).description
    assert_mentions(unknown, "no run has recorded", "run a shard", "No run depends on the mirror")


@pytest.mark.parametrize(("failed", "passed"), [(2, True), (3, False)])
def test_a_few_failures_are_allowed(failed, passed):
    result = check_lease_table(CHECK, state(SECOND, failed, DENIED), None, NOW)
    assert (result.passed, result.metadata["failed attempts"]) == (passed, failed)


class _Unreadable:
    """A table whose folder does not answer."""

    @property
    def files(self):
        raise OSError("the bucket does not answer")


def test_a_state_that_cannot_be_read_is_what_it_was_until_that_lasts():
    late = LateMirror(FIRST, NOW - 1000)
    unreadable = recorded_state(_Unreadable(), NAME, late)
    assert lateness(unreadable, SECOND, late, NOW) == late
    assert_mentions(check_lease_table(CHECK, unreadable, late, NOW).description, "the bucket does not answer")
    since_now = lateness(recorded_state(_Unreadable(), NAME, None), SECOND, None, NOW)
    assert check_lease_table(CHECK, unreadable, since_now, NOW).passed
    assert not check_lease_table(CHECK, unreadable, since_now, NOW + 901).passed


class _Leases:
    """A lease table that accepts everything, unless it denies everything."""

    denies = False

    def items(self):
        if self.denies:
            raise LeaseTableFailed(DENIED.partition(". ")[0], advice="Check its permissions")
        return []

    def put(self, *_):
        return True


class Mirrored:
    """A stream with a mirror, whose runs the test ends."""

    def __init__(self, daemon):
        self.daemon, self.leases = daemon, _Leases()

    def commit(self):
        """Commit a run that ends before it has updated the mirror."""
        self.daemon.commit([A, B], None)

    def update(self):
        """Update the mirror as a run does."""
        opened = self.daemon.opened
        listing, clock = opened.client.listing(), opened.client.settings.timing.clock
        table = opened.table.reopened()
        LeaseMirror(table, listing, NAME, lambda: self.leases, warn=lambda _: None, clock=clock).update()

    def result(self, seconds=0):
        """Return the result that a tick some seconds from now reports; None if it is as before."""
        now = time.time() + seconds
        self.daemon.clock = lambda: now
        events = self.daemon.tick().asset_events
        found = {each.check_name: each for each in events if isinstance(each, dg.AssetCheckEvaluation)}
        return found.get("lease_table")


@pytest.fixture
def mirrored(make_project, instance, source):
    """A stream whose first commit is mirrored, and another record is committed, but not mirrored."""
    source.create(2)
    source.put(A, 1)
    mirrored = Mirrored(Daemon(make_project(lease_table=NAME), instance))
    mirrored.commit()
    mirrored.update()
    assert mirrored.result().passed
    source.put(A, 1)
    mirrored.commit()
    return mirrored


@pytest.mark.slow
def test_a_late_mirror_turns_the_check_red_without_a_run(mirrored):
    assert mirrored.result(600) is None  # as before
    late = mirrored.result(1000)
    assert (late.passed, late.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert_mentions(late.description, NAME, "no run has recorded")
    mirrored.update()
    assert mirrored.result(1000).passed


@pytest.mark.slow
def test_a_mirror_that_keeps_failing_turns_the_check_red(mirrored):
    mirrored.leases.denies = True
    for _ in range(2):
        mirrored.update()
    assert mirrored.result() is None
    mirrored.update()
    failed = mirrored.result()
    assert not failed.passed
    assert_mentions(failed.description, "3 attempts", DENIED)
    mirrored.leases.denies = False
    mirrored.update()
    assert mirrored.result().passed


@pytest.mark.slow
def test_a_failure_is_the_reason_of_a_late_mirror(mirrored):
    mirrored.leases.denies = True
    mirrored.update()
    assert_mentions(mirrored.result(1000).description, "has not had the newest positions for", DENIED)


@pytest.mark.slow
def test_a_stream_without_a_lease_table_does_not_read_the_state_of_one(daemon, source, monkeypatch):
    monkeypatch.delattr(evaluation, "recorded_state")
    source.create(2)
    daemon.commit([A, B], None)
    names = {each.check_name for each in daemon.tick().asset_events if hasattr(each, "check_name")}
    assert names == {name for name, _ in CHECKS.defined} - SCANNING
