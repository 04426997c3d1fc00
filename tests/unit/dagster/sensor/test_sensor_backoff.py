"""The sensor's backoff for shards whose runs failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from kinesis_assets.dagster.partition_ranges import continuous_run_tags
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.dagster.sensor.sensor_runs import OVERLAP, SECONDS_SILENT, WAITS, EndedRun, ShardBackoff
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.testing import Clock
from support.daemon import FIRST, LAST, PARTITION, Daemon, Status, origin_of
from support.forged_positions import forge_shards
from support.mentions import assert_mentions
from support.raw_checks import CHECKS
from support.shard_ids import A, B, C, D, E
from support.stream_names import raw_key

FAILED = {"state": str(ShardState.FAILED)}


@pytest.fixture
def clock(daemon: Daemon) -> Clock:
    """The clock of the ticks."""
    daemon.clock = Clock()
    return daemon.clock


def ended(daemon: Daemon, tags: dict[str, str], status: Status, *materialized: str) -> dg.DagsterRun:
    """Record a run that materialized some shards and ended with a status."""
    run = daemon.run(tags)
    for shard_id in materialized:
        daemon.report_event(run, dg.AssetMaterialization(raw_key(daemon.project.stream), partition=shard_id))
    daemon.end(run, status)
    return run


def ended_elsewhere(daemon: Daemon) -> dg.DagsterRun:
    """Record a run of another asset that succeeded."""
    run = daemon.instance.add_run(
        dg.DagsterRun(
            "other",
            status=Status.STARTED,
            asset_selection=frozenset({dg.AssetKey("other")}),
            remote_job_origin=origin_of("other"),
        )
    )
    daemon.end(run, Status.SUCCESS)
    return run


# The schedule


def test_waits_double_from_half_a_minute_up_to_a_quarter_of_an_hour():
    assert [WAITS.wait(failures) for failures in range(1, 8)] == [30, 60, 120, 240, 480, 900, 900]
    assert WAITS.wait(10_000) == 900


def test_a_run_is_counted_once_however_often_it_is_seen():
    run = EndedRun("one", 1000.0, failed=[A])
    once = ShardBackoff().after([run], now=1000.0)
    assert once.after([run], now=1030.0) == once
    assert once.shards[A].runs == 1


def test_runs_count_in_the_order_of_their_ends():
    good = EndedRun("good", 1001.0, materialized=[A])
    bad = EndedRun("bad", 1000.0, failed=[A])
    assert ShardBackoff().after([good, bad], now=1010.0).shards == {}


def test_only_the_runs_of_the_last_minutes_are_remembered():
    early, late = EndedRun("early", 1000.0), EndedRun("late", 1001.0 + OVERLAP)
    seen = ShardBackoff().after([early, late], now=1400.0)
    assert seen.counted.keys() == {"late"}
    assert seen.since(9999.0) == 1001.0


def test_only_runs_of_the_last_minutes_are_read_without_a_cursor():
    assert ShardBackoff().since(1000.0) == 1000.0 - OVERLAP


# Ticks


@pytest.mark.slow
def test_a_shard_whose_run_failed_is_requested_again_after_its_wait(source, daemon, clock):
    source.create(1)
    asked = []
    for _ in range(3):
        (partition_range,) = daemon.requested_ranges()
        ended(daemon, {PARTITION: A}, Status.FAILURE)
        waited = 0
        while not daemon.requested_ranges():
            clock.advance(15)
            waited += 15
        asked.append((partition_range, waited))
    assert asked == [((A,), 30), ((A,), 60), ((A,), 120)]


def test_other_shards_of_a_failed_run_are_requested_at_once(source, daemon, clock):
    source.create(5)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: E}, Status.FAILURE, A, B, D, E)

    assert daemon.requested_ranges() == [(A, B), (D, E)]

    clock.advance(30)
    assert daemon.requested_ranges() == [(A, E)]


def test_the_last_of_several_events_of_a_shard_counts(source, daemon, clock):
    del clock
    source.create(3)
    daemon.tick()
    run = daemon.run({FIRST: A, LAST: C})
    key = raw_key(daemon.project.stream)
    for shard_id in (A, B, C):
        daemon.report_event(run, dg.AssetMaterialization(key, partition=shard_id))
        daemon.report_event(run, dg.AssetObservation(key, partition=shard_id, metadata=FAILED))
    daemon.report_event(run, dg.AssetMaterialization(key, partition=B))
    daemon.end(run, Status.FAILURE)
    assert daemon.requested_ranges() == [(B,)]


def test_a_run_that_failed_as_a_whole_counts_for_all_its_shards(source, daemon, clock):
    source.create(4)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: C}, Status.FAILURE)

    assert daemon.requested_ranges() == [(D,)]

    clock.advance(30)
    assert daemon.requested_ranges() == [(A, D)]


def test_a_success_resets_the_backoff(source, daemon, clock):
    source.create(1)
    daemon.tick()
    for status in (Status.FAILURE, Status.FAILURE, Status.SUCCESS, Status.FAILURE):
        ended(daemon, {PARTITION: A}, status)
    daemon.tick()
    clock.advance(29)
    assert daemon.requested_ranges() == []
    clock.advance(1)
    assert daemon.requested_ranges() == [(A,)]


def test_a_shard_that_an_unfinished_run_has_committed_since_no_longer_fails(source, daemon, clock):
    del clock
    source.create(3)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: C}, Status.FAILURE)
    run, key = daemon.run({FIRST: A, LAST: C}), raw_key(daemon.project.stream)
    for shard_id in (A, B):
        daemon.report_event(run, dg.AssetMaterialization(key, partition=shard_id))
    # Its next iteration failed.
    daemon.report_event(run, dg.AssetObservation(key, partition=B, metadata=FAILED))
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.reasons.keys() == {B, C}


def read_to_tip(daemon: Daemon, seconds: float, **changes: object) -> None:
    """Commit that A was read to its tip some seconds after the commit before, without an event of it."""
    tip_time = daemon.positions.shards[A].tip_time + timedelta(seconds=seconds)
    forge_shards(daemon.opened.table, daemon.positions, A, **{"tip_time": tip_time, **changes})


@pytest.fixture
def failing(source, daemon: Daemon, clock: Clock) -> Daemon:
    """The daemon of a stream with one shard, whose last run failed after another one had read it."""
    del clock
    source.create(1)
    daemon.tick()
    daemon.commit([A], by=None)
    ended(daemon, {PARTITION: A}, Status.FAILURE)
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.shards.keys() == {A}
    return daemon


def test_an_idle_shard_that_was_read_since_no_longer_fails(failing):
    read_to_tip(failing, seconds=1)
    failing.tick()
    assert Cursor.parse(failing.cursor).backoff.shards == {}


def test_a_shard_that_was_never_read_before_it_failed_no_longer_fails_once_it_is(source, daemon, clock):
    del clock
    source.create(1)
    daemon.tick()
    ended(daemon, {PARTITION: A}, Status.FAILURE)
    daemon.tick()
    daemon.commit([A], by=None)
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.shards == {}


def test_a_shard_whose_position_did_not_move_fails_still(failing):
    read_to_tip(failing, seconds=0)
    failing.tick()
    assert Cursor.parse(failing.cursor).backoff.shards.keys() == {A}


def test_a_shard_that_was_read_but_is_behind_again_fails_still(failing):
    arrival = failing.positions.shards[A].tip_time + timedelta(minutes=2)
    read_to_tip(failing, seconds=1, last_arrival=arrival)
    failing.tick()
    assert Cursor.parse(failing.cursor).backoff.shards.keys() == {A}


def test_a_shard_that_fails_again_after_it_was_read_fails(failing):
    read_to_tip(failing, seconds=1)
    ended(failing, {PARTITION: A}, Status.FAILURE)
    failing.tick()
    assert Cursor.parse(failing.cursor).backoff.shards[A].runs == 2


def test_a_failure_in_a_cursor_of_an_earlier_release_ends_with_a_materialization(failing):
    cursor = json.loads(failing.cursor)
    del cursor["backoff"]["shards"][A][4:]
    failing.cursor = json.dumps(cursor)
    read_to_tip(failing, seconds=1)
    failing.tick()
    assert Cursor.parse(failing.cursor).backoff.shards.keys() == {A}
    run = failing.run({PARTITION: A})
    failing.report_event(run, dg.AssetMaterialization(raw_key(failing.project.stream), partition=A))
    failing.tick()
    assert Cursor.parse(failing.cursor).backoff.shards == {}


# Runs that go on


def test_an_idle_shard_that_fails_in_a_run_and_is_read_by_the_next_one_is_well_once_the_first_ends(
    source, daemon, clock
):
    del clock
    source.create(1)
    daemon.tick()
    daemon.commit([A], by=None)
    run = continuous(daemon, A, A)
    report_failure(daemon, run, A)
    assert reasons(daemon).keys() == {A}
    read_to_tip(daemon, seconds=1)
    assert reasons(daemon).keys() == {A}
    daemon.end(run, Status.FAILURE)
    assert reasons(daemon) == {}


def continuous(daemon: Daemon, first: str, last: str) -> dg.DagsterRun:
    """Store a continuous run that goes on."""
    return daemon.run(continuous_run_tags((first, last), 3600.0, 60.0))


def report_failure(daemon: Daemon, run: dg.DagsterRun, shard_id: str, **facts: object) -> None:
    """Record the event of a shard that failed in an iteration."""
    metadata = {"state": "failed", "error class": "ReadFailed", "rows": 0} | facts
    event = dg.AssetObservation(raw_key(daemon.project.stream), partition=shard_id, metadata=metadata)
    daemon.report_event(run, event)


def materialize(daemon: Daemon, run: dg.DagsterRun, shard_id: str) -> None:
    daemon.report_event(run, dg.AssetMaterialization(raw_key(daemon.project.stream), partition=shard_id))


def reasons(daemon: Daemon) -> dict[str, str]:
    """Return the failing shards of a tick."""
    daemon.tick()
    return Cursor.parse(daemon.cursor).backoff.reasons


@pytest.fixture
def two_shards(source, daemon: Daemon, clock: Clock) -> Daemon:
    """The daemon of a stream with two shards."""
    del clock
    source.create(2)
    daemon.tick()
    return daemon


def test_a_shard_that_fails_in_a_run_that_goes_on_is_failing_at_once(two_shards):
    run = continuous(two_shards, A, B)
    materialize(two_shards, run, A)
    report_failure(two_shards, run, B)
    materialize(two_shards, run, A)
    assert reasons(two_shards) == reasons(two_shards) == {B: f"{B}: it failed in run {run.run_id}"}


def test_a_shard_that_a_run_that_goes_on_has_read_again_is_well(two_shards):
    run = continuous(two_shards, A, B)
    report_failure(two_shards, run, B)
    assert reasons(two_shards).keys() == {B}
    materialize(two_shards, run, B)
    assert reasons(two_shards) == {}


def test_a_shard_that_fails_in_one_of_several_runs_is_failing(two_shards):
    run, other = continuous(two_shards, B, B), continuous(two_shards, A, A)
    report_failure(two_shards, run, B)
    materialize(two_shards, other, A)
    assert reasons(two_shards) == {B: f"{B}: it failed in run {run.run_id}"}


def test_a_shard_that_is_throttled_between_its_rows_does_not_fail(two_shards):
    run = continuous(two_shards, A, B)
    report_failure(two_shards, run, B, **{"error class": "ShardThrottled", "rows": 3})
    assert reasons(two_shards) == {}


def test_a_shard_that_failed_fails_still_while_it_is_throttled_between_its_rows(two_shards):
    run = continuous(two_shards, A, B)
    report_failure(two_shards, run, B, **{"error class": "ShardThrottled"})
    report_failure(two_shards, run, B, **{"error class": "ShardThrottled", "rows": 3})
    assert reasons(two_shards).keys() == {B}


def test_a_shard_that_waits_for_its_parents_does_not_fail(two_shards):
    run = continuous(two_shards, A, B)
    report_failure(two_shards, run, B, state="waiting")
    assert reasons(two_shards) == {}


@pytest.mark.parametrize("status", [Status.CANCELED, Status.FAILURE])
def test_a_shard_that_failed_in_a_run_that_was_stopped_fails_until_it_is_read(two_shards, status):
    run = continuous(two_shards, A, B)
    materialize(two_shards, run, A)
    report_failure(two_shards, run, B)
    two_shards.tick()
    two_shards.end(run, status)
    assert reasons(two_shards).keys() == {B}
    two_shards.commit([A, B], by=None)
    assert reasons(two_shards) == {}


def test_a_shard_that_failed_in_a_run_that_died_fails_until_it_is_read(source, daemon, sensor_clock, beat):
    del source
    run = continuous(daemon, A, B)
    beat(run)
    report_failure(daemon, run, B)
    sensor_clock.ranges_after(SECONDS_SILENT)
    sensor_clock.ranges_after(SECONDS_SILENT)
    assert Cursor.parse(daemon.cursor).liveness.dead == {run.run_id}
    assert reasons(daemon).keys() == {B}
    daemon.commit([A, B], by=None)
    assert reasons(daemon) == {}


def test_a_shard_that_fails_in_a_canceled_run_does_not_wait(two_shards):
    run = continuous(two_shards, A, B)
    report_failure(two_shards, run, B)
    assert two_shards.requested_ranges() == []
    two_shards.end(run, Status.CANCELED)
    assert two_shards.requested_ranges() == [(A, B)]


def test_the_wait_after_a_run_counts_its_failure_once(two_shards):
    run = continuous(two_shards, A, B)
    report_failure(two_shards, run, B)
    two_shards.tick()
    two_shards.end(run, Status.FAILURE)
    two_shards.tick()
    assert Cursor.parse(two_shards.cursor).backoff.shards[B].runs == 1


def test_runs_know_the_failing_shards_of_a_stream_without_checks(source, make_project, instance, clock):
    daemon = Daemon(make_project(checks={name: False for name, _ in CHECKS.defined}), instance)
    daemon.clock = clock
    source.create(2)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: B}, Status.FAILURE, A)
    daemon.tick()
    assert Cursor.parse(daemon.cursor).failing_at(clock()).keys() == {B}


def test_a_canceled_run_does_not_count(source, daemon, clock):
    source.create(2)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: B}, Status.FAILURE, A)
    ended(daemon, {FIRST: A, LAST: B}, Status.CANCELED)

    assert daemon.requested_ranges() == [(A,)]

    clock.advance(30)
    assert daemon.requested_ranges() == [(A, B)]


def test_a_run_of_another_stream_does_not_count(source, daemon, clock, make_project, tmp_path):
    del clock
    other = source.sibling()
    source.create(2)
    other.create(2)
    theirs = Daemon(make_project(stream=other.name, table=str(tmp_path / "other")), daemon.instance)
    theirs.tick()
    daemon.tick()
    ended(theirs, {FIRST: A, LAST: B}, Status.FAILURE)
    assert daemon.requested_ranges() == [(A, B)]


def test_the_skip_reason_names_the_waiting_shards_with_time_and_cause(source, daemon, clock):
    source.create(2)
    daemon.tick()
    run = ended(daemon, {FIRST: A, LAST: B}, Status.FAILURE, B)
    daemon.run({PARTITION: B})
    until = datetime.fromtimestamp(clock.seconds + 30, UTC)
    reason = daemon.tick().skip_reason.skip_message
    assert_mentions(reason, "unfinished run", f"{A} waits until {until:%Y-%m-%dT%H:%M:%SZ}", run.run_id)


def test_the_skip_reason_names_unfinished_runs_only_if_there_are_some(source, daemon, clock):
    del clock
    source.create(1)
    daemon.tick()
    ended(daemon, {PARTITION: A}, Status.FAILURE)
    assert daemon.tick().skip_reason.skip_message.startswith(f"{A} waits until")


def test_the_skip_reason_is_short_with_many_shards(source, daemon, clock):
    del clock
    source.create(8)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: f"shardId-{7:012d}"}, Status.FAILURE)
    reason = daemon.tick().skip_reason.skip_message
    assert reason.count("shardId-") == 5
    assert reason.endswith("; 3 more wait")


def test_a_finished_shard_is_forgotten(source, daemon, clock):
    del clock
    source.create(2)
    daemon.tick()
    ended(daemon, {PARTITION: A}, Status.FAILURE)
    daemon.tick()
    source.split(A)
    daemon.finish(A)
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.shards == {}


@pytest.mark.slow
def test_the_next_tick_reads_only_the_runs_since_the_newest_one_of_any_asset(source, daemon, clock):
    clock.advance(60)
    source.create(1)
    mine = ended(daemon, {PARTITION: A}, Status.SUCCESS, A)
    daemon.tick()
    other = ended_elsewhere(daemon)
    daemon.tick()
    backoff = Cursor.parse(daemon.cursor).backoff
    record = daemon.instance.get_run_record_by_id(other.run_id)
    assert backoff.newest == record.update_timestamp.timestamp()
    assert backoff.counted.keys() == {mine.run_id, other.run_id}


@pytest.mark.slow
def test_a_shard_that_a_later_canceled_run_materialized_too_did_not_fail(source, daemon, clock):
    del clock
    source.create(2)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: B}, Status.FAILURE, A)
    ended(daemon, {FIRST: A, LAST: B}, Status.CANCELED, A)
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.shards.keys() == {B}


@pytest.mark.slow
def test_a_clock_of_another_job_that_is_ahead_hides_no_failed_run(source, daemon, clock):
    source.create(1)
    daemon.tick()
    ended_elsewhere(daemon)
    clock.advance(-3600)  # of this machine, which is behind that of the other job
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.newest <= clock()


@pytest.mark.slow
def test_a_replay_that_adds_nothing_makes_no_shard_of_a_failed_run_a_failing_one(source, daemon, clock):
    del clock
    source.create(2)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: B}, Status.FAILURE, A)
    replay = daemon.run({})
    daemon.report_event(replay, dg.AssetObservation(raw_key(daemon.project.stream), partition=A))
    daemon.tick()
    assert Cursor.parse(daemon.cursor).backoff.shards.keys() == {B}


@pytest.mark.slow
def test_a_failed_run_over_no_shard_reads_no_events_of_shards(source, daemon, clock, monkeypatch):
    del clock
    source.create(1)
    daemon.tick()
    ended(daemon, {}, Status.FAILURE)
    asked = []
    monkeypatch.setattr(
        dg.DagsterInstance, "get_latest_storage_id_by_partition", lambda *given: asked.append(given) or {}
    )
    daemon.tick()
    assert asked == []


def test_a_tick_reads_no_events_of_runs_which_may_have_very_many(source, daemon, clock, monkeypatch):
    del clock
    source.create(5)
    daemon.tick()
    ended(daemon, {FIRST: A, LAST: C}, Status.SUCCESS)
    ended(daemon, {FIRST: D, LAST: E}, Status.FAILURE)
    asked = []
    monkeypatch.setattr(
        dg.DagsterInstance, "get_records_for_run", lambda _, run_id, *__, **___: asked.append(run_id)
    )
    daemon.tick()
    assert asked == []
    assert Cursor.parse(daemon.cursor).backoff.shards.keys() == {D, E}
