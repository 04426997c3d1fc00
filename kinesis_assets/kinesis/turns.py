"""Many shards read by a few threads: each thread takes the shard that is due next.

A shard that waits (for its pace, its back-off, the end of its throttling) holds no thread, so it holds no
other shard back.
"""

from __future__ import annotations

import threading
import time
from heapq import heapify, heappop, heappush


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
        self._led = False
        self._changed = threading.Condition()

    def next(self) -> int | None:
        """Wait for the next one that is due; None once all are over. It is not due again before `later`."""
        with self._changed:
            while self._left > 0:
                wait = self._due[0][0] - time.monotonic() if self._due and not self._hurried else 0.0
                if self._due and wait <= 0:
                    number = heappop(self._due)[1]
                    self._changed.notify()
                    return number
                if self._due and not self._led:
                    # One thread alone looks at the clock; it wakes the next one when it goes.
                    self._led = True
                    self._changed.wait(wait)
                    self._led = False
                else:
                    self._changed.wait()
            self._changed.notify_all()
            return None

    def later(self, number: int, seconds: float) -> None:
        """It is due again in so many seconds."""
        with self._changed:
            entry = (time.monotonic() + seconds, number)
            heappush(self._due, entry)
            if self._due[0] == entry:
                self._changed.notify_all()  # whoever looks at the clock waits for another one
            elif not self._led:
                self._changed.notify()

    def over(self) -> None:
        """One that was given out is not due again."""
        with self._changed:
            self._left -= 1
            if self._left <= 0:
                self._changed.notify_all()

    def hurry(self) -> None:
        """From now on all are due at once."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def end(self) -> None:
        """All are over."""
        with self._changed:
            self._left = 0
            self._changed.notify_all()
