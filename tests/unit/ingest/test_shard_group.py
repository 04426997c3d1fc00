"""Concurrent readings of a shard group: slow consumers, and errors of a shard or of the task."""

from __future__ import annotations

import threading
import weakref
from types import SimpleNamespace

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.task import ShardGroup
from kinesis_assets.kinesis.records.records import Records
from kinesis_assets.kinesis.transport.event_loop import to_thread


def a_page():
    return Records(["1"], [1.0], [b"0"], ["k"])


def iter_of(*steps):
    yield from steps


def test_the_error_of_a_shard_does_not_keep_its_page_in_memory():
    pages = []

    def steps():
        page = a_page()
        pages.append(weakref.ref(page))
        yield page
        raise ReadFailed("shard", "no more")

    (error,) = ShardGroup([SimpleNamespace(steps=steps)], threading.Event()).read(lambda *_: ())
    assert isinstance(error, ReadFailed)
    assert pages[0]() is None


def test_other_shards_are_read_while_the_records_of_one_are_being_consumed():
    consumed, other_consumed = [], threading.Event()

    def consume(reading, _records):
        if reading.name == "slow":
            assert (yield from to_thread(lambda: other_consumed.wait(SECONDS)))
        else:
            other_consumed.set()
        consumed.append(reading.name)

    readings = [SimpleNamespace(name=name, steps=lambda: iter_of(a_page())) for name in ("slow", "other")]
    ShardGroup(readings, threading.Event()).read(consume)
    assert consumed == ["other", "slow"]


def test_an_error_of_the_consumer_is_not_attributed_to_the_shard():
    """The reading is already past the failed records: reported as the shard's error, they would be lost."""
    reading = SimpleNamespace(steps=lambda: iter_of(a_page()))

    def consume(*_):
        raise ReadFailed("another", "while consuming")

    with pytest.raises(ReadFailed, match="while consuming"):
        ShardGroup([reading], threading.Event()).read(consume)


def test_an_error_that_fails_the_task_ends_the_pending_wait_of_another_shard():
    stop = threading.Event()
    ended = []

    def waits():
        yield from to_thread(lambda: ended.append(stop.wait(SECONDS)))

    def fails():
        yield from to_thread(lambda: None)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        ShardGroup([SimpleNamespace(steps=waits), SimpleNamespace(steps=fails)], stop).read(lambda *_: ())
    assert ended == [True]
