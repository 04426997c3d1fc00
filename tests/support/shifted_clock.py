"""This machine's clock, which a test can shift."""

from __future__ import annotations

import time

from kinesis_assets.kinesis.clock import MACHINE_CLOCK


class ShiftedClock:
    """The machine's time plus an offset. Waits are real.

    Attributes:
        offset: Seconds that are added to the time since the epoch.
        passed: Seconds that have passed in addition, by all clocks.
    """

    sleep = staticmethod(time.sleep)
    call_later = staticmethod(MACHINE_CLOCK.call_later)

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset
        self.passed = 0.0

    def advance(self, hours: float) -> None:
        """Let a number of hours pass."""
        self.passed += hours * 3600

    def monotonic(self) -> float:
        return time.monotonic() + self.passed

    def time(self) -> float:
        return time.time() + self.passed + self.offset
