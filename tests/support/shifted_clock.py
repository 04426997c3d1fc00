"""The machine's clock, with hours added by a test."""

from __future__ import annotations

import time


class HoursClock:
    """Stands in for the module `time`."""

    sleep = staticmethod(time.sleep)
    _passed = 0.0

    def pass_by(self, hours: float) -> None:
        """Let so much time have passed."""
        self._passed += hours * 3600

    def monotonic(self) -> float:
        return time.monotonic() + self._passed

    def time_ns(self) -> int:
        return time.time_ns() + int(self._passed * 1e9)

    def time(self) -> float:
        return self.time_ns() / 1e9
