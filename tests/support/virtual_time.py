"""The machine's clock in the hands of a test: whoever waits moves it, and nobody is kept waiting."""

from __future__ import annotations


class VirtualTime:
    """Stands in for the module `time` where one thread alone waits.

    Attributes:
        now: Seconds, as `monotonic` tells them.
        waits: Every wait, in seconds, in order.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
