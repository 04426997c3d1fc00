"""Clocks of which the time is not this machine's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from threading import Event


class VirtualTime:
    """A clock that only waits advance, for code in which one thread alone waits. Nobody is kept waiting.

    Attributes:
        now: The time in seconds.
        waits: Every wait, in seconds, in order.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def wait(self, event: Event, seconds: float | None) -> None:
        """Wait until an event is set, for at most some seconds. Without a limit, wait in real time."""
        _wait(event, seconds, self.sleep)


class TickingTime:
    """A clock that each reading advances: code that waits for a time reaches it after enough readings.

    Attributes:
        now: The time in seconds.
        tick: Seconds by which a reading advances it.
    """

    def __init__(self, tick: float = 0.1) -> None:
        self.now = 1000.0
        self.tick = tick

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now

    def time(self) -> float:
        """Return this machine's time, in which ids are."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self, event: Event, seconds: float | None) -> None:
        """Wait until an event is set, for at most some seconds. Without a limit, wait in real time."""
        _wait(event, seconds, self.sleep)


def _wait(event: Event, seconds: float | None, sleep: Callable[[float], None]) -> None:
    if seconds is None:
        event.wait()
    elif not event.is_set():
        sleep(seconds)
