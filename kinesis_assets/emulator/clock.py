"""Time as the service sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.emulator.shapes import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """Milliseconds since the epoch that never go back, over any source of seconds."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._latest = 0
        self._era = 0

    def now(self) -> int:
        """The present; never before a moment that was given out earlier."""
        self._latest = max(self._latest, milliseconds(self._seconds()))
        return self._latest

    def tick(self) -> int:
        """A present strictly after every moment given out: what begins here is told apart from what was."""
        self._latest = max(self._latest + 1, milliseconds(self._seconds()))
        return self._latest

    def era(self) -> int:
        """The second that new shards carry in their sequence numbers; strictly grows.

        Shards of a later era have larger sequence numbers than any shard of an earlier one. It runs ahead of
        the time when several are drawn within a second, which nobody sees.
        """
        self._era = max(self._era + 1, self.now() // 1000)
        return self._era
