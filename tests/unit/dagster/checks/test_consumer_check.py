"""The check of a stream's consumer, from what runs record: also if no run is in progress."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from kinesis_assets.dagster.checks.consumer_check import INTERVAL, ConsumerRecord, check_consumer
from kinesis_assets.dagster.settings.check_settings import ConsumerCheck
from kinesis_assets.table.run_files.states import CONSUMER_FILE
from support.daemon import Daemon
from support.mentions import assert_mentions
from support.shard_ids import A, B
from support.virtual_time import VirtualTime

CHECK = ConsumerCheck(max_seconds=900)
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
        CHECK, table, consumer, shards or {A, B}, clock.time()
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
    class Unreadable:
        @property
        def files(self):
            raise OSError("the bucket does not answer")

    warnings = []
    record = ConsumerRecord(Unreadable(), "lake", clock, warnings.append)
    record.note({A: NO_HTTP2})
    clock.now += INTERVAL
    record.note({A: NO_HTTP2})
    (warning,) = warnings
    assert_mentions(warning, "consumer lake", "the bucket does not answer")
    found = check_consumer(CHECK, Unreadable(), "lake", {A}, clock.time())
    assert not found.passed
    assert_mentions(found.description, "the bucket does not answer")


@pytest.mark.slow
def test_a_tick_reports_the_check_without_a_run(make_project, instance, source):
    source.create(2)
    daemon = Daemon(make_project(follow_for=600.0, consumer="lake"), instance)
    source.put(A, 1)
    daemon.commit([A, B], None)
    ConsumerRecord(daemon.opened.table, "lake", VirtualTime(), print).note({A: NO_HTTP2})
    events = daemon.tick().asset_events
    found = {each.check_name: each for each in events if isinstance(each, dg.AssetCheckEvaluation)}
    assert not found["consumer"].passed
    assert_mentions(found["consumer"].description, "1 shard of 2", NO_HTTP2)
