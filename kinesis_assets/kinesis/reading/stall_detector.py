"""Detect a shard whose responses make no progress."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinesis_assets.kinesis.read_timing import ReadTiming


class StallDetector:
    """The progress of one reading.

    Time without progress starts at the first response or failure without progress: before it, the shard may
    have waited for other shards. The first response is always progress.

    Args:
        retry_seconds: The maximum time in seconds without progress while other shards wait; None disables it.
        timing: The maximum time without progress in any case, and the clock.
    """

    def __init__(self, retry_seconds: float | None, timing: ReadTiming) -> None:
        self._clock = timing.clock
        self._stall_seconds = timing.stall_seconds
        self._retry_seconds = retry_seconds
        self._progress_at = 0.0
        self._nearest = math.inf  # milliseconds to the tip at that time
        self._stalled_since: float | None = None

    def note_response(self, millis_behind_latest: int, *, any_records: bool) -> None:
        """Record a response."""
        now = self._clock.monotonic()
        gained_ms = self._nearest - millis_behind_latest
        if any_records or gained_ms >= (now - self._progress_at) * 1000:
            self._progress_at, self._nearest = now, millis_behind_latest
            self._stalled_since = None
        else:
            self.note_no_progress()

    def note_no_progress(self) -> None:
        """Record a call without progress."""
        if self._stalled_since is None:
            self._stalled_since = self._clock.monotonic()

    @property
    def stalled(self) -> bool:
        """Whether the shard has made no progress for `ReadTiming.stall_seconds`."""
        return self._stalled_for_more_than(self._stall_seconds)

    @property
    def retry_time_over(self) -> bool:
        """Whether the shard has made no progress for as long as other shards wait for it."""
        return self._retry_seconds is not None and self._stalled_for_more_than(self._retry_seconds)

    def _stalled_for_more_than(self, seconds: float) -> bool:
        since = self._stalled_since
        return since is not None and self._clock.monotonic() - since > seconds
