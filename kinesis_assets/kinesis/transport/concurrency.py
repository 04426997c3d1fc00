"""Concurrent calls in one event loop of asyncio: whose turn it is, and how much memory their pages use.

Threads would compete for Python's global interpreter lock. For a call that returns little data, switching
between threads costs more than the call itself.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kinesis_assets.kinesis.clock import MACHINE_CLOCK

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator

    from kinesis_assets.kinesis.clock import Clock

_T = TypeVar("_T")

_WAIT_SECONDS = 1.0
"""A signal that arrives immediately before a wait does not end it: its handler is called after the wait."""


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in an event loop of its own, for code that is not `async`, and return its result."""
    with _runner() as runs:
        return runs(coroutine)


def iterate(items: AsyncGenerator[_T]) -> Iterator[_T]:
    """Iterate over items in an event loop of their own, for code that is not `async`."""

    async def following() -> tuple[_T, ...]:
        async for item in items:
            return (item,)
        return ()

    async def closed() -> None:
        await items.aclose()

    with _runner() as runs:
        try:
            while found := runs(following()):
                yield from found
                del found
        finally:
            runs(closed())


@contextmanager
def _runner() -> Iterator[Callable[[Coroutine[Any, Any, _T]], _T]]:
    """Return a function that runs coroutines in one new event loop.

    A thread that runs a loop already, such as that of a notebook, cannot run another: a second thread does.
    So it does where a signal handler may raise, as that of Dagster does to terminate a run: what it raises in
    a callback is only logged, and in the loop itself it takes away what would wake a coroutine up.
    """
    # Without the factory, it would also replace the loop that the thread has set, which others use.
    runner = asyncio.Runner(loop_factory=asyncio.SelectorEventLoop)
    if not _loop_runs() and not _handlers_raise():
        with runner:
            yield runner.run
        return
    with ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(runner.get_loop).result()  # an interrupt now would find no coroutine
            yield lambda coroutine: _run_in(thread, runner, coroutine)
        finally:
            thread.submit(runner.close).result()


def _run_in(thread: ThreadPoolExecutor, runner: asyncio.Runner, coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in the loop of a thread. What interrupts the calling thread cancels it."""
    over = threading.Event()
    running: list[asyncio.Task[Any]] = []

    async def starts() -> _T:
        running.extend(filter(None, [asyncio.current_task()]))
        if over.is_set():
            running[0].cancel()
        return await coroutine

    try:
        result = thread.submit(runner.run, starts())
        while wait([result], _WAIT_SECONDS).not_done:
            pass
        return result.result()
    finally:
        over.set()
        for task in running:
            runner.get_loop().call_soon_threadsafe(task.cancel)  # does nothing after its end


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _handlers_raise() -> bool:
    """Return whether this thread has signal handlers that may raise. asyncio replaces Python's own."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = {signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)}
    return any(map(callable, handlers - {signal.default_int_handler}))


class Turns:
    """Lets a limited number of coroutines run at once. One that pauses gives its turn to another.

    A coroutine takes its turn as a context: `async with turns`. Those that wait get it in the order in which
    they asked for it.

    Args:
        concurrency: The maximum number of coroutines that have a turn.

    Attributes:
        stopped: Whether `stop` was called.
    """

    def __init__(self, concurrency: int, clock: Clock = MACHINE_CLOCK) -> None:
        self.stopped = False
        self._concurrency = concurrency
        self._clock = clock
        self._free = asyncio.Semaphore(concurrency)
        self._sleeps: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run coroutines to their ends, in an event loop of their own.

        Raises the first error of a coroutine, after canceling the others and waiting for their threads.
        """
        run(self._gather(coroutines))

    async def _gather(self, coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
        # The default has six threads on two cores, but each coroutine may open a connection.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(self._concurrency))
        await asyncio.gather(*coroutines)

    async def __aenter__(self) -> Self:
        await self._free.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._free.release()

    async def pause(self, seconds: float) -> None:
        """Wait without a turn, and take one again.

        A coroutine that pauses must not hold anything that others wait for.
        """
        self._free.release()
        try:
            await self.sleep(seconds)
        finally:
            await self._free.acquire()

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until `stop` is called, and keep the turn."""
        if seconds <= 0:
            return
        self._loop = asyncio.get_running_loop()
        if self.stopped:
            return
        over = self._loop.create_future()
        self._sleeps.add(over)
        timer = self._clock.call_later(seconds, end_wait, over)
        try:
            await over
        finally:
            timer.cancel()
            self._sleeps.discard(over)

    def stop(self) -> None:
        """End all current and future waits. Any thread may call this, at any time."""
        self.stopped = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._end_sleeps)

    def _end_sleeps(self) -> None:
        for over in self._sleeps:
            end_wait(over)


def end_wait(over: asyncio.Future[None], error: Exception | None = None) -> None:
    """End the wait for a future, with an error if there is one. Does nothing if the wait is over."""
    if over.done():
        return
    if error is None:
        over.set_result(None)
    else:
        over.set_exception(error)


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
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def reservation(self) -> Reservation:
        """Return an empty reservation."""
        return Reservation(self)

    async def acquire(self, amount: int) -> int:
        """Reserve bytes once they are free, and return how many were reserved."""
        amount = min(amount, self._capacity)
        if not self._waiting and self._reserved + amount <= self._capacity:
            self._reserved += amount
            return amount
        reserved = asyncio.get_running_loop().create_future()
        self._waiting.append((amount, reserved))
        self._serve()
        try:
            await reserved
        except asyncio.CancelledError:
            self.release(0 if reserved.cancelled() else amount)
            raise
        return amount

    def release(self, amount: int) -> None:
        """Free reserved bytes."""
        self._reserved -= amount
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            amount, reserved = self._waiting[0]
            if not reserved.cancelled():
                if self._reserved + amount > self._capacity:
                    return
                self._reserved += amount
                reserved.set_result(None)
            self._waiting.popleft()


class Reservation:
    """The memory that is reserved for one page at a time.

    A reservation is empty while it waits, so that waiters never wait for each other.
    """

    def __init__(self, limiter: MemoryLimiter) -> None:
        self._limiter = limiter
        self._held = 0

    async def acquire(self, amount: int) -> None:
        """Release the reserved bytes and reserve `amount` bytes instead."""
        self.release()
        self._held = await self._limiter.acquire(amount)

    def release(self) -> None:
        """Release all reserved bytes."""
        if self._held:
            held, self._held = self._held, 0
            self._limiter.release(held)
