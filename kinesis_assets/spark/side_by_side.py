"""A task's shards, read side by side by a few threads that take them in turns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardError
from kinesis_assets.kinesis.client import CONNECTIONS
from kinesis_assets.kinesis.reader import Pause, ShardReading
from kinesis_assets.kinesis.turns import Turns
from kinesis_assets.kinesis.work_lock import WorkLock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kinesis_assets.kinesis.pages import Records

    Take = Callable[[ShardReading, Records], object]

THREADS = CONNECTIONS
"""Calls made at once by a task, each for another shard. Shards that wait need none."""


class SideBySide:
    """Readings of different shards, to be read once.

    Args:
        readings: Which.

    Attributes:
        readings: Which.
        turns: Whose turn it is.
    """

    def __init__(self, readings: Sequence[ShardReading]) -> None:
        self.readings = readings
        self.turns = Turns(len(readings))
        self._steps = [reading.steps() for reading in readings]
        self._errors: list[ShardError | None] = [None] * len(readings)
        self._work_lock = WorkLock()

    def read(self, take: Take) -> list[ShardError | None]:
        """Read all of them to their ends; the error that ended each early. Raises what is no shard's own.

        Args:
            take: Is given what is read of any shard, as it comes; by the thread that is at work.
        """
        threads = max(1, min(THREADS, len(self.readings)))
        with ThreadPoolExecutor(threads) as pool:
            works = [pool.submit(self._work, take) for _ in range(threads)]
        for work in works:
            work.result()
        return self._errors

    def _work(self, take: Take) -> None:
        try:
            with self._work_lock.held():
                while (number := self.turns.next()) is not None:
                    pause = self._go_on(number, take)
                    if pause is None:
                        self.turns.over()
                    else:
                        self.turns.later(number, pause)
        finally:
            self.turns.end()  # after an error of one thread the others need not go on

    def _go_on(self, number: int, take: Take) -> float | None:
        """Take a shard's steps up to its next pause and tell its seconds; None if no more steps come."""
        try:
            for step in self._steps[number]:
                if isinstance(step, Pause):
                    return step.seconds
                take(self.readings[number], step)
        except ShardError as error:
            self._errors[number] = error
        except BaseException:
            self._steps[number].close()  # it leaves its seat, for which others may wait
            raise
        return None
