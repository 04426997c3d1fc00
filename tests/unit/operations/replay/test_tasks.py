"""Tasks of a replay: concurrent lookups, and errors while readers wait for memory."""

from __future__ import annotations

import errno
import threading

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter
from kinesis_assets.operations.replay import task


def test_a_failed_write_ends_readers_that_wait_for_memory(bench, monkeypatch):
    for number, shard_id in enumerate(bench.create(4)):
        bench.put(number, shard_id=shard_id)
    bench.run()
    bench.lose(*range(4))

    def disk_full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def replay():
        with pytest.raises(OSError, match="No space left"):
            bench.replay()
        ended.set()

    ended = threading.Event()
    monkeypatch.setattr(task, "MemoryLimiter", lambda _: MemoryLimiter(1))  # one page at a time
    monkeypatch.setattr(task.DataFileWriter, "write", disk_full)
    threading.Thread(target=replay, daemon=True).start()
    assert ended.wait(SECONDS)
    assert bench.items == []


def test_shards_are_looked_up_in_the_table_concurrently(bench, monkeypatch):
    for number, shard_id in enumerate(bench.create(2)):
        bench.put(number, shard_id=shard_id)
    bench.run()
    bench.lose(0, 1)
    together = threading.Barrier(2)
    missing = task.ExistingKeys.missing

    def both(*arguments):
        together.wait(SECONDS)
        return missing(*arguments)

    monkeypatch.setattr(task.ExistingKeys, "missing", both)
    bench.replay()

    assert bench.items == [0, 1]
