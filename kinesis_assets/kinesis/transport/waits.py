"""Generator-based coroutines, and the events that they wait for.

Code that reads from the service does not block. It is a generator that yields each event that it waits for,
and continues when the next step is requested.

`run_until_complete` runs one generator and blocks for each event.
`event_loop` runs many: while some wait, the others continue.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from urllib3.util import wait_for_read, wait_for_write

if TYPE_CHECKING:
    from socket import socket

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
