"""Run generators in an event loop, and record what they wait for."""

from __future__ import annotations

import threading

from benchmarks.harness.waiting import SECONDS
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.transport.event_loop import EventLoop, SocketWait

LONG = 3600
"""Seconds that nothing may wait: `run` fails long before they have passed."""


def run(*generators, concurrency=10, clock=MACHINE_CLOCK):
    """Run generators to their end."""
    run_in(EventLoop(concurrency, clock), generators)


def run_in(loop, generators):
    """Run generators in a loop to their end, and fail if they do not end."""
    raised = []

    def work():
        try:
            loop.run(generators)
        except BaseException as error:  # noqa: BLE001  # raised below
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
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
