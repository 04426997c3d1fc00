"""The time that the parts of a tick may take.

Dagster ends a tick after a minute, and keeps nothing of it. A store that accepts connections and does not
answer takes longer: 100 s for one listing of Arrow. So each part of a tick is carried out in a thread, which
is left to itself when the time of the part is over.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kinesis_assets.errors import TickTooLong

if TYPE_CHECKING:
    from collections.abc import Callable

    RefuseIfOver = Callable[[], None]

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
        seconds, done, is_over = until * dagsters_limit(), Future[None](), threading.Event()
        error = TickTooLong(self._stream, _TOO_LONG % seconds)

        def refuse_if_over() -> None:
            if is_over.is_set():
                raise error

        def run() -> None:
            try:
                part(refuse_if_over)
            except BaseException as raised:  # noqa: BLE001  # it is raised below
                done.set_exception(raised)
            else:
                done.set_result(None)

        threading.Thread(target=run, name=f"tick of {self._stream}", daemon=True).start()
        try:
            done.result(timeout=max(0.0, self._started + seconds - time.monotonic()))
        except TimeoutError:
            if not done.done():
                is_over.set()
                raise error from None
            done.result()  # raises what the part has raised
