"""Virtual time that several threads share."""

from __future__ import annotations

import heapq
import threading
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class SharedTime:
    """A clock for threads of which only one runs at a time: the one whose wait ends first.

    Attributes:
        now: The time in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()  # of waits that end at the same time
        self._waiting: list[tuple[float, int, threading.Event]] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        awake = self._wake_after(seconds)
        self._wake_next()
        awake.wait()

    def wait(self, event: threading.Event, seconds: float) -> None:
        """Wait for some seconds, unless an event is set already."""
        if not event.is_set():
            self.sleep(seconds)

    def run(self, *functions: Callable[[], None]) -> None:
        """Run functions, each in a thread of its own, until all of them have returned."""
        threads = [
            threading.Thread(target=self._run, args=(function, self._wake_after(0.0)))
            for function in functions
        ]
        for thread in threads:
            thread.start()
        self._wake_next()
        for thread in threads:
            thread.join()

    def _run(self, function: Callable[[], None], awake: threading.Event) -> None:
        awake.wait()
        try:
            function()
        finally:
            self._wake_next()

    def _wake_after(self, seconds: float) -> threading.Event:
        awake = threading.Event()
        heapq.heappush(self._waiting, (self.now + seconds, next(self._order), awake))
        return awake

    def _wake_next(self) -> None:
        if self._waiting:
            self.now, _, awake = heapq.heappop(self._waiting)
            awake.set()
