"""One thread at work.

A task calls many shards at once, and what comes of the calls is work for Python's one interpreter. Where
threads fight for it, much of the CPU goes into the fight, and all of their pages are done late together, not
one after the other. So a thread that waits for the network or a file lets another one work, and goes on when
its turn comes.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_this = threading.local()


class WorkLock:
    """A lock that is handed on: to those that come back first, then to those that begin, each in their order.

    Where answers come at once, few threads ever begin, and pages do not wait in numbers for their turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_held = False
        self._back: deque[threading.Lock] = deque()
        self._new: deque[threading.Lock] = deque()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within, this thread is the one at work, but for where it lets go."""
        self._take(self._new)
        _this.lock = self
        try:
            yield
        finally:
            _this.lock = None
            self._hand_on()

    def _take(self, waiting: deque[threading.Lock]) -> None:
        with self._lock:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            waiting.append(turn)
        turn.acquire()

    def _hand_on(self) -> None:
        with self._lock:
            waiting = self._back or self._new
            if waiting:
                waiting.popleft().release()
            else:
                self._is_held = False


@contextmanager
def let_go() -> Iterator[None]:
    """Within, this thread waits for something, and another one may work. Who is not at work just goes on."""
    lock: WorkLock | None = getattr(_this, "lock", None)
    if lock is None:
        yield
        return
    _this.lock = None
    lock._hand_on()  # noqa: SLF001  # this module's own
    try:
        yield
    finally:
        lock._take(lock._back)  # noqa: SLF001
        _this.lock = lock
