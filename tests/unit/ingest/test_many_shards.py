"""Many shards in one task: a waiting shard does not delay the others."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from kinesis_assets.ingest import task
from kinesis_assets.ingest.outcome import ShardState
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter
from support.recording_limiter import RecordingLimiter
from support.stalled_calls import released_after
from support.virtual_time import VirtualTime


@pytest.mark.slow
def test_throttled_shards_do_not_block_calls_for_other_shards(bench, faults):
    bench.settings = replace(bench.settings, max_pool_connections=2)
    bench.set_timing(seconds_between_calls=0.02)
    shard_ids = bench.create(8)
    for shard_id in shard_ids:
        bench.put(b"0", b"1", b"2", shard_id=shard_id)
    faults.page_size(1)
    throttled, others = shard_ids[:4], shard_ids[4:]
    # The first four shards are throttled until the others are read to their tip.
    read = set()

    def throttle_until_read(call, response):
        if call.shard_id in others:
            if response.status == 200 and response.members["MillisBehindLatest"] == 0:
                read.add(call.shard_id)
            return None
        return None if read == {*others} else response.error("ProvisionedThroughputExceededException", 400)

    faults.answer("GetRecords", throttle_until_read)
    result = bench.run()
    assert {outcome.rows for outcome in result.outcomes.values()} == {3}
    assert {outcome.state for outcome in result.outcomes.values()} == {ShardState.COMMITTED}
    assert all(faults.count("GetRecords", shard_id) > 3 for shard_id in throttled)


def test_other_shards_are_read_while_a_shard_waits_between_calls(bench, faults):
    bench.settings = replace(bench.settings, max_pool_connections=1)
    bench.set_timing(clock=VirtualTime(), seconds_between_calls=0.5)
    shard_ids = bench.create(6)
    for shard_id in shard_ids:
        bench.put(b"0", b"1", b"2", shard_id=shard_id)
    faults.page_size(1)
    result = bench.run()
    assert {outcome.rows for outcome in result.outcomes.values()} == {3}
    calls = [call for call in faults.calls if call.operation == "GetRecords"]
    assert [call.shard_id for call in calls[:6]] == shard_ids


def test_a_stopped_run_does_not_wait_between_calls(bench, faults):
    bench.set_timing(seconds_between_calls=3600.0, stop_poll_seconds=0.05)
    (shard_id,) = bench.create()
    bench.put(b"0", b"1", shard_id=shard_id)
    faults.page_size(1)
    plan = bench.plan()
    stop = task.StopMarker(bench.table.folder, plan.batch_id)
    faults.answer("GetRecords", lambda *_: stop.set(), times=1)
    result = bench.execute(plan)
    assert [outcome.rows for outcome in result.outcomes.values()] == [1]
    assert faults.count("GetRecords") == 1


@pytest.mark.parametrize("operation", ["GetShardIterator", "GetRecords"])
@pytest.mark.parametrize("by_sdk", [False, True])
@pytest.mark.slow
def test_a_pending_call_does_not_delay_other_shards(bench, faults, by_sdk, operation):
    bench.settings = replace(bench.settings, sdk_parser=by_sdk)
    shard_ids = bench.create(3)  # the memory limiter admits as many pages of the SDK at once
    for shard_id in shard_ids:
        bench.put(b"0", shard_id=shard_id)
    faults.stall(operation, times=3)
    with released_after(faults, lambda: faults.count(operation) == 3):
        result = bench.run()
    assert {outcome.rows for outcome in result.outcomes.values()} == {1}


@pytest.mark.parametrize("capacity", [1, 200_000, 1 << 30])
def test_pages_of_any_size_are_landed_within_any_memory_limit(bench, monkeypatch, capacity):
    limiters = []

    def recording_limiter(_):
        limiters.append(RecordingLimiter(capacity))
        return limiters[-1]

    monkeypatch.setattr(task, "MemoryLimiter", recording_limiter)
    shard_ids = bench.create(6)
    for shard_id in shard_ids:
        bench.put(*[bytes(50_000)] * 3, b"small", shard_id=shard_id)
    bench.run()
    assert len(bench.data) == 24
    assert 0 < limiters[0].max_reserved <= capacity


def test_a_task_error_ends_shards_that_wait_between_calls(bench, monkeypatch):
    bench.set_timing(seconds_between_calls=3600.0)
    shard_ids = bench.create(3)
    for shard_id in shard_ids:
        bench.put(b"0", shard_id=shard_id)

    def broken(_stream, shard_id, _records):
        if shard_id == shard_ids[-1]:
            raise MemoryError

    monkeypatch.setattr(task, "record_batch", broken)
    monkeypatch.setattr(task.DataFileWriter, "write", lambda *_: None)
    with pytest.raises(MemoryError):
        bench.run()


def test_a_task_error_ends_shards_that_wait_for_memory(bench, monkeypatch):
    monkeypatch.setattr(task, "MemoryLimiter", lambda _: MemoryLimiter(300_000))
    for shard_id in bench.create(8):
        bench.put(bytes(60_000), shard_id=shard_id)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(task.DataFileWriter, "write", full)
    with pytest.raises(OSError, match="No space left"):
        bench.run()
