"""The service's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.emulator.shapes import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """A monotonic clock in milliseconds since the epoch, based on any source of seconds."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._latest = 0
        self._era = 0

    def now(self) -> int:
        """Return the current time, which is never earlier than a time returned before."""
        self._latest = max(self._latest, milliseconds(self._seconds()))
        return self._latest

    def tick(self) -> int:
        """Return a time later than every time returned before, so that it separates what is old and new."""
        self._latest = max(self._latest + 1, milliseconds(self._seconds()))
        return self._latest

    def era(self) -> int:
        """Return the second that new shards carry in their sequence numbers. Each call returns a larger one.

        Shards of a later era have larger sequence numbers than all shards of an earlier era. The era runs
        ahead of the clock if it is called several times within a second; clients cannot observe that.
        """
        self._era = max(self._era + 1, self.now() // 1000)
        return self._era
