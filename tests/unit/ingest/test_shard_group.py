"""Concurrent readings of a shard group: slow consumers, and errors of a shard or of the task."""

from __future__ import annotations

import asyncio
import threading
import weakref
from types import SimpleNamespace

import pytest

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.task import read_all
from kinesis_assets.kinesis.records.records import Records
from kinesis_assets.kinesis.transport.concurrency import Turns

LONG = 3600
"""Seconds that nothing may wait."""


def a_page():
    return Records(["1"], [1.0], [b"0"], ["k"])


async def batches_of(*batches):
    for records in batches:
        yield records


async def ignore(*_):
    """Consume nothing."""


def test_the_error_of_a_shard_does_not_keep_its_page_in_memory():
    pages = []

    async def batches():
        page = a_page()
        pages.append(weakref.ref(page))
        yield page
        raise ReadFailed("shard", "no more")

    (error,) = read_all([SimpleNamespace(batches=batches)], Turns(1), ignore)
    assert isinstance(error, ReadFailed)
    assert pages[0]() is None


def test_other_shards_are_read_while_the_records_of_one_are_being_consumed():
    consumed, other_consumed = [], threading.Event()

    async def consume(reading, _records):
        if reading.name == "slow":
            assert await asyncio.to_thread(other_consumed.wait, SECONDS)
        else:
            other_consumed.set()
        consumed.append(reading.name)

    readings = [
        SimpleNamespace(name=name, batches=lambda: batches_of(a_page())) for name in ("slow", "other")
    ]
    read_all(readings, Turns(2), consume)
    assert consumed == ["other", "slow"]


def test_an_error_of_the_consumer_is_not_attributed_to_the_shard():
    """The reading is already past the failed records: reported as the shard's error, they would be lost."""
    reading = SimpleNamespace(batches=lambda: batches_of(a_page()))

    async def consume(*_):
        raise ReadFailed("another", "while consuming")

    with pytest.raises(ReadFailed, match="while consuming"):
        read_all([reading], Turns(1), consume)


def test_an_error_that_fails_the_task_ends_the_reading_of_another_shard():
    turns, ended = Turns(2), []

    async def waits():
        try:
            await asyncio.sleep(LONG)
            yield a_page()
        finally:
            ended.append(turns.stopped)

    async def fails():
        await asyncio.to_thread(lambda: None)
        raise OSError("no space left")
        yield a_page()

    with pytest.raises(OSError, match="no space left"):
        read_all([SimpleNamespace(batches=waits), SimpleNamespace(batches=fails)], turns, ignore)
    assert ended == [True]
