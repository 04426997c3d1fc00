"""Run generators in an event loop, and record what they wait for."""

from __future__ import annotations

import threading

from kinesis_assets.kinesis.transport.event_loop import EventLoop
from kinesis_assets.kinesis.transport.waits import SocketWait

LONG = 600


def run(*generators, concurrency=10, seconds=10):
    """Run generators to their end, within a time limit."""
    raised = []

    def work():
        try:
            EventLoop(concurrency).run(generators)
        except BaseException as error:  # noqa: BLE001  # raised below
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the event loop did not end"
    if raised:
        raise raised[0]


def recording(events, name, *waits):
    """Record an event before each wait and at the end."""
    for number, wait in enumerate(waits):
        events.append((name, number))
        yield wait
    events.append((name, len(waits)))


def to_read(end, seconds=LONG):
    return SocketWait(end, to_send=False, seconds=seconds)
