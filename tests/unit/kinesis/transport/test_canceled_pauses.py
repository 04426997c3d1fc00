"""Another thread can end the pauses of an event loop."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from selectors import DefaultSelector

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.transport import event_loop
from kinesis_assets.kinesis.transport.event_loop import EventLoop, Pause, ThreadWait
from support.announcing_clock import AnnouncingClock
from support.event_loops import LONG, recording, run_in, to_read


@contextmanager
def canceled_after(event, loop):
    """Cancels the pauses of a loop in another thread, after an event."""

    def cancel_pauses():
        assert event.wait(SECONDS)
        loop.cancel_pauses()

    thread = threading.Thread(target=cancel_pauses)
    thread.start()
    yield
    thread.join()


def test_cancel_pauses_ends_a_long_pause():
    clock, events = AnnouncingClock(), []
    loop = EventLoop(1, clock)
    with canceled_after(clock.long_wait, loop):
        run_in(loop, [recording(events, "paused", Pause(LONG), Pause(LONG))])
    assert events == [("paused", 0), ("paused", 1), ("paused", 2)]


def test_cancel_pauses_ends_a_pause_while_another_generator_waits_for_a_socket(pair, monkeypatch):
    selecting, (near, far) = threading.Event(), pair()

    class Announcing(DefaultSelector):
        def select(self, timeout=None):
            selecting.set()
            return super().select(timeout)

    monkeypatch.setattr(event_loop, "DefaultSelector", Announcing)

    def pauses():
        yield Pause(LONG)
        far.send(b"x")

    loop, wait = EventLoop(2), to_read(near)
    with canceled_after(selecting, loop):
        run_in(loop, [recording([], "waits", wait), pauses()])
    assert not wait.timed_out


def test_cancel_pauses_before_the_run_ends_all_pauses_and_after_it_does_nothing():
    loop, events = EventLoop(1), []
    loop.cancel_pauses()
    run_in(loop, [recording(events, number, Pause(LONG)) for number in range(3)])
    loop.cancel_pauses()
    assert sorted(events) == [(number, step) for number in range(3) for step in (0, 1)]


def test_cancel_pauses_does_not_end_a_wait_for_a_socket(pair):
    near, far = pair()
    loop, wait = EventLoop(2), to_read(near)
    loop.cancel_pauses()

    def sends():
        yield Pause(LONG)
        yield ThreadWait(lambda: None)
        far.send(b"x")

    run_in(loop, [recording([], "waits", wait), sends()])
    assert not wait.timed_out
