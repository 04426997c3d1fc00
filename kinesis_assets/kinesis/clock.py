"""The clock of this machine, which a test can replace."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A clock, with the functions of `time`."""

    def monotonic(self) -> float:
        """Return a time in seconds that never goes back."""
        ...

    def time(self) -> float:
        """Return the time in seconds since the epoch."""
        ...

    def sleep(self, seconds: float, /) -> object:
        """Wait."""
        ...


@dataclass(frozen=True, slots=True)
class MachineClock:
    """This machine's clock. All instances are equal, on other machines too."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)


MACHINE_CLOCK = MachineClock()


def utc_now(clock: Clock) -> datetime:
    """Return the time of a clock, UTC."""
    return datetime.fromtimestamp(clock.time(), UTC)
