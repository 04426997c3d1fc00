"""A task's shards, read side by side."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardError
from kinesis_assets.kinesis.client import CONNECTIONS
from kinesis_assets.kinesis.event_loop import EventLoop
from kinesis_assets.kinesis.pages import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kinesis_assets.kinesis.reader import ShardReading
    from kinesis_assets.kinesis.waits import Wait, Waits

    Take = Callable[[ShardReading, Records], Iterable[Wait]]

CALLS = CONNECTIONS
"""Made at once by a task, each for another shard. Shards that wait for their pace make none."""


class SideBySide:
    """Readings of different shards, to be read once.

    Args:
        readings: Which.

    Attributes:
        readings: Which.
    """

    def __init__(self, readings: Sequence[ShardReading]) -> None:
        self.readings = readings
        self._errors: list[ShardError | None] = [None] * len(readings)
        self._loop = EventLoop(CALLS)

    def hurry(self) -> None:
        """From now on no shard pauses any longer. Any thread may call this."""
        self._loop.hurry()

    def read(self, take: Take) -> list[ShardError | None]:
        """Read all of them to their ends; the error that ended each early. Raises what is no shard's own.

        Args:
            take: Is given what is read of any shard, as it comes, and tells what it waits for.
        """
        self._loop.run([self._read(number, take) for number in range(len(self.readings))])
        return self._errors

    def _read(self, number: int, take: Take) -> Waits[None]:
        reading = self.readings[number]
        try:
            with closing(reading.steps()) as steps:
                for step in steps:
                    if isinstance(step, Records):
                        yield from take(reading, step)
                    else:
                        yield step
        except ShardError as error:
            self._errors[number] = error.with_traceback(None)  # its frames keep the page
