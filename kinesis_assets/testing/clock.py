"""The service's time, in the hands of a test."""

from __future__ import annotations

import time


class Clock:
    """A clock of the service that stands still until it is moved: `LocalKinesis(now=clock)`.

    Arrival times, retention, the five minutes of an iterator and the Date header all go by it. It begins at
    the present second. The service's time never goes back, so nor should the clock.

    Attributes:
        seconds: What it shows, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.seconds = float(int(time.time()))

    def __call__(self) -> float:
        """What it shows."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Move it on."""
        self.seconds += seconds
