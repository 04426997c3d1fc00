"""Many shards read by a few threads: each thread takes the shard that is due next.

A shard that waits (for its pace, its back-off, the end of its throttling) holds no thread, so it holds no
other shard back. A thread that waits for a shard lets others work.
"""

from __future__ import annotations

import math
import threading
import time
from heapq import heapify, heappop, heappush

from kinesis_assets.kinesis.work_lock import let_go


class Turns:
    """Whose turn it is. Shared by threads.

    All are due at once at first, the lower numbers before the higher ones.

    Args:
        count: The numbers from 0 to below it are given out, each again and again until it is over.
    """

    def __init__(self, count: int) -> None:
        self._due = [(0.0, number) for number in range(count)]
        heapify(self._due)
        self._left = count
        self._hurried = False
        self._lock = threading.Lock()
        # One thread alone looks at the clock, the others are called one by one: to wake all of them at each
        # change costs more than the reading.
        self._clock = threading.Condition(self._lock)
        self._others = threading.Condition(self._lock)
        self._looked_at = False

    def next(self) -> int | None:
        """Wait for the next one that is due; None once all are over. It is not due again before `later`."""
        while True:
            with self._lock:
                if self._left <= 0:
                    self._call_all()
                    return None
                if self._seconds() <= 0:
                    number = heappop(self._due)[1]
                    if self._due:
                        self._call()
                    return number
            with let_go(), self._lock:
                self._wait()

    def later(self, number: int, seconds: float) -> None:
        """It is due again in so many seconds."""
        with self._lock:
            heappush(self._due, (time.monotonic() + seconds, number))
            self._call()

    def over(self) -> None:
        """One that was given out is not due again."""
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                self._call_all()

    def hurry(self) -> None:
        """From now on all are due at once."""
        with self._lock:
            self._hurried = True
            self._call_all()

    def end(self) -> None:
        """All are over."""
        with self._lock:
            self._left = 0
            self._call_all()

    def _seconds(self) -> float:
        """Until the next one is due; infinity if nobody knows yet."""
        if not self._due:
            return math.inf
        return 0.0 if self._hurried else self._due[0][0] - time.monotonic()

    def _wait(self) -> None:
        seconds = self._seconds()
        if self._left <= 0 or seconds <= 0:
            return
        if self._due and not self._looked_at:
            self._looked_at = True
            self._clock.wait(seconds)
            self._looked_at = False
        else:
            self._others.wait()

    def _call(self) -> None:
        """Have one thread see what is due now: who looks at the clock, or another one if nobody does."""
        (self._clock if self._looked_at else self._others).notify()

    def _call_all(self) -> None:
        self._clock.notify_all()
        self._others.notify_all()
