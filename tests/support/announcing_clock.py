"""The machine's clock, which tells a test that code waits."""

from __future__ import annotations

import threading
import time

from kinesis_assets.kinesis.clock import MACHINE_CLOCK

_LONG = 60.0
"""Seconds of a wait that only its event ends."""


class AnnouncingClock:
    """This machine's clock.

    Attributes:
        long_wait: Set before each wait of a minute or more.
    """

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)

    def __init__(self) -> None:
        self.long_wait = threading.Event()

    def call_later(self, seconds, callback, *args):
        if seconds >= _LONG:
            self.long_wait.set()
        return MACHINE_CLOCK.call_later(seconds, callback, *args)

    def wait(self, event: threading.Event, seconds: float | None) -> bool:
        if seconds is None or seconds >= _LONG:
            self.long_wait.set()
        return event.wait(seconds)
