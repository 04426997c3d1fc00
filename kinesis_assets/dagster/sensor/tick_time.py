"""The time that the parts of a tick may take.

Dagster ends a tick after a minute, and keeps nothing of it. A store that accepts connections and does not
answer takes longer: 100 s for one listing of Arrow. So each part of a tick is carried out in a thread, which
is left to itself when the time of the part is over.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kinesis_assets.errors import TickTooLong

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    RefuseIfOver = Callable[[], None]

_T = TypeVar("_T")

_VARIABLES = ("DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS", "DAGSTER_GRPC_TIMEOUT_SECONDS")

_TOO_LONG = (
    "a part of the tick was not ready after %.0f s: Kinesis or the store of a table answers slowly, or not "
    "at all. The next tick tries again. To give it more time, increase DAGSTER_SENSOR_GRPC_TIMEOUT_SECONDS, "
    "for the daemon and the code server"
)


def dagsters_limit() -> float:
    """Return the seconds after which Dagster ends a tick, as far as the environment of this process says."""
    return float(next(filter(None, map(os.environ.get, _VARIABLES)), 60))


class TickTime:
    """The time of a tick, from the creation of this object on."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._started = time.monotonic()

    def carry_out(self, part: Callable[[RefuseIfOver], None], *, until: float) -> None:
        """Call a function in another thread, and wait until it ends.

        Args:
            part: Called with a function that raises `TickTooLong` once the time of the part is over, which it
                has to call before it stores anything.
            until: When the time is over, as a part of Dagster's limit.

        Raises:
            TickTooLong: The time is over.
            Exception: What the function raises.
        """
        error, is_over = self._too_long(until * dagsters_limit()), threading.Event()

        def refuse_if_over() -> None:
            if is_over.is_set():
                raise error

        done = self._started_in_thread(partial(part, refuse_if_over))
        if not wait([done], timeout=self._left(until)).done:
            is_over.set()
            raise error
        done.result()

    def share(self, reads: Sequence[Callable[[], _T]], *, until: float) -> list[_T | Exception]:
        """Call functions in threads, all at once, and return the result or the error of each.

        Together they may take a quarter of the time that is left, so that those that do not end leave time
        for what comes later. Their error is `TickTooLong`.

        Args:
            until: See `carry_out`.
        """
        seconds = self._left(until) / 4
        too_long = self._too_long(seconds)
        if not seconds:
            return [too_long for _ in reads]
        started = [self._started_in_thread(read) for read in reads]
        wait(started, timeout=seconds)
        return [_outcome(each, too_long) for each in started]

    def _left(self, until: float) -> float:
        return max(0.0, self._started + until * dagsters_limit() - time.monotonic())

    def _too_long(self, seconds: float) -> TickTooLong:
        return TickTooLong(self._stream, _TOO_LONG % seconds)

    def _started_in_thread(self, function: Callable[[], _T]) -> Future[_T]:
        done = Future[_T]()

        def run() -> None:
            try:
                done.set_result(function())
            except BaseException as raised:  # noqa: BLE001  # the one who waits raises it
                done.set_exception(raised)

        threading.Thread(target=run, name=f"tick of {self._stream}", daemon=True).start()
        return done


def _outcome(done: Future[Any], unfinished: Exception) -> Any:
    if not done.done():
        return unfinished
    error = done.exception()
    if error is None:
        return done.result()
    if isinstance(error, Exception):
        return error
    raise error
