"""Many pieces of work, done side by side by one thread: while some wait, others go on.

Threads would fight for Python's one interpreter, and for a call that brings little, handing it on costs more
than the call itself.
"""

from __future__ import annotations

import math
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from heapq import heappop, heappush
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from socket import socketpair
from typing import TYPE_CHECKING, assert_never

from kinesis_assets.kinesis.transport.awaitables import Pause, RoomWait, SocketWait, ThreadWait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from selectors import BaseSelector
    from socket import socket

    from kinesis_assets.kinesis.transport.awaitables import Wait, Waits


class EventLoop:
    """Does work until all of it is done, once.

    Args:
        at_once: Pieces of work that may be under way at once. One that pauses is not.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._under_way = 0
        self._left = 0
        self._hurried = False
        self._due: list[tuple[float, int]] = []
        self._works: Sequence[Waits[None]] = ()
        self._on_sockets: dict[int, tuple[float, SocketWait]] = {}
        self._no_limit_before = math.inf  # of those
        self._for_room: deque[tuple[RoomWait, int]] = deque()
        self._done_by_threads: deque[int] = deque()
        self._sockets: BaseSelector
        self._woken: socket
        self._waker: socket | None = None  # other threads wake this one by a byte

    def hurry(self) -> None:
        """From now on no pause lasts any longer. Any thread may call this, at any time."""
        self._hurried = True
        self._wake()

    def run(self, works: Sequence[Waits[None]]) -> None:
        """Do all of it. Who is first in it begins first; later, whose pause ended first.

        Raises what a piece of work raises; the others are closed then.
        """
        self._works = works
        self._left = len(works)
        self._due = [(0.0, number) for number in range(len(works))]
        with ExitStack() as stack:
            self._sockets = stack.enter_context(DefaultSelector())
            self._woken, self._waker = map(stack.enter_context, socketpair())
            self._waker.setblocking(False)
            self._sockets.register(self._woken, EVENT_READ)
            for work in works:
                stack.callback(work.close)
            threads = stack.enter_context(ThreadPoolExecutor(self._at_once))
            while self._left:
                for number in self._ready():
                    self._go_on(number, threads)

    def _ready(self) -> Iterator[int]:
        """Wait until some can go on; which, each as soon as that is seen."""
        yield from self._without_sockets()
        events = self._sockets.select(self._seconds())
        now = time.monotonic()
        for key, _ in events:
            if key.data is None:
                self._woken.recv(4096)
            else:
                self._off_socket(key.data)
                yield key.data
            yield from self._without_sockets()
        if self._no_limit_before <= now:
            yield from self._timed_out(now)

    def _timed_out(self, now: float) -> Iterator[int]:
        """Those whose sockets had nothing for too long."""
        for number, (limit, wait) in [*self._on_sockets.items()]:
            if limit <= now:
                wait.timed_out = True
                self._off_socket(number)
                yield number
        self._no_limit_before = min((limit for limit, _ in self._on_sockets.values()), default=math.inf)

    def _without_sockets(self) -> Iterator[int]:
        """Those for whom no socket is to be looked at."""
        while self._done_by_threads:
            yield self._done_by_threads.popleft()
        while self._for_room and self._for_room[0][0].is_over():
            yield self._for_room.popleft()[1]
        while self._seconds_until_due() <= 0:
            self._under_way += 1
            yield heappop(self._due)[1]

    def _go_on(self, number: int, threads: ThreadPoolExecutor) -> None:
        wait: Wait | None = next(self._works[number], None)
        match wait:
            case SocketWait():
                event = EVENT_WRITE if wait.to_send else EVENT_READ
                limit = time.monotonic() + wait.seconds
                self._on_sockets[number] = limit, wait
                self._no_limit_before = min(self._no_limit_before, limit)
                self._sockets.register(wait.socket, event, number)
            case RoomWait():
                self._for_room.append((wait, number))
            case ThreadWait():
                threads.submit(self._by_thread, wait, number)
            case Pause():
                self._under_way -= 1
                heappush(self._due, (time.monotonic() + wait.seconds, number))
            case None:
                self._under_way -= 1
                self._left -= 1
            case _:
                assert_never(wait)

    def _by_thread(self, wait: ThreadWait[object], number: int) -> None:
        wait.wait_out()
        self._done_by_threads.append(number)
        self._wake()

    def _off_socket(self, number: int) -> None:
        _, wait = self._on_sockets.pop(number)
        self._sockets.unregister(wait.socket)

    def _seconds_until_due(self) -> float:
        """Until one more can begin; infinity if none can before others are done."""
        if not self._due or self._under_way >= self._at_once:
            return math.inf
        return 0.0 if self._hurried else self._due[0][0] - time.monotonic()

    def _seconds(self) -> float | None:
        """How long to look at sockets at most; None for as long as it takes."""
        if not self._left or self._done_by_threads or (self._for_room and self._for_room[0][0].is_over()):
            return 0.0
        seconds = self._seconds_until_due()
        if self._on_sockets:
            seconds = min(seconds, self._no_limit_before - time.monotonic())
        elif seconds == math.inf and len(self._for_room) == self._under_way:
            self._for_room[0][0].wait_out()  # in vain
        return None if seconds == math.inf else max(0.0, seconds)

    def _wake(self) -> None:
        if self._waker is not None:
            with suppress(OSError):  # there are bytes enough already, or all is over
                self._waker.send(b"\0")
