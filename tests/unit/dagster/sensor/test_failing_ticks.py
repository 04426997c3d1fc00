"""A tick that fails evaluates the checks all the same, from the table, the cursor and the clock."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from dagster._grpc.utils import default_sensor_grpc_timeout
from msgspec import structs

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.dagster.checks import evaluation
from kinesis_assets.dagster.checks.tick import BLIND_SECONDS
from kinesis_assets.dagster.sensor import due_shards, sensor
from kinesis_assets.dagster.sensor.sensor_cursor import Cursor
from kinesis_assets.errors import CallFailed, KinesisAssetsError, TableUnreachable, TickTooLong
from kinesis_assets.kinesis.client import StreamClient
from kinesis_assets.metrics import LAG, TIME_TO_LOSS
from kinesis_assets.table.raw_table import PositionedTable
from support.daemon import SensorClock
from support.mentions import assert_mentions
from support.shard_ids import A, B

pytestmark = pytest.mark.slow

HOUR = 3600.0
QUARTER = 900.0

LIMIT = "DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS"


class Failing:
    """A stream that was read to its tip, whose shards cannot be listed from now on."""

    def __init__(self, daemon, faults):
        self.daemon = daemon
        self.clock = SensorClock(daemon)
        self.clock.now = time.time()
        daemon.tick()
        faults.fail("ListShards", status=400, code="AccessDeniedException")

    def tick_after(self, seconds):
        """Evaluate a tick that fails, and return the checks that are red."""
        self.clock.now += seconds
        with pytest.raises(KinesisAssetsError):
            self.daemon.tick()
        return self.red

    @property
    def red(self):
        return {name for name, each in self.results().items() if not each.passed}

    def results(self):
        keys = [
            dg.AssetCheckKey(self.daemon.project.names.raw_key, name)
            for name, _ in self.daemon.opened.checks.defined
        ]
        records = map(self.daemon.instance.get_latest_asset_check_evaluation_record, keys)
        return {record.evaluation.check_name: record.evaluation for record in records if record}


@pytest.fixture
def failing(source, daemon, faults):
    source.create(2)
    daemon.tick()
    daemon.commit([A, B], by=None)
    return Failing(daemon, faults)


def test_the_error_of_the_tick_is_raised_and_the_cursor_is_kept(failing):
    cursor = failing.daemon.cursor
    with pytest.raises(CallFailed, match="ListShards failed with AccessDeniedException"):
        failing.daemon.tick()
    assert failing.daemon.cursor == cursor


def test_a_service_that_answers_nothing_turns_the_checks_red_within_the_limit_of_a_tick(failing, faults):
    opened = failing.daemon.opened
    settings, timing = opened.client.settings, opened.tick_client.settings.timing
    short = replace(settings, timing=replace(timing, read_timeout=0.1))
    opened.client = StreamClient(opened.name, short)
    del opened.tick_client  # made of the other one
    faults.clear()
    faults.stall("DescribeStreamSummary")
    assert failing.tick_after(QUARTER + 60) == {"lag"}
    assert "ReadTimeoutError" in failing.results()["lag"].description
    attempts = faults.count("DescribeStreamSummary")
    seconds_of_a_call = attempts * (timing.connect_timeout + timing.read_timeout)
    assert 2 * seconds_of_a_call + due_shards._SECONDS < sensor._STREAM_UNTIL * default_sensor_grpc_timeout()


def test_an_error_of_any_kind_turns_the_checks_red(failing, faults, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no space left on device")

    faults.clear()
    monkeypatch.setattr(sensor, "observe_stream", fail)
    failing.clock.now += QUARTER + 60
    with pytest.raises(RuntimeError):
        failing.daemon.tick()
    assert "no space left on device" in failing.results()["lag"].description


def test_a_short_failure_turns_no_check_red(failing):
    assert failing.tick_after(QUARTER - 60) == set()


def test_a_failure_that_lasts_turns_the_lag_red_and_then_the_time_to_loss(failing):
    assert failing.tick_after(QUARTER + 60) == {"lag"}
    assert failing.tick_after(BLIND_SECONDS) == {"lag", "time_to_loss"}
    results = failing.results()
    assert (results["lag"].severity, results["time_to_loss"].severity) == (
        dg.AssetCheckSeverity.WARN,
        dg.AssetCheckSeverity.ERROR,
    )
    for name in ("lag", "time_to_loss"):
        assert_mentions(
            results[name].description, "not been able to check the stream for 76 min", "AccessDeniedException"
        )
    assert "may expire in 22" in results["time_to_loss"].description


def test_the_time_to_loss_counts_down_without_the_service(failing):
    left = []
    for _ in range(3):
        failing.tick_after(2 * HOUR)
        left.append(failing.results()["time_to_loss"].metadata["least time to loss (h)"].value)
    assert left == pytest.approx([22, 20, 18], abs=0.1)


def test_the_time_to_loss_counts_a_lower_retention_that_no_run_has_recorded(source, daemon, faults):
    source.create(2)
    source.keep_records_for(48)
    daemon.tick()
    daemon.commit([A, B], by=None)
    source.keep_records_for(24)
    failing = Failing(daemon, faults)
    failing.tick_after(2 * HOUR)
    hours = failing.results()["time_to_loss"].metadata["least time to loss (h)"].value
    assert hours == pytest.approx(22, abs=0.1)


def test_the_gauges_go_on_without_the_service(failing, measurements):
    failing.tick_after(2 * HOUR)
    measurements.read()
    assert measurements.of(LAG) == pytest.approx({(A,): 2 * HOUR, (B,): 2 * HOUR}, abs=60)
    assert measurements.of(TIME_TO_LOSS) == pytest.approx({(A,): 22 * HOUR, (B,): 22 * HOUR}, abs=60)


def test_a_tick_that_fails_turns_no_check_green(failing):
    red = failing.tick_after(8 * HOUR)
    assert {"lag", "time_to_loss", "every_shard_read"} == red
    assert failing.tick_after(-8 * HOUR) == red


def test_the_next_tick_that_succeeds_turns_the_checks_green(failing, faults):
    assert failing.tick_after(2 * HOUR)
    faults.clear()
    failing.clock.now -= 2 * HOUR  # no run has read the shards since
    failing.daemon.tick()
    assert failing.red == set()


def test_the_checks_are_red_although_the_table_cannot_be_read_either(failing, faults):
    faults.clear()
    folder = Path(failing.daemon.opened.settings.table)
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    assert failing.tick_after(QUARTER + 60) == {"lag"}
    failing.tick_after(BLIND_SECONDS)
    result = failing.results()["time_to_loss"]
    assert not result.passed
    assert result.metadata["least time to loss (h)"].value == pytest.approx(22.7, abs=0.2)


def test_a_sensor_that_never_listed_the_shards_turns_the_checks_red_at_once(daemon, kinesis, instance):
    del kinesis
    with pytest.raises(KinesisAssetsError):
        daemon.tick()
    check = dg.AssetCheckKey(daemon.project.names.raw_key, "time_to_loss")
    result = instance.get_latest_asset_check_evaluation_record(check).evaluation
    assert not result.passed
    assert_mentions(result.description, "not found", "unknown when unread records expire")


def test_shards_that_runs_read_all_the_same_are_not_late(failing):
    """A continuous run lists no shards while it reads them."""
    cursor = Cursor.parse(failing.daemon.cursor)
    long_ago = structs.replace(cursor.checks, at=failing.clock.now - 2 * HOUR)
    failing.daemon.cursor = structs.replace(cursor, checks=long_ago).encode()
    assert failing.tick_after(60) == set()


def test_checks_that_cannot_be_evaluated_in_a_tick_that_succeeds_turn_red_too(failing, faults, monkeypatch):
    def refuse(*_):
        raise TableUnreachable("clicks", "its archive cannot be read")

    faults.clear()
    monkeypatch.setattr(evaluation, "gaps_of_table", refuse)
    failing.clock.now += BLIND_SECONDS + 60
    failing.daemon.tick()
    assert failing.red == {"lag", "time_to_loss"}


# A tick that does not end


@pytest.fixture
def answers(failing, faults, monkeypatch):
    """An event without which the store of the table does not answer, while `failing` does not fail."""
    del failing
    faults.clear()
    event, snapshot = threading.Event(), PositionedTable.snapshot

    def wait_for_answer(table):
        event.wait()
        return snapshot(table)

    monkeypatch.setattr(PositionedTable, "snapshot", wait_for_answer)
    monkeypatch.setenv(LIMIT, "1")
    yield event
    event.set()
    join_ticks()


def join_ticks():
    for thread in threading.enumerate():
        if thread.name.startswith("tick of"):
            thread.join(SECONDS)


@pytest.mark.usefixtures("answers")
def test_a_store_that_does_not_answer_turns_the_checks_red(failing):
    assert failing.tick_after(QUARTER + 60) == {"lag"}
    assert failing.tick_after(BLIND_SECONDS) == {"lag", "time_to_loss"}
    assert_mentions(failing.results()["lag"].description, "not ready after 1 s", "the store of a table")


def test_a_tick_that_was_given_up_stores_nothing_when_the_store_answers(
    source, failing, answers, instance, monkeypatch
):
    source.put(A, 1)
    answers.set()
    failing.daemon.commit([A], by="a run that died")
    answers.clear()
    events = partial(instance.fetch_materializations, failing.daemon.project.names.raw_key, limit=10)
    before = events().records
    with pytest.raises(TickTooLong):
        failing.daemon.tick()
    answers.set()
    join_ticks()
    assert events().records == before
    monkeypatch.delenv(LIMIT)
    failing.daemon.tick()
    assert events().records != before


def test_a_tick_that_was_given_up_while_it_read_the_totals_adds_no_events(
    source, daemon, instance, monkeypatch
):
    answer, stream_event = threading.Event(), sensor.stream_event

    def wait_for_answer(*arguments):
        answer.wait()
        return stream_event(*arguments)

    source.create(1)
    source.put(A, 1)
    daemon.commit([A], by="a run that died")
    monkeypatch.setattr(sensor, "stream_event", wait_for_answer)
    monkeypatch.setenv(LIMIT, "4")
    with pytest.raises(TickTooLong):
        daemon.tick()
    answer.set()
    join_ticks()
    assert instance.fetch_materializations(daemon.project.names.raw_key, limit=1).records == []


def test_derived_tables_whose_store_does_not_answer_do_not_hold_up_the_stream(source, daemon, monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(sensor, "derived_check_events", lambda *_, **__: answer.wait())
    monkeypatch.setattr(sensor, "_DERIVED_UNTIL", 0.0)
    source.create(2)
    assert daemon.requested_ranges() == [(A, B)]
    answer.set()
    join_ticks()
