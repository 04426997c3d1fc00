"""Another thread can end the pauses of an event loop."""

from __future__ import annotations

import threading
import time

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.transport.event_loop import EventLoop
from kinesis_assets.kinesis.transport.waits import Pause
from support.event_loops import LONG, recording, run_in, to_read


def test_cancel_pauses_ends_a_long_pause():
    loop, paused, events = EventLoop(1), threading.Event(), []

    def work():
        paused.set()
        yield from recording(events, "paused", Pause(LONG), Pause(LONG))

    def cancel_pauses():
        assert paused.wait(SECONDS)
        time.sleep(0.05)  # the loop is sleeping
        loop.cancel_pauses()

    thread = threading.Thread(target=cancel_pauses)
    thread.start()
    run_in(loop, [work()])
    thread.join()
    assert events == [("paused", 0), ("paused", 1), ("paused", 2)]


def test_cancel_pauses_before_the_run_ends_all_pauses_and_after_it_does_nothing():
    loop, events = EventLoop(1), []
    loop.cancel_pauses()
    run_in(loop, [recording(events, number, Pause(LONG)) for number in range(3)])
    loop.cancel_pauses()
    assert sorted(events) == [(number, step) for number in range(3) for step in (0, 1)]


def test_cancel_pauses_does_not_end_a_wait_for_a_socket(pair):
    near, _ = pair()
    loop, wait = EventLoop(1), to_read(near, 0.1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([recording([], "waits", wait)])
    assert wait.timed_out
    assert time.monotonic() - began >= 0.1
