"""How far a task is, written from time to time for the log of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.table.run_files.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.reading.reading import ShardReading
    from kinesis_assets.table.run_files.progress import ProgressFiles


class TaskProgress:
    """Writes how far a task is, at an interval. A task that is shorter writes nothing.

    Args:
        files: The files of the landing.
        readings: The readings of the task, while another thread reads them.
        clock: The clock.
        interval: Seconds from one file to the next.
    """

    def __init__(
        self, files: ProgressFiles, readings: Sequence[ShardReading], clock: Clock, interval: float
    ) -> None:
        self._files = files
        self._readings = readings
        self._first_lags = [0] * len(readings)
        self._clock = clock
        self._interval = interval
        self._due = clock.monotonic() + interval
        self._has_written = False

    def note(self) -> None:
        """Write how far the task is, if it is time. Raises as `ProgressFiles.write`."""
        progress = self._progress()
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + self._interval
            self._has_written = True
            self._write(progress)

    def end(self) -> None:
        """Write how far the task got, if it has written before. Raises as `ProgressFiles.write`."""
        if self._has_written:
            self._write(self._progress())

    def _write(self, progress: Progress) -> None:
        if self._readings:
            self._files.write(self._readings[0].range.shard_id, progress)

    def _progress(self) -> Progress:
        lags = [reading.millis_behind_latest or 0 for reading in self._readings]
        self._first_lags = list(map(max, self._first_lags, lags))
        return Progress(
            records=sum(reading.records for reading in self._readings),
            bytes=sum(reading.bytes for reading in self._readings),
            lag_ms=sum(lags),
            first_lag_ms=sum(self._first_lags),
        )
