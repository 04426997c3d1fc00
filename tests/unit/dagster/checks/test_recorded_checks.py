"""The checks of what runs record: late, failing, and well again, also if nothing runs."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from kinesis_assets.dagster.checks import evaluation
from kinesis_assets.dagster.checks.recorded_checks import (
    INTERVAL,
    ConsumerRecord,
    LateMirror,
    check_consumer,
    check_lease_table,
    lateness,
    recorded_state,
)
from kinesis_assets.dagster.settings.check_settings import SCANNING, ConsumerCheck, LeaseTableCheck
from kinesis_assets.errors import LeaseTableFailed
from kinesis_assets.operations.leases.mirror import LeaseMirror
from kinesis_assets.table.run_files.states import CONSUMER_FILE, MirrorState
from support.daemon import Daemon
from support.mentions import assert_mentions
from support.raw_checks import CHECKS
from support.shard_ids import A, B
from support.virtual_time import VirtualTime

# The mirror in a lease table

NAME = "clicks-positions"
LEASE_CHECK = LeaseTableCheck(max_seconds=900)
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
    result = check_lease_table(LEASE_CHECK, state(SECOND), None, NOW)
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
    result = check_lease_table(LEASE_CHECK, state(FIRST), LateMirror(FIRST, NOW), NOW + seconds)
    assert (result.passed, result.severity) == (passed, "WARN")
    assert_mentions(result.description, NAME, "for 15 min")


def test_a_late_mirror_says_why_and_what_to_do():
    late = LateMirror(FIRST, NOW - 1000)
    assert_mentions(check_lease_table(LEASE_CHECK, state(FIRST, 1, DENIED), late, NOW).description, DENIED)
    unknown = check_lease_table(LEASE_CHECK, state(FIRST), late, NOW).description
    assert_mentions(unknown, "no run has recorded", "run a shard", "No run depends on the mirror")


@pytest.mark.parametrize(("failed", "passed"), [(2, True), (3, False)])
def test_a_few_failures_are_allowed(failed, passed):
    result = check_lease_table(LEASE_CHECK, state(SECOND, failed, DENIED), None, NOW)
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
    assert_mentions(
        check_lease_table(LEASE_CHECK, unreadable, late, NOW).description, "the bucket does not answer"
    )
    since_now = lateness(recorded_state(_Unreadable(), NAME, None), SECOND, None, NOW)
    assert check_lease_table(LEASE_CHECK, unreadable, since_now, NOW).passed
    assert not check_lease_table(LEASE_CHECK, unreadable, since_now, NOW + 901).passed


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


# The consumer

CONSUMER_CHECK = ConsumerCheck(max_seconds=900)
NO_HTTP2 = "SubscribeToShard failed with NoHttp2: no HTTP/2, which enhanced fan-out needs"


@pytest.fixture
def clock():
    return VirtualTime()


@pytest.fixture
def warnings():
    return []


@pytest.fixture
def record(table, clock, warnings):
    """The record of one run."""
    return ConsumerRecord(table, "lake", clock, warnings.append)


@pytest.fixture
def result(table, clock):
    return lambda *shards, consumer="lake": check_consumer(
        CONSUMER_CHECK, table, consumer, shards or {A, B}, clock.time()
    )


def test_a_table_of_which_nothing_is_recorded_is_well(result):
    assert result().passed


@pytest.mark.parametrize(("seconds", "passed"), [(900, True), (901, False)])
def test_a_shard_may_be_read_with_getrecords_up_to_the_bound(record, clock, result, seconds, passed):
    record.note({A: NO_HTTP2, B: None})
    clock.now += seconds
    found = result()
    assert (found.passed, found.severity) == (passed, "WARN")
    assert found.metadata["shards read with GetRecords"] == 1


def test_a_failure_says_why_and_since_when(record, clock, result):
    record.note({A: NO_HTTP2})
    clock.now += 3000
    assert_mentions(result().description, "1 shard of 2", "consumer lake", A, "50 min", NO_HTTP2)


def test_a_shard_that_is_read_by_the_consumer_again_is_well(record, clock, result):
    record.note({A: NO_HTTP2, B: NO_HTTP2})
    clock.now += 3000
    record.note({A: None})  # B is neither: its subscription has just been opened
    assert result(A).passed
    assert not result(B).passed
    assert record.reasons == {B: NO_HTTP2}


def test_the_next_run_goes_on_with_the_time(table, record, clock, result):
    record.note({A: NO_HTTP2})
    clock.now += 800
    ConsumerRecord(table, "lake", clock, print).note({A: "another reason"})
    clock.now += 200
    assert_mentions(result().description, "another reason")
    assert not result().passed


def test_runs_of_other_shards_are_recorded_beside_each_other(table, record, clock, result):
    record.note({A: NO_HTTP2})
    ConsumerRecord(table, "lake", clock, print).note({B: NO_HTTP2})
    clock.now += 901
    assert not result(A).passed
    assert not result(B).passed


def test_a_shard_that_is_finished_and_another_consumer_do_not_count(record, clock, result):
    record.note({A: NO_HTTP2})
    clock.now += 901
    assert result(B).passed
    assert result(consumer="another").passed


def test_the_record_is_written_when_it_changes_and_compared_at_an_interval(table, record, clock):
    file = Path(table.uri, CONSUMER_FILE)
    record.note({A: None})
    assert not file.exists()
    record.note({A: NO_HTTP2})
    assert file.exists()
    file.unlink()  # as if another run had overwritten it
    record.note({A: NO_HTTP2})
    assert not file.exists()
    clock.now += INTERVAL
    record.note({A: NO_HTTP2})
    assert file.exists()


def test_a_damaged_record_counts_as_none(table, record, clock, result):
    record.note({A: NO_HTTP2})
    Path(table.uri, CONSUMER_FILE).write_text("{")
    clock.now += 901
    assert result().passed


def test_a_record_that_cannot_be_written_is_a_warning_and_one_that_cannot_be_read_a_failure(clock):
    warnings = []
    record = ConsumerRecord(_Unreadable(), "lake", clock, warnings.append)
    record.note({A: NO_HTTP2})
    clock.now += INTERVAL
    record.note({A: NO_HTTP2})
    (warning,) = warnings
    assert_mentions(warning, "consumer lake", "the bucket does not answer")
    found = check_consumer(CONSUMER_CHECK, _Unreadable(), "lake", {A}, clock.time())
    assert not found.passed
    assert_mentions(found.description, "the bucket does not answer")


@pytest.mark.slow
def test_a_tick_reports_the_check_of_the_consumer_without_a_run(make_project, instance, source):
    source.create(2)
    daemon = Daemon(make_project(follow_for=600.0, consumer="lake"), instance)
    source.put(A, 1)
    daemon.commit([A, B], None)
    ConsumerRecord(daemon.opened.table, "lake", VirtualTime(), print).note({A: NO_HTTP2})
    events = daemon.tick().asset_events
    found = {each.check_name: each for each in events if isinstance(each, dg.AssetCheckEvaluation)}
    assert not found["consumer"].passed
    assert_mentions(found["consumer"].description, "1 shard of 2", NO_HTTP2)
