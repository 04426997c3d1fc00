"""Observations of a stream's asset."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kinesis_assets.dagster.sensor.tick_reports import INTERVAL, Observed, observe_stream
from kinesis_assets.dagster.stream_names import StreamNames
from kinesis_assets.kinesis.position import Position
from kinesis_assets.kinesis.stream import Shard, StreamIdentity, StreamListing, StreamSummary
from kinesis_assets.table.positions.positions import ShardPosition
from support.daemon import Daemon
from support.stream_names import stream_key

A, B, C = (f"shardId-{number:012d}" for number in range(3))
ARN = "arn:aws:kinesis:eu-west-1:111122223333:stream/clicks"
NEVER = Observed()
NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
KEYS = ("0", str((1 << 128) - 1))
SUMMARY = StreamSummary(StreamIdentity(ARN, NOW), NOW, 24, on_demand=True, record_distribution="AUTO")
LISTING = StreamListing(SUMMARY, [Shard(A, (), KEYS, "0", closed=True), Shard(B, (A,), KEYS, "0")])


def position(rate: int | None, age: float = 0.0, *, finished: bool = False) -> ShardPosition:
    return ShardPosition(
        parents=(),
        hash_range=KEYS,
        position=Position.after("7"),
        finished=finished,
        last_arrival=NOW - timedelta(seconds=age),
        bytes_per_second=rate,
    )


def observe(listing=LISTING, shards=None, before=NEVER, now=0.0):
    """The metadata of the observation, None without one; and what is remembered."""
    names = StreamNames("clicks")
    events, after = observe_stream(names, listing, shards or {}, before, now, pause=None)
    facts = [{name: value.value for name, value in event.metadata.items()} for event in events]
    return (facts[0] if facts else None), after


def test_it_has_the_shards_the_mode_the_retention_and_the_rate():
    facts, _ = observe(shards={A: position(5, finished=True), B: position(250_000)})
    assert facts == {
        "open shards": 1,
        "closed shards": 1,
        "capacity mode": "on-demand",
        "record distribution": "AUTO",
        "retention (h)": 24,
        "ARN": ARN,
        "incoming (MB/s)": 0.25,
    }


def test_a_shard_without_recent_records_receives_nothing():
    facts, _ = observe(shards={B: position(250_000, age=3601)})
    assert facts["incoming (MB/s)"] == 0


def test_a_stream_that_does_not_change_is_observed_once_an_hour():
    _, before = observe(now=1000.0)
    assert observe(before=before, now=1000.0 + INTERVAL - 1) == (None, before)
    facts, after = observe(before=before, now=1000.0 + INTERVAL)
    assert facts is not None
    assert after.at == 1000.0 + INTERVAL


@pytest.mark.parametrize(
    "changed",
    [
        replace(LISTING, shards=[*LISTING.shards, Shard(C, (A,), KEYS, "0")]),
        replace(LISTING, summary=replace(SUMMARY, on_demand=False)),
        replace(LISTING, summary=replace(SUMMARY, retention_hours=48)),
        replace(LISTING, summary=replace(SUMMARY, record_distribution="USER_PARTITION_KEY")),
    ],
    ids=["shards", "mode", "retention", "distribution"],
)
def test_a_change_is_observed_at_once(changed):
    _, before = observe(now=1000.0)
    facts, after = observe(changed, before=before, now=1001.0)
    assert facts is not None
    assert observe(changed, before=after, now=1002.0)[0] is None


def test_the_last_event_of_the_stream_is_about_all_of_it_and_not_about_a_new_shard(source, project, instance):
    source.create(2)
    daemon = Daemon(project, instance)
    daemon.tick()
    daemon.tick()
    latest, *others = instance.fetch_materializations(stream_key(source.name), limit=10).records
    assert sorted(record.partition_key for record in others) == [A, B]
    event = latest.asset_materialization
    assert (event.partition, event.metadata["open shards"].value) == (None, 2)
    assert event.metadata["capacity mode"].value == "provisioned"
