"""Lines in the log of a run that say how far it is, at a fixed interval."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from kinesis_assets.errors import KinesisAssetsError
from kinesis_assets.table.run_files.task_files import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from kinesis_assets.ingest.outcome import RunResult
    from kinesis_assets.table.run_files.task_files import ProgressFiles

_log = logging.getLogger(__name__)

LOG_INTERVAL = 10.0
"""Seconds between two lines."""


_shown_by: list[Callable[[Progress], object]] = []
"""The functions besides the logs that show the progress of the runs in this process."""


@contextmanager
def progress_shown_by(show: Callable[[Progress], object]) -> Iterator[None]:
    """Have the progress of the runs in this process shown by a function too, while the context is entered."""
    _shown_by.append(show)
    try:
        yield
    finally:
        _shown_by.remove(show)


class RunLog:
    """Logs how far a run is. It logs nothing while nothing is read."""

    def __init__(self, log: Callable[[str], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._logged_at = clock()
        self._logged = Progress()
        self._total = Progress()
        self._lags: dict[str, int] = {}
        self._first_lags: dict[str, int] = {}

    def add(self, result: RunResult) -> None:
        """Add the result of an iteration of a continuous run, and log a line if it is time."""
        for shard_id, outcome in result.outcomes.items():
            self._lags[shard_id] = outcome.facts.millis_behind_latest or 0
            self._first_lags[shard_id] = max(self._lags[shard_id], self._first_lags.get(shard_id, 0))
        self._total += Progress(
            records=sum(outcome.rows for outcome in result.outcomes.values()),
            bytes=sum(outcome.stats.bytes for outcome in result.outcomes.values() if outcome.stats),
        )
        lag_ms, first_lag_ms = sum(self._lags.values()), sum(self._first_lags.values())
        self.show(msgspec.structs.replace(self._total, lag_ms=lag_ms, first_lag_ms=first_lag_ms))

    def show(self, progress: Progress) -> None:
        """Log how far the run is, if it is time and something was read since the last line."""
        for show in _shown_by:
            show(progress)
        now = self._clock()
        seconds = now - self._logged_at
        if seconds < LOG_INTERVAL or progress.records == self._logged.records:
            return
        speed = (progress.bytes - self._logged.bytes) / 1e6 / seconds
        self._log(
            f"{progress.records:,} records, {progress.bytes / 1e6:,.1f} MB, {speed:.2f} MB/s, "
            f"{progress.percent:.0f}% of the lag is read"
        )
        self._logged_at, self._logged = now, progress


class LandingLog:
    """Logs how far a landing is, from the files of its tasks, until the context ends.

    A thread reads the files. Errors are left to the landing, which uses the same folder.
    """

    def __init__(self, run_log: RunLog, files: ProgressFiles, *, interval: float = LOG_INTERVAL) -> None:
        self._run_log = run_log
        self._files = files
        self._interval = interval
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="run log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        has_files = False
        while not self._ended.wait(self._interval):
            has_files = True
            with suppress(OSError, KinesisAssetsError):
                self._run_log.show(self._files.read())
        if has_files:
            try:
                self._files.delete()
            except (OSError, KinesisAssetsError) as error:
                _log.warning("files about the progress of the run are left to maintenance: %s", error)
