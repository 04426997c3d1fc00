"""What a piece of work waits for.

A reading does not wait by itself. It is a generator that yields what it waits for, and goes on when it is
asked for its next step. Who does one thing waits it out; who does many has others go on meanwhile
(`event_loop`).
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
    """Nothing is to be done before so many seconds have passed. Whoever pauses is not under way meanwhile, so
    it may hold nothing that others wait for.

    Attributes:
        seconds: 0 or more.
    """

    seconds: float

    def wait_out(self) -> None:
        """Wait, doing nothing else."""
        time.sleep(self.seconds)


@dataclass(slots=True)
class SocketWait:
    """More can be received from a socket, or sent to it.

    Attributes:
        socket: Which.
        to_send: It is waited for to send.
        seconds: As long as this, at most.
        timed_out: It took longer; set by who waits.
    """

    socket: socket
    to_send: bool
    seconds: float
    timed_out: bool = False

    def wait_out(self) -> None:
        """Wait, doing nothing else."""
        wait = wait_for_write if self.to_send else wait_for_read
        self.timed_out = not wait(self.socket, self.seconds)


class ThreadWait(Generic[_T]):
    """Something is done that blocks a thread: let it be another one.

    Args:
        work: What.
    """

    def __init__(self, work: Callable[[], _T]) -> None:
        self._work = work
        self._done: Future[_T] = Future()

    def wait_out(self) -> None:
        """Do it."""
        try:
            self._done.set_result(self._work())
        except BaseException as error:  # noqa: BLE001  # `result` raises it
            self._done.set_exception(error)

    def result(self) -> _T:
        """What came of it. Raises what it raised."""
        return self._done.result()


@dataclass(frozen=True, slots=True)
class RoomWait:
    """There is room for a page; see `room`. All that wait in one loop wait for the same room.

    Attributes:
        is_over: Whether there is.
    """

    is_over: Callable[[], bool]

    def wait_out(self) -> None:
        """Who does nothing else waits in vain."""
        raise RuntimeError("there is no room, and nobody who will make some")


Wait = Pause | SocketWait | ThreadWait[Any] | RoomWait

Waits = Generator[Wait, None, _T]
"""Work that gives a result, and on its way what it waits for."""


def waited_out(work: Waits[_T]) -> _T:
    """Do some work, waiting for all that it waits for."""
    with closing(work):
        while True:
            try:
                wait = next(work)
            except StopIteration as end:
                result: _T = end.value
                return result
            wait.wait_out()


def in_time(work: Waits[_T], seconds: float) -> Waits[_T]:
    """Some work that waits for none of its sockets for longer than so many seconds."""
    with closing(work):
        while True:
            try:
                wait = next(work)
            except StopIteration as end:
                result: _T = end.value
                return result
            if isinstance(wait, SocketWait):
                wait.seconds = min(wait.seconds, seconds)
            yield wait


def by_a_thread(work: Callable[[], _T]) -> Waits[_T]:
    """What some work gives that blocks its thread."""
    wait = ThreadWait(work)
    yield wait
    return wait.result()


def until_it_can(socket: socket, seconds: float, *, to_send: bool = False) -> Waits[None]:
    """Wait until more can be received from a socket, or sent to it.

    Raises:
        TimeoutError: It could not, for so many seconds.
    """
    wait = SocketWait(socket, to_send, seconds)
    yield wait
    if wait.timed_out:
        raise TimeoutError("timed out")


def when_it_can(do: Callable[[], _T], socket: socket, seconds: float) -> Waits[_T]:
    """Receive from a socket that does not block, or send to it, once that can be done.

    Raises:
        TimeoutError: It could not, for so many seconds.
        OSError: The connection broke.
    """
    while True:
        try:
            return do()
        except (BlockingIOError, ssl.SSLWantReadError):
            to_send = False
        except ssl.SSLWantWriteError:
            to_send = True
        # Apart from that error, which keeps what is in its frames: there, a part of a body.
        yield from until_it_can(socket, seconds, to_send=to_send)
