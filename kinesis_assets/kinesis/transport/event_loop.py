"""An event loop that runs many generators in one thread: while some wait, others continue.

Threads would compete for Python's global interpreter lock. For a call that returns little data, switching
between threads costs more than the call itself.

Generator-based coroutines, and the events that they wait for. Code that reads from the service does not
block. It is a generator that yields each event that it waits for, and continues when the next step is
requested.

`run_until_complete` runs one generator and blocks for each event. `event_loop` runs many: while some wait,
the others continue.

A limit on the memory that the pages of many shards use together.
"""

from __future__ import annotations

import math
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from socket import socketpair
from typing import TYPE_CHECKING, Any, Generic, TypeVar, assert_never

from urllib3.util import wait_for_read, wait_for_write

from kinesis_assets.kinesis.clock import MACHINE_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from selectors import BaseSelector, SelectorKey
    from socket import socket

    from kinesis_assets.kinesis.clock import Clock


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


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pause:
    """A number of seconds has passed.

    A paused generator does not count as running, so it must not hold anything that others wait for.

    Attributes:
        seconds: 0 or more.
    """

    seconds: float

    def block(self) -> None:
        """Block until the event."""
        time.sleep(self.seconds)


@dataclass(slots=True)
class SocketWait:
    """A socket is ready for receiving or sending.

    Attributes:
        socket: A non-blocking socket.
        to_send: Whether to wait for sending; otherwise for receiving.
        seconds: Maximum time to wait.
        timed_out: Whether `seconds` passed before the socket was ready. Set by the code that waits.
    """

    socket: socket
    to_send: bool
    seconds: float
    timed_out: bool = False

    def block(self) -> None:
        """Block until the event."""
        wait = wait_for_write if self.to_send else wait_for_read
        self.timed_out = not wait(self.socket, self.seconds)


class ThreadWait(Generic[_T]):
    """A blocking function has returned. The event loop calls it in another thread.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[[], _T]) -> None:
        self._function = function
        self._future: Future[_T] = Future()

    def block(self) -> None:
        """Call the function."""
        try:
            self._future.set_result(self._function())
        except BaseException as error:  # noqa: BLE001  # `result` raises it
            self._future.set_exception(error)

    def result(self) -> _T:
        """Return what the function returned, or raise what it raised."""
        return self._future.result()


@dataclass(frozen=True, slots=True)
class MemoryWait:
    """Memory for a page is available; see `memory_limiter`. All generators of one loop share one limiter.

    Attributes:
        is_over: Returns whether the memory is available.
    """

    is_over: Callable[[], bool]

    def block(self) -> None:
        """Raise an error: nothing else runs that could release memory."""
        raise RuntimeError("no memory is available, and no other work can release any")


Wait = Pause | SocketWait | ThreadWait[Any] | MemoryWait
"""An event that a generator waits for."""

NonBlocking = Generator[Wait, None, _T]
"""A generator that yields the events that it waits for, and returns a result.

