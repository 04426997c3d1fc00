"""The clock of this machine, which a test can replace."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock(Protocol):
    """A clock, with the functions of `time` and the wait of an event."""

    def monotonic(self) -> float:
        """Return a time in seconds that never goes back."""
        ...

    def time(self) -> float:
        """Return the time in seconds since the epoch."""
        ...

    def sleep(self, seconds: float, /) -> object:
        """Wait."""
        ...

    def wait(self, event: threading.Event, seconds: float | None, /) -> object:
        """Wait until an event is set, for at most a number of seconds. None is no limit."""
        ...

    def call_later(self, seconds: float, callback: Callable[..., object], /, *args: Any) -> asyncio.Handle:
        """Let the running event loop call a function after a number of seconds."""
        ...


@dataclass(frozen=True, slots=True)
class MachineClock:
    """This machine's clock. All instances are equal, on other machines too."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    time = staticmethod(time.time)
    wait = staticmethod(threading.Event.wait)

    def call_later(self, seconds: float, callback: Callable[..., object], /, *args: Any) -> asyncio.Handle:
        """Let the running event loop call a function after a number of seconds."""
        return asyncio.get_running_loop().call_later(seconds, callback, *args)


MACHINE_CLOCK = MachineClock()


def utc_now(clock: Clock) -> datetime:
    """Return the time of a clock, UTC."""
    return datetime.fromtimestamp(clock.time(), UTC)
