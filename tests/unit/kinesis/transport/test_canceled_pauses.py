"""Another thread can end the pauses of an event loop."""

from __future__ import annotations

import threading
import time

from kinesis_assets.kinesis.transport.event_loop import EventLoop
from kinesis_assets.kinesis.transport.waits import Pause
from support.event_loops import LONG, recording, to_read


def test_cancel_pauses_ends_a_long_pause():
    loop, paused = EventLoop(1), threading.Event()

    def work():
        paused.set()
        yield Pause(LONG)
        yield Pause(LONG)

    def cancel_pauses():
        paused.wait(5)
        time.sleep(0.05)  # the loop is sleeping
        loop.cancel_pauses()

    thread = threading.Thread(target=cancel_pauses)
    thread.start()
    began = time.monotonic()
    loop.run([work()])
    thread.join()
    assert time.monotonic() - began < LONG / 2


def test_cancel_pauses_before_the_run_ends_all_pauses_and_after_it_does_nothing():
    loop = EventLoop(1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([recording([], number, Pause(LONG)) for number in range(3)])
    loop.cancel_pauses()
    assert time.monotonic() - began < LONG / 2


def test_cancel_pauses_does_not_end_a_wait_for_a_socket(pair):
    near, _ = pair()
    loop, wait = EventLoop(1), to_read(near, 0.1)
    loop.cancel_pauses()
    began = time.monotonic()
    loop.run([recording([], "waits", wait)])
    assert wait.timed_out
    assert time.monotonic() - began >= 0.1
