"""Graceful stop: a run that is interrupted gets a limited time to commit what it has read."""

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
"""Dagster sends either of them to stop a run."""

NOTHING_READ = (
    "the run was stopped before it read anything, and nothing was committed: the next run reads it all"
)

_COMMITTED = "the run was stopped: what it has committed is in the table, and the next run continues there"

_DROPPED = (
    "the run was stopped: what it had read since its last commit was dropped, and the next run reads it again"
)

_log = logging.getLogger(__name__)


class GracefulStop:
    """Delays the interrupt of a run: the first one only asks its tasks to stop.

    Args:
        timeout: Seconds from the interrupt until it is raised even if the run has not ended.
        give_up: Ends the tasks. It is called at the timeout.
        request_stop: Asks the tasks to return what they have read. It is called at the interrupt; None if
            there is no way to ask.
        last_seconds: Seconds from `give_up` until the main thread is interrupted. A run that ends by itself
            is cleaner.
    """

    def __init__(
        self,
        timeout: float,
        *,
        give_up: Callable[[], object],
        request_stop: Callable[[], object] | None = None,
        last_seconds: float = 5.0,
    ) -> None:
        self._timeout = timeout
        self._last_seconds = last_seconds
        self._request_stop = request_stop
        self._give_up = give_up
        # A signal can interrupt its own handler: list.pop is atomic, so only the first one gets the thread.
        self._stopping = [threading.Thread(target=self._stop, name="graceful stop", daemon=True)]
        self._over = threading.Event()
        self._late = False

    @property
    def stop_requested(self) -> bool:
        """Whether the run was interrupted."""
        return not self._stopping

    @property
    def is_closing(self) -> bool:
        """Whether the run was interrupted and is still committing what it has read."""
        return self.stop_requested and not self._over.is_set()

    @contextmanager
    def delayed_interrupts(self) -> Iterator[None]:
        """Delay interrupts within the block until the timeout; at the end of the block, raise them.

        Only the main thread receives signals. In other threads this does nothing.
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
            if self._late:  # the error is only a consequence of give_up
                raise dg.DagsterExecutionInterruptedError(_DROPPED) from error
            raise
        finally:
            self._over.set()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.stop_requested:
            raise dg.DagsterExecutionInterruptedError

    @contextmanager
    def canceling(self, step: dg.StepExecutionContext) -> Iterator[None]:
        """Delay interrupts as `delayed_interrupts` does, and make an interrupted run end as canceled.

        Args:
            step: A step of the run. Without this, only a stop that Dagster requested would end the run as
                canceled, but not a signal from outside of Dagster, as at a shutdown.
        """
        try:
            with self.delayed_interrupts():
                yield
        finally:
            if self.stop_requested:
                run = step.instance.get_run_by_id(step.run_id)
                if run is not None and run.status is dg.DagsterRunStatus.STARTED:
                    step.instance.report_run_canceling(run, "The run's process received a signal to stop.")

    def _interrupted(self, *_: object) -> None:
        if self._late:
            raise dg.DagsterExecutionInterruptedError
        with suppress(IndexError):  # it was interrupted before
            self._stopping.pop().start()

    def _stop(self) -> None:
        if self._request_stop is not None:
            _in_background(self._request_stop)
        if self._over.wait(self._timeout):
            return
        self._late = True
        _in_background(self._give_up)
        if self._over.wait(self._last_seconds):
            return
        # Nothing else ends a blocking call of the main thread.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@contextmanager
def stops_explained(sentence: str = _COMMITTED) -> Iterator[None]:
    """Give an interrupt of the run a sentence, which is the first line of the error card, unless it has one.

    Its class stays the same: by its name, Dagster's executors know that a run was stopped.
    """
    try:
        yield
    except (dg.DagsterExecutionInterruptedError, KeyboardInterrupt) as interrupt:
        interrupt.args = interrupt.args or (sentence,)
        raise


def _in_background(do: Callable[[], object]) -> None:
    """Call a function that may hang or fail in its own thread, so that it cannot delay the interrupt."""

    def attempt() -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001  # it is logged; the stop does not depend on it
            _log.warning("an interrupted run could not notify its tasks: %s", error)

    threading.Thread(target=attempt, daemon=True).start()
