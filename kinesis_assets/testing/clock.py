"""A clock for the embedded stream that tests control."""

from __future__ import annotations

import time


class Clock:
    """The service's clock in a test, which only moves when it is advanced: `LocalKinesis(now=clock)`.

    It determines arrival times, retention, the expiry of iterators and the `Date` header. It starts at the
    current second. It must not go back, because the service's time never does.

    Attributes:
        seconds: The current time in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))

    def __call__(self) -> float:
        """Return the current time in seconds since the epoch."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self.seconds += seconds
