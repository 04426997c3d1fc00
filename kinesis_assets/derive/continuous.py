"""Derived tables in a continuous run: a thread consumes what the run commits while it goes on reading."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kinesis_assets.errors import CursorConflict
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.kinesis.clock import Clock

_log = logging.getLogger(__name__)

_SECONDS_OF_TURN = 10.0
"""Time after which a table that is far behind takes no other step before the others had their turns."""

_SECONDS_TO_END = 60.0


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a table could not consume its source.

    Attributes:
        due: Time before which it is not tried again (monotonic clock).
    """

    error: Exception
    times: int
    due: float


class ContinuousDerivations:
    """Consumes commits into derived tables, in its own thread, within the context of this object.

    The tables take turns, with steps for `_SECONDS_OF_TURN` each. When the context ends, what was committed
    until then is consumed, for `_SECONDS_TO_END` at most: a table that is far behind goes on in the next one.
    A table that fails delays neither the run nor the other tables. It is tried again after a wait, and in the
    end.

    Args:
        tables: By name, a function that consumes what is new in the table's source, as `derive` does. The
            tables take turns in the order of this map, so each one comes after its source.
        report: Called with a table's name and each of its commits.
        report_failure: Called with a table's name and its error, unless the last error had the same text.
    """

    def __init__(
        self,
        tables: Mapping[str, Callable[[], Iterator[DerivedCommit]]],
        *,
        report: Callable[[str, DerivedCommit], object],
        report_failure: Callable[[str, Exception], object],
        backoff: Backoff = Backoff(1.0, 30.0),
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._tables = tables
        self._report = report
        self._report_failure = report_failure
        self._backoff = backoff
        self._clock = clock
        self._failed: dict[str, _Failure] = {}
        self._behind: dict[str, Iterator[DerivedCommit]] = {}
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="derived tables", daemon=True)

    def __enter__(self) -> Self:
        self._changed.set()  # there may be rows that no run has consumed
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not issubclass(kind, Exception):  # an interrupt waits for nothing
            self.stop()
            return
        self._ending.set()
        self._changed.set()
        self._thread.join()

    @property
    def failures(self) -> dict[str, Exception]:
        """By name, the error of each table whose last attempt failed. To be overtaken is no failure."""
        return {
            name: failure.error
            for name, failure in self._failed.items()
            if not isinstance(failure.error, CursorConflict)
        }

    def consume(self) -> None:
        """Consume soon what the source has now. Call this after a commit, from another thread."""
        self._changed.set()

    def stop(self) -> None:
        """End after the current step of the current table, without a last pass."""
        self._stopped.set()
        self._changed.set()

    def _run(self) -> None:
        end: float | None = None
        while not self._stopped.is_set():
            if not self._behind:
                self._clock.wait(self._changed, self._seconds_to_retry())
            self._changed.clear()
            is_last = end is None and self._ending.is_set()
            if is_last:
                end = self._clock.monotonic() + _SECONDS_TO_END
            for name in self._tables:
                if end is not None and self._clock.monotonic() >= end:
                    return
                failure = self._failed.get(name)
                if is_last or failure is None or failure.due <= self._clock.monotonic():
                    self._consume(name)
            if end is not None and not self._behind:
                return

    def _seconds_to_retry(self) -> float | None:
        due = min((failure.due for failure in self._failed.values()), default=None)
        return None if due is None else max(0.0, due - self._clock.monotonic())

    def _consume(self, name: str) -> None:
        """Take the turn of a table: steps until there are no new rows, or until its time is over."""
        until = self._clock.monotonic() + _SECONDS_OF_TURN
        left = self._behind.pop(name, None)
        try:
            commits = self._tables[name]() if left is None else left
            while not self._stopped.is_set():
                commit = next(commits, None)
                if commit is not None:
                    self._report(name, commit)
                    if self._clock.monotonic() >= until:
                        self._behind[name] = commits
                        break
                elif commits is left:  # the last turn ended with its last step, and the source may have more
                    commits = self._tables[name]()
                else:
                    break
        except Exception as error:  # noqa: BLE001  # also any error of a transformation; it is reported
            before = self._failed.get(name)
            times = 1 if before is None else before.times + 1
            due = self._clock.monotonic() + self._backoff.wait(times)
            self._failed[name] = _Failure(error, times, due)
            is_news = before is None or str(before.error) != str(error)
            if is_news and not isinstance(error, CursorConflict) and not self._stopped.is_set():
                self._try_to_report(name, error)
        else:
            self._failed.pop(name, None)

    def _try_to_report(self, name: str, error: Exception) -> None:
        try:
            self._report_failure(name, error)
        except Exception as refused:  # noqa: BLE001  # the other tables go on; the run's end reports the failure
            _log.warning("%s failed (%s), which could not be reported: %s", name, error, refused)
