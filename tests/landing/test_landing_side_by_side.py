"""Readings side by side: what is taken may wait, and what failed keeps nothing."""

from __future__ import annotations

import threading
import weakref
from types import SimpleNamespace

from kinesis_assets.errors import ReadFailed
from kinesis_assets.kinesis.pages import Records
from kinesis_assets.kinesis.waits import by_a_thread
from kinesis_assets.spark.side_by_side import SideBySide


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

    (error,) = SideBySide([SimpleNamespace(steps=steps)]).read(lambda *_: ())
    assert isinstance(error, ReadFailed)
    assert pages[0]() is None


def test_others_are_read_while_what_is_taken_of_one_is_waited_for():
    taken, other_is = [], threading.Event()

    def take(reading, _records):
        if reading.name == "slow":
            assert (yield from by_a_thread(lambda: other_is.wait(5)))
        else:
            other_is.set()
        taken.append(reading.name)

    readings = [SimpleNamespace(name=name, steps=lambda: iter_of(a_page())) for name in ("slow", "other")]
    SideBySide(readings).read(take)
    assert taken == ["other", "slow"]
