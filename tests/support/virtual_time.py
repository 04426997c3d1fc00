"""Clocks of which the time is not this machine's."""

from __future__ import annotations

import asyncio
import threading
import time
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class VirtualTime:
    """A clock that only waits advance, for code in which one thread alone waits. Nobody is kept waiting.

    In an event loop, no time passes while a task has something else to do than wait for this clock.

    Attributes:
        now: The time in seconds.
        waits: Every wait, in seconds, in order.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self._order = count()  # of calls that are due at the same time
        self._due: list[tuple[float, int, float, float, asyncio.Handle]] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def wait(self, event: threading.Event, seconds: float | None) -> None:
        """Wait until an event is set, for at most some seconds. Without a limit, wait in real time."""
        _wait(event, seconds, self.sleep)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        loop = asyncio.get_running_loop()
        handle = asyncio.Handle(callback, args, loop)
        heappush(self._due, (self.now + seconds, next(self._order), seconds, self.now, handle))
        loop.call_soon(self._pass_time, loop)
        return handle

    def _pass_time(self, loop: Any) -> None:
        """Let the time pass until the next call is due, once the loop has nothing else to do."""
        if loop._ready or len(loop._selector.get_map()) > 1:  # one wakes the loop, others are connections
            loop.call_later(0.001, self._pass_time, loop)
            return
        due, _, seconds, began, handle = heappop(self._due)
        if not handle.cancelled():
            self.waits.append(seconds if self.now == began else due - self.now)
            self.now = max(self.now, due)
            handle._run()


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

    def wait(self, event: threading.Event, seconds: float | None) -> None:
        """Wait until an event is set, for at most some seconds. Without a limit, wait in real time."""
        _wait(event, seconds, self.sleep)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        self.now += seconds
        return asyncio.get_running_loop().call_soon(callback, *args)


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
        heappush(self._waiting, (self.now + seconds, next(self._order), awake))
        return awake

    def _wake_next(self) -> None:
        if self._waiting:
            self.now, _, awake = heappop(self._waiting)
            awake.set()


def _wait(event: threading.Event, seconds: float | None, sleep: Callable[[float], None]) -> None:
    if seconds is None:
        event.wait()
    elif not event.is_set():
        sleep(seconds)
