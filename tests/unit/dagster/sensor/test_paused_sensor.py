"""The sensor of a paused stream requests no run, and says why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from kinesis_assets.dagster.settings.check_settings import SCANNING
from kinesis_assets.errors import PauseUnreadable
from kinesis_assets.table.run_files.pause import PAUSE_FILE, pause, resume
from support.daemon import SensorClock
from support.mentions import assert_mentions
from support.raw_checks import CHECKS
from support.shard_ids import A, B, C, D

pytestmark = pytest.mark.slow


@pytest.fixture
def table(daemon, source):
    source.create(2)
    daemon.tick()
    return daemon.opened.table


COMMAND = "kinesis-assets resume --stream clicks --table s3://lake/clicks"
FACTS = ("ann", "2026-01-31T12:00:00Z", "schema change", f"`{COMMAND}`")
ALL = {name for name, _ in CHECKS.defined} - SCANNING
OF_READING = {"lag", "time_to_loss", "every_shard_read"}


def pause_now(table):
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    pause(table, reason="schema change", by="ann", at=at, command=COMMAND)


def results(daemon):
    """Return the results of checks that the next tick reports, by name."""
    events = daemon.tick().asset_events
    return {event.check_name: event for event in events if isinstance(event, dg.AssetCheckEvaluation)}


def test_no_run_is_requested_and_the_skip_reason_is_that_of_the_pause(daemon, table):
    pause_now(table)
    result = daemon.tick()
    assert result.run_requests == []
    reason = result.skip_reason.skip_message
    assert_mentions(reason, *FACTS)
    resume(table)
    assert len(daemon.tick().run_requests) == 1


def test_each_check_says_that_the_stream_is_paused_and_those_of_reading_are_warnings(daemon, table):
    daemon.commit([A, B], None)
    daemon.tick()
    pause_now(table)
    paused = results(daemon)
    assert paused.keys() == ALL
    for result in paused.values():
        assert_mentions(result.description, *FACTS)
    failed = {name: result.severity for name, result in paused.items() if not result.passed}
    assert failed == dict.fromkeys(OF_READING, dg.AssetCheckSeverity.WARN)
    assert results(daemon) == {}
    resume(table)
    resumed = results(daemon)
    assert resumed.keys() == ALL
    assert all(result.passed and "paused" not in result.description for result in resumed.values())


def test_the_time_to_loss_of_a_paused_stream_is_an_error_before_records_expire(daemon, table):
    clock = SensorClock(daemon)
    daemon.commit([A, B], None)
    pause_now(table)
    clock.now = datetime.now(UTC).timestamp()
    assert results(daemon)["time_to_loss"].severity is dg.AssetCheckSeverity.WARN
    clock.now += 19 * 3600
    late = results(daemon)
    assert late.keys() == {"time_to_loss"} | OF_READING
    assert late["time_to_loss"].severity is dg.AssetCheckSeverity.ERROR
    assert_mentions(late["time_to_loss"].description, *FACTS, "may expire in less than 6.0 h")
    assert late["lag"].severity is dg.AssetCheckSeverity.WARN


def test_the_pages_of_the_stream_and_of_its_raw_table_say_when_a_pause_starts_and_ends(daemon, table):
    def events():
        (latest,) = daemon.instance.fetch_materializations(daemon.project.names.stream_key, limit=1).records
        observed = daemon.instance.fetch_observations(daemon.project.names.raw_key, limit=10).records
        of_raw = [record.asset_observation.description for record in observed]
        return latest.asset_materialization.metadata, of_raw

    pause_now(table)
    daemon.tick()
    daemon.tick()
    stream, (paused,) = events()
    assert_mentions(stream["paused"].value, *FACTS)
    assert_mentions(paused, "The stream is paused", *FACTS)
    resume(table)
    daemon.tick()
    stream, (resumed, _) = events()
    assert "paused" not in stream
    assert resumed == "The stream is resumed"


def test_new_shards_become_partitions_all_the_same(daemon, table, source):
    pause_now(table)
    source.split(A)
    daemon.tick()
    assert daemon.partition_keys() == [A, B, C, D]


def test_a_pause_that_cannot_be_read_fails_the_tick(daemon, table):
    Path(table.uri, PAUSE_FILE).parent.mkdir(parents=True, exist_ok=True)
    Path(table.uri, PAUSE_FILE).write_text("{")
    with pytest.raises(PauseUnreadable, match="kinesis-assets resume"):
        daemon.tick()
