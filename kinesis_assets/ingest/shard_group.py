"""A task's shards, read side by side."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardError
from kinesis_assets.kinesis.records.wire import Records
from kinesis_assets.kinesis.sdk_client import CONNECTIONS
from kinesis_assets.kinesis.transport.event_loop import EventLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from threading import Event

    from kinesis_assets.kinesis.reading.reading import ShardReading
    from kinesis_assets.kinesis.transport.awaitables import Wait, Waits

    Take = Callable[[ShardReading, Records], Iterable[Wait]]

CALLS = CONNECTIONS
"""Made at once by a task, each for another shard. Shards that wait for their pace make none."""


class SideBySide:
    """Readings of different shards, to be read once.

    Args:
        readings: Which.
        stop: The event that ends all of them; set when one fails with what is no shard's own.
    """

    def __init__(self, readings: Sequence[ShardReading], stop: Event) -> None:
        self._readings = readings
        self._stop = stop
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
        self._loop.run([self._read(number, take) for number in range(len(self._readings))])
        return self._errors

    def _read(self, number: int, take: Take) -> Waits[None]:
        reading = self._readings[number]
        try:
            with closing(reading.steps()) as steps:
                while (step := self._next(number, steps)) is not None:
                    if isinstance(step, Records):
                        yield from take(reading, step)
                    else:
                        yield step
        except Exception:
            self._stop.set()  # a look for a lost record, which is waited for, ends by it too
            raise

    def _next(self, number: int, steps: Generator[Wait | Records]) -> Wait | Records | None:
        """What comes next of a shard; None if nothing does, as where it failed.

        What takes it is not asked here: whatever fails there would seem to be the shard's own, while its
        position is already behind what was taken.
        """
        try:
            return next(steps, None)
        except ShardError as error:
            self._errors[number] = error.with_traceback(None)  # its frames keep the page
            return None
