"""Whether a shard's answers bring its reading on, and for how long they have not."""

from __future__ import annotations

import math
import time

STALL_SECONDS = 300.0
"""A shard has failed that for so long gave no record and did not come nearer to its tip faster than time
passes."""


class Progress:
    """One reading's.

    Seconds in vain count from the first answer, or failure, that brought nothing: until then the shard may
    have waited for others.

    Args:
        patience: Seconds in vain while others wait; None is `STALL_SECONDS`.
    """

    def __init__(self, patience: float | None) -> None:
        self._patience = patience
        self._last = 0.0  # answer that brought it on, and
        self._nearest = math.inf  # how far behind the tip it was: the first one always does
        self._in_vain_since: float | None = None

    def note_answer(self, millis_behind_latest: int, *, any_records: bool) -> None:
        """An answer came."""
        now = time.monotonic()
        gained_ms = self._nearest - millis_behind_latest
        if any_records or gained_ms >= (now - self._last) * 1000:
            self._last, self._nearest = now, millis_behind_latest
            self._in_vain_since = None
        else:
            self.note_in_vain()

    def note_in_vain(self) -> None:
        """A call brought nothing."""
        if self._in_vain_since is None:
            self._in_vain_since = time.monotonic()

    @property
    def stalled(self) -> bool:
        """Whether nothing has come for too long, whoever waits."""
        return self._in_vain_for_more_than(STALL_SECONDS)

    @property
    def out_of_patience(self) -> bool:
        """Whether nothing has come for as long as others are to wait."""
        return self._patience is not None and self._in_vain_for_more_than(self._patience)

    def _in_vain_for_more_than(self, seconds: float) -> bool:
        since = self._in_vain_since
        return since is not None and time.monotonic() - since > seconds
