"""Readings side by side: what is taken may wait, and what failed keeps nothing."""

from __future__ import annotations

import threading
import weakref
from types import SimpleNamespace

import pytest

from kinesis_assets.errors import ReadFailed
from kinesis_assets.ingest.shard_group import ShardGroup
from kinesis_assets.kinesis.records.record import Records
from kinesis_assets.kinesis.transport.awaitables import to_thread


def a_page():
    return Records(["1"], [1.0], [b"0"], ["k"])


def iter_of(*steps):
    yield from steps


def test_the_error_of_a_shard_does_not_keep_its_page():
    pages = []

    def steps():
        page = a_page()
        pages.append(weakref.ref(page))
        yield page
        raise ReadFailed("shard", "no more")

    (error,) = ShardGroup([SimpleNamespace(steps=steps)], threading.Event()).read(lambda *_: ())
    assert isinstance(error, ReadFailed)
    assert pages[0]() is None


def test_others_are_read_while_what_is_taken_of_one_is_waited_for():
    taken, other_is = [], threading.Event()

    def take(reading, _records):
        if reading.name == "slow":
            assert (yield from to_thread(lambda: other_is.wait(5)))
        else:
            other_is.set()
        taken.append(reading.name)

    readings = [SimpleNamespace(name=name, steps=lambda: iter_of(a_page())) for name in ("slow", "other")]
    ShardGroup(readings, threading.Event()).read(take)
    assert taken == ["other", "slow"]


def test_an_error_of_who_takes_is_no_shards_own():
    """Its position is behind what was taken: told as the shard's, that would be lost."""
    reading = SimpleNamespace(steps=lambda: iter_of(a_page()))

    def take(*_):
        raise ReadFailed("another", "of what is taken")

    with pytest.raises(ReadFailed, match="of what is taken"):
        ShardGroup([reading], threading.Event()).read(take)


def test_what_fails_the_task_ends_a_look_that_another_shard_waits_for():
    stop = threading.Event()
    ended = []

    def looks():
        yield from to_thread(lambda: ended.append(stop.wait(5)))

    def fails():
        yield from to_thread(lambda: None)
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        ShardGroup([SimpleNamespace(steps=looks), SimpleNamespace(steps=fails)], stop).read(lambda *_: ())
    assert ended == [True]
