"""Closing: a run that is told to stop gets some time to commit what it has read."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import dagster as dg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Either is how Dagster tells a run to stop."""

_LAST_SECONDS = 5.0
"""From giving up until the main thread is interrupted wherever it is: cleaner if it need not be."""

_log = logging.getLogger(__name__)


class Closing:
    """Holds back the interrupt of a run: the first one only tells its tasks to stop.

    Args:
        timeout: Seconds from the interrupt until it is raised after all.
        give_up: Ends the tasks, at the timeout.
        tell: Tells them before to end with what they have, if they can.
    """

    def __init__(
        self, timeout: float, *, give_up: Callable[[], object], tell: Callable[[], object] | None = None
    ) -> None:
        self._timeout = timeout
        self._tell = tell
        self._give_up = give_up
        # Signals come in the middle of their own handler too: the first one takes it, at a stroke.
        self._closers = [threading.Thread(target=self._close, name="closing", daemon=True)]
        self._over = threading.Event()
        self._late = False

    @property
    def told(self) -> bool:
        """Whether the run was told to stop."""
        return not self._closers

    @property
    def is_closing(self) -> bool:
        """Whether the run was told to stop, and what it has read is being committed."""
        return self.told and not self._over.is_set()

    @contextmanager
    def holding_back(self) -> Iterator[None]:
        """Within, an interrupt is not raised before the timeout; at the end of it, it is.

        Signals reach the main thread alone; elsewhere nothing can interrupt.

        Raises:
            DagsterExecutionInterruptedError: The run was told to stop.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[signal.Signals, Any] = {}
        try:
            for number in _SIGNALS:
                before[number] = signal.signal(number, self._interrupted)
            yield
        except Exception as error:
            if self._late:  # it only tells that it was ended
                raise dg.DagsterExecutionInterruptedError from error
            raise
        finally:
            self._over.set()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.told:
            raise dg.DagsterExecutionInterruptedError

    def _interrupted(self, *_: object) -> None:
        if self._late:
            raise dg.DagsterExecutionInterruptedError
        with suppress(IndexError):  # told before
            self._closers.pop().start()

    def _close(self) -> None:
        if self._tell is not None:
            _beside(self._tell)
        if self._over.wait(self._timeout):
            return
        self._late = True
        _beside(self._give_up)
        if self._over.wait(_LAST_SECONDS):
            return
        # Nothing else ends what the main thread waits for.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _beside(do: Callable[[], object]) -> None:
    """Do what may hang or fail, in a thread of its own: the interrupt comes whatever becomes of it."""

    def attempt() -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001  # told, and nothing else goes by it
            _log.warning("a run that closes cannot tell its tasks: %s", error)

    threading.Thread(target=attempt, daemon=True).start()
