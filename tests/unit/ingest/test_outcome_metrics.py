"""The metrics of a run: what it committed of each shard, and how far each is from its tip."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import CommitFailed, KinesisAssetsError
from kinesis_assets.kinesis.records.aggregation import MAGIC
from kinesis_assets.metrics import (
    BAD_RECORDS,
    COMMIT_DURATION,
    CONFLICTS,
    LAG,
    PAYLOAD,
    ROWS,
    THROTTLES,
    TIME_TO_LOSS,
)
from support.continuous import RunHarness
from support.shard_ids import A, B

pytestmark = pytest.mark.slow

DAY = 24 * 3600


def test_a_run_records_what_it_committed_of_each_shard(bench, measurements):
    bench.create(2)
    bench.put(b"12", b"345", MAGIC, shard_id=A)
    bench.put(b"6", shard_id=B)
    bench.run()
    measurements.read()
    assert measurements.of(ROWS) == {(A,): 3, (B,): 1}
    assert measurements.of(PAYLOAD) == {(A,): 5 + len(MAGIC), (B,): 1}
    assert measurements.of(BAD_RECORDS) == {(A,): 1}
    assert (measurements.of(THROTTLES), measurements.of(CONFLICTS)) == ({}, {})


def test_a_run_records_how_far_each_shard_is(bench, measurements):
    bench.create(2)
    bench.put(1, 2, shard_id=A)
    bench.later(seconds=60)
    bench.run(max_records=1)
    measurements.read()
    assert measurements.of(LAG) == {(A,): 60, (B,): 0}
    assert measurements.of(TIME_TO_LOSS) == {(A,): DAY - 60, (B,): DAY}


def test_the_lag_of_a_shard_that_failed_is_left_to_the_sensor(bench, faults, measurements):
    bench.create()
    bench.put(1)
    faults.fail(status=400, code="AccessDeniedException")
    bench.run()
    measurements.read()
    assert measurements.of(LAG) == {}


def test_the_calls_that_were_throttled_are_counted(bench, faults, measurements):
    bench.create()
    bench.put(1)
    faults.throttle(shard_id=A, times=2)
    bench.run()
    measurements.read()
    assert measurements.of(THROTTLES) == {(A,): 2}
    assert measurements.of(ROWS) == {(A,): 1}


def test_of_two_runs_on_a_shard_one_records_a_conflict_and_no_rows(bench, measurements):
    bench.create()
    bench.put(1)
    first, second = bench.plan(), bench.plan()
    bench.execute(first)
    measurements.read()
    assert (measurements.of(ROWS), measurements.of(CONFLICTS)) == ({(A,): 1}, {})
    bench.execute(second)
    measurements.read()
    assert (measurements.of(ROWS), measurements.of(CONFLICTS)) == ({}, {(A,): 1})


def test_a_commit_records_how_long_it_took(bench, measurements):
    bench.create()
    bench.put(1)
    plan = bench.plan()
    measurements.read()
    bench.execute(plan)
    measurements.read()
    assert measurements.of(COMMIT_DURATION) == {(bench.table.uri,): 1}


def test_a_commit_that_fails_records_the_class_of_its_error_and_no_rows(bench, measurements):
    bench.create()
    bench.put(1)
    plan = bench.plan()
    bench.execute(plan)
    measurements.read()
    with pytest.raises(KinesisAssetsError) as raised:
        bench.execute(plan)  # the same batch again
    assert raised.type is CommitFailed
    measurements.read()
    assert measurements.of(COMMIT_DURATION) == {(bench.table.uri, "CommitFailed"): 1}
    assert measurements.of(ROWS) == {}


def test_a_continuous_run_records_each_iteration(bench, measurements):
    bench.create()
    bench.put(1)
    RunHarness(bench, before={2: lambda: bench.put(2, 3)}, last_iteration=2).run(A)
    measurements.read()
    assert measurements.of(ROWS) == {(A,): 3}
    assert measurements.of(LAG) == {(A,): 0}
