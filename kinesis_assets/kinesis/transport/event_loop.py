"""An event loop that runs many generators in one thread: while some wait, others continue.

Threads would compete for Python's global interpreter lock. For a call that returns little data, switching
between threads costs more than the call itself.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from heapq import heappop, heappush
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from socket import socketpair
from typing import TYPE_CHECKING, assert_never

from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.transport.waits import MemoryWait, Pause, SocketWait, ThreadWait

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from selectors import BaseSelector, SelectorKey
    from socket import socket

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.transport.waits import NonBlocking, Wait


class EventLoop:
    """Runs generators until all have ended. A loop can be used once.

    Args:
        concurrency: Maximum number of generators that run at the same time. One that pauses does not count.
        clock: The clock that pauses go by. The timeouts of sockets go by the machine's, as their peers do.
    """

    def __init__(self, concurrency: int, clock: Clock = MACHINE_CLOCK) -> None:
        self._concurrency = concurrency
        self._clock = clock
        self._running = 0
        self._remaining = 0
        self._pauses_end = False
        self._woken = threading.Event()
        self._paused: list[tuple[float, int]] = []  # a heap
        self._generators: Sequence[NonBlocking[None]] = ()
        self._socket_waits: dict[int, tuple[float, SocketWait]] = {}
        self._earliest_deadline = math.inf  # of the socket waits
        self._memory_waits: deque[tuple[MemoryWait, int]] = deque()
        self._thread_calls_done: deque[int] = deque()
        self._selector: BaseSelector
        self._wake_receiver: socket
        self._wake_sender: socket | None = None  # other threads wake the loop by sending a byte

    def cancel_pauses(self) -> None:
        """End all current and future pauses. Any thread may call this, at any time."""
        self._pauses_end = True
        self._wake()

    def run(self, generators: Sequence[NonBlocking[None]]) -> None:
        """Run generators until all have ended.

        They start in the given order. Those that paused continue in the order in which their pauses end.

        Raises whatever a generator raises, after closing the others.
        """
        self._generators = generators
        self._remaining = len(generators)
        self._paused = [(0.0, number) for number in range(len(generators))]
        with ExitStack() as stack:
            self._selector = stack.enter_context(DefaultSelector())
            self._wake_receiver, self._wake_sender = map(stack.enter_context, socketpair())
            self._wake_sender.setblocking(False)
            self._selector.register(self._wake_receiver, EVENT_READ)
            for generator in generators:
                stack.callback(generator.close)
            threads = stack.enter_context(ThreadPoolExecutor(self._concurrency))
            while self._remaining:
                for number in self._ready():
                    self._step(number, threads)

    def _ready(self) -> Iterator[int]:
        """Wait until generators can continue, and yield the number of each as soon as it is known."""
        yield from self._ready_without_sockets()
        events = self._select(self._seconds_to_wait())
        now = time.monotonic()
        for key, _ in events:
            if key.data is None:
                self._wake_receiver.recv(4096)
            else:
                self._remove_socket_wait(key.data)
                yield key.data
            yield from self._ready_without_sockets()
        if self._earliest_deadline <= now:
            yield from self._timed_out(now)

    def _timed_out(self, now: float) -> Iterator[int]:
        """Yield the generators whose sockets were not ready before their deadlines."""
        for number, (deadline, wait) in [*self._socket_waits.items()]:
            if deadline <= now:
                wait.timed_out = True
                self._remove_socket_wait(number)
                yield number
        deadlines = (deadline for deadline, _ in self._socket_waits.values())
        self._earliest_deadline = min(deadlines, default=math.inf)

    def _ready_without_sockets(self) -> Iterator[int]:
        """Yield the generators that can continue and wait for no socket."""
        while self._thread_calls_done:
            yield self._thread_calls_done.popleft()
        while self._memory_waits and self._memory_waits[0][0].is_over():
            yield self._memory_waits.popleft()[1]
        while self._seconds_until_next() <= 0:
            self._running += 1
            yield heappop(self._paused)[1]

    def _step(self, number: int, threads: ThreadPoolExecutor) -> None:
        wait: Wait | None = next(self._generators[number], None)
        match wait:
            case SocketWait():
                event = EVENT_WRITE if wait.to_send else EVENT_READ
                deadline = time.monotonic() + wait.seconds
                self._socket_waits[number] = deadline, wait
                self._earliest_deadline = min(self._earliest_deadline, deadline)
                self._selector.register(wait.socket, event, number)
            case MemoryWait():
                self._memory_waits.append((wait, number))
            case ThreadWait():
                threads.submit(self._call_in_thread, wait, number)
            case Pause():
                self._running -= 1
                heappush(self._paused, (self._clock.monotonic() + wait.seconds, number))
            case None:
                self._running -= 1
                self._remaining -= 1
            case _:
                assert_never(wait)

    def _call_in_thread(self, wait: ThreadWait[object], number: int) -> None:
        wait.block()
        self._thread_calls_done.append(number)
        self._wake()

    def _remove_socket_wait(self, number: int) -> None:
        _, wait = self._socket_waits.pop(number)
        self._selector.unregister(wait.socket)

    def _seconds_until_next(self) -> float:
        """Return the seconds until a paused generator can continue; infinity if others must finish first."""
        if not self._paused or self._running >= self._concurrency:
            return math.inf
        return 0.0 if self._pauses_end else self._paused[0][0] - self._clock.monotonic()

    def _select(self, seconds: float | None) -> list[tuple[SelectorKey, int]]:
        """Wait for sockets and threads, or if nothing waits for one, for the end of a pause."""
        if self._running > len(self._memory_waits) or not self._remaining:
            return self._selector.select(seconds)
        self._clock.wait(self._woken, seconds)
        self._woken.clear()
        return []

    def _seconds_to_wait(self) -> float | None:
        """Return how many seconds to wait; None for no limit."""
        waits = self._memory_waits
        if not self._remaining or self._thread_calls_done or (waits and waits[0][0].is_over()):
            return 0.0
        seconds = self._seconds_until_next()
        if self._socket_waits:
            seconds = min(seconds, self._earliest_deadline - time.monotonic())
        elif seconds == math.inf and len(waits) == self._running:
            waits[0][0].block()  # raises: every running generator waits for memory
        return None if seconds == math.inf else max(0.0, seconds)

    def _wake(self) -> None:
        self._woken.set()
        if self._wake_sender is not None:
            with suppress(OSError):  # the buffer is full already, or the loop has ended
                self._wake_sender.send(b"\0")