It is no coroutine of asyncio: our event loop can also wait for memory, and a single call needs no loop.
"""


def run_until_complete(generator: NonBlocking[_T]) -> _T:
    """Run a generator to its end in this thread, blocking for each event, and return its result."""
    with closing(generator):
        while True:
            try:
                wait = next(generator)
            except StopIteration as end:
                result: _T = end.value
                return result
            wait.block()


def with_socket_timeout(generator: NonBlocking[_T], seconds: float) -> NonBlocking[_T]:
    """Run a generator with an upper limit for each wait for a socket.

    Args:
        generator: The generator.
        seconds: Maximum for each wait; shorter limits of the generator itself still apply.
    """
    with closing(generator):
        while True:
            try:
                wait = next(generator)
            except StopIteration as end:
                result: _T = end.value
                return result
            if isinstance(wait, SocketWait):
                wait.seconds = min(wait.seconds, seconds)
            yield wait


def with_deadline(generator: NonBlocking[_T], seconds_left: Callable[[], float]) -> NonBlocking[_T]:
    """Run a generator that waits for no socket after a deadline, however often data arrives until then.

    After the deadline, its next wait for a socket raises `TimeoutError` in it.

    Args:
        generator: The generator.
        seconds_left: Returns the seconds until the deadline.
    """
    late = False
    with closing(generator):
        while True:
            try:
                wait = generator.throw(TimeoutError("the deadline has passed")) if late else next(generator)
            except StopIteration as end:
                result: _T = end.value
                return result
            seconds = seconds_left()
            late = isinstance(wait, SocketWait) and seconds <= 0
            if isinstance(wait, SocketWait):
                wait.seconds = min(wait.seconds, seconds)
            if not late:
                yield wait


def to_thread(function: Callable[[], _T]) -> NonBlocking[_T]:
    """Call a blocking function in another thread, and return its result."""
    wait = ThreadWait(function)
    yield wait
    return wait.result()


def wait_for_socket(socket: socket, seconds: float, *, to_send: bool = False) -> NonBlocking[None]:
    """Wait until a socket is ready for receiving, or for sending.

    Raises:
        TimeoutError: It was not ready within `seconds`.
    """
    wait = SocketWait(socket, to_send, seconds)
    yield wait
    if wait.timed_out:
        raise TimeoutError("timed out")


def call_when_ready(function: Callable[[], _T], socket: socket, seconds: float) -> NonBlocking[_T]:
    """Call a function that receives from a non-blocking socket or sends to it, until it does not block.

    Args:
        function: The function; it is called again whenever the socket is ready.
        socket: The socket.
        seconds: Maximum time to wait before each call.

    Raises:
        TimeoutError: The socket was not ready within `seconds`.
        OSError: The connection failed.
    """
    while True:
        try:
            return function()
        except (BlockingIOError, ssl.SSLWantReadError):
            to_send = False
        except ssl.SSLWantWriteError:
            to_send = True
        # Outside of the except block: the error would keep its frames alive, and with them a part of a body.
        yield from wait_for_socket(socket, seconds, to_send=to_send)


class MemoryLimiter:
    """Limits the total size of the pages that are in memory. Not thread-safe.

    Waiters are served first in, first out, so that small pages never starve a large one. A request for more
    than the capacity is reduced to the capacity: it waits until no other page is in memory.

    Args:
        capacity: In bytes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._reserved = 0
        self._waiting: deque[Reservation] = deque()

    def reservation(self) -> Reservation:
        """Return an empty reservation, for one page at a time."""
        return Reservation(self)

    def acquire(self, amount: int, reservation: Reservation) -> NonBlocking[int]:
        """Reserve bytes once they are free, and return how many were reserved.

        Args:
            amount: In bytes.
            reservation: The reservation that they are for; it determines the place in the queue.
        """
        amount = min(amount, self._capacity)
        self._waiting.append(reservation)
        try:
            while not self._is_free(amount, reservation):
                yield MemoryWait(lambda: self._is_free(amount, reservation))
        finally:
            self._waiting.remove(reservation)
        self._reserved += amount
        return amount

    def release(self, amount: int) -> None:
        """Free reserved bytes."""
        self._reserved -= amount

    def _is_free(self, amount: int, reservation: Reservation) -> bool:
        return self._waiting[0] is reservation and self._reserved + amount <= self._capacity


class Reservation:
    """The memory that is reserved for one page at a time.

    A reservation is empty while it waits, so that waiters never wait for each other.
    """

    def __init__(self, limiter: MemoryLimiter) -> None:
        self._limiter = limiter
        self._held = 0

    def acquire(self, amount: int) -> NonBlocking[None]:
        """Release the reserved bytes and reserve `amount` bytes instead."""
        self.release()
        self._held = yield from self._limiter.acquire(amount, self)

    def release(self) -> None:
        """Release all reserved bytes."""
        if self._held:
            held, self._held = self._held, 0
            self._limiter.release(held)
