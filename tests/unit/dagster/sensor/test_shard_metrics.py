"""The metrics of a stream's shards at each tick of the sensor."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest

from kinesis_assets.dagster.sensor.tick_reports import record_shards
from kinesis_assets.dagster.stream import ListedShards
from kinesis_assets.metrics import LAG, ROWS, TIME_TO_LOSS
from support.attempts import LISTED_AT
from support.daemon import Daemon, SensorClock
from support.raw_checks import CHECKS
from support.stored_positions import GAP, listing_of, shard_after
from support.two_shards import FIRST, SECOND

pytestmark = pytest.mark.slow

HOUR = 3600.0

each_selection_of_checks = pytest.mark.parametrize(
    "checks", [{}, {name: False for name, _ in CHECKS.defined}]
)


@each_selection_of_checks
def test_the_lag_of_a_shard_grows_while_no_run_reads_it(make_project, source, instance, measurements, checks):
    source.create(1)
    daemon = Daemon(make_project(checks=checks), instance)
    daemon.commit([FIRST], by=None)
    clock = SensorClock(daemon)
    clock.now = time.time()
    daemon.tick()
    measurements.read()
    before = measurements.of(TIME_TO_LOSS)[FIRST,]
    clock.now += 5 * HOUR
    daemon.tick()
    measurements.read()
    assert measurements.of(TIME_TO_LOSS)[FIRST,] == pytest.approx(before - 5 * HOUR, abs=600)
    assert measurements.of(LAG)[FIRST,] > HOUR / 2  # its next read is overdue
    assert measurements.of(ROWS) == {}  # no run has read anything


@each_selection_of_checks
def test_the_lag_of_a_shard_with_new_records_counts_from_when_a_tick_found_them(
    make_project, source, instance, measurements, checks
):
    source.create(1)
    daemon = Daemon(make_project(checks=checks), instance)
    daemon.commit([FIRST], by=None)
    source.put(FIRST, 3)
    clock = SensorClock(daemon)
    clock.now = time.time()
    daemon.tick()
    clock.now += HOUR / 4
    daemon.tick()
    measurements.read()
    assert measurements.of(LAG)[FIRST,] == pytest.approx(HOUR / 4, abs=60)


def test_a_tick_records_unfinished_shards_only(daemon, source, measurements):
    source.create(2)
    source.split(FIRST)
    daemon.finish(FIRST, at=datetime.now(UTC))
    daemon.tick()
    measurements.read()
    assert (FIRST,) not in {*measurements.of(LAG), *measurements.of(TIME_TO_LOSS)}
    assert measurements.of(LAG)[SECOND,] < HOUR


def test_the_time_to_loss_counts_what_a_catch_up_has_skipped(stream, measurements):
    now = LISTED_AT.timestamp()
    hour = timedelta(hours=1)
    gap = msgspec.structs.replace(GAP, since=LISTED_AT - 19 * hour, to_fill=True)
    shards = {FIRST: shard_after(1, tip_time=LISTED_AT, retention_hours=24, gaps=(gap,))}
    opened = SimpleNamespace(name=stream, max_idle=hour)
    snapshot = SimpleNamespace(amendment=lambda _: None)
    record_shards(opened, ListedShards(listing_of(FIRST), snapshot, shards), waiting={}, now=now)
    measurements.read()
    assert measurements.of(TIME_TO_LOSS) == {(FIRST,): 5 * HOUR}
