"""A clock that only waits advance."""

from __future__ import annotations


class VirtualTime:
    """A clock for code in which one thread alone waits. Nobody is kept waiting.

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
