"""Concurrent reading of a task's shards."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from kinesis_assets.errors import ShardError
from kinesis_assets.kinesis.clock import MACHINE_CLOCK
from kinesis_assets.kinesis.records.record import Records
from kinesis_assets.kinesis.settings import CONNECTIONS
from kinesis_assets.kinesis.transport.event_loop import EventLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence
    from threading import Event

    from kinesis_assets.kinesis.clock import Clock
    from kinesis_assets.kinesis.reading.reading import ShardReading
    from kinesis_assets.kinesis.transport.waits import NonBlocking, Wait

    Handler = Callable[[ShardReading, Records], Iterable[Wait]]


class ShardGroup:
    """Readings of different shards. They can be read once.

    Args:
        readings: The readings.
        stop: The event that ends all readings. It is set when one fails with an error that is not a shard's
            own.
        concurrency: Maximum concurrent calls, each for another shard. Shards that pause between calls make
            none.
        clock: The clock of the readings.
    """

    def __init__(
        self,
        readings: Sequence[ShardReading],
        stop: Event,
        concurrency: int = CONNECTIONS,
        clock: Clock = MACHINE_CLOCK,
    ) -> None:
        self._readings = readings
        self._stop = stop
        self._errors: list[ShardError | None] = [None] * len(readings)
        self._loop = EventLoop(concurrency, clock)

    def cancel_pauses(self) -> None:
        """End the pauses of all shards from now on. Any thread may call this."""
        self._loop.cancel_pauses()

    def read(self, handler: Handler) -> list[ShardError | None]:
        """Read all ranges to their ends. Raises errors that are not a shard's own.

        Args:
            handler: Called with the records of each page as it is read; it yields what it waits for.

        Returns:
            For each reading, the error that ended it early, or None.
        """
        self._loop.run([self._read(number, handler) for number in range(len(self._readings))])
        return self._errors

    def _read(self, number: int, handler: Handler) -> NonBlocking[None]:
        reading = self._readings[number]
        try:
            with closing(reading.steps()) as steps:
                while (step := self._next(number, steps)) is not None:
                    if isinstance(step, Records):
                        yield from handler(reading, step)
                    else:
                        yield step
        except Exception:
            self._stop.set()  # this also ends a search for a lost record that others wait for
            raise

    def _next(self, number: int, steps: Generator[Wait | Records]) -> Wait | Records | None:
        """Return the next step of a reading; None at its end or after an error.

        The handler is not called here: its errors would be taken for the shard's own, although the shard's
        position is already after the records that it was given.
        """
        try:
            return next(steps, None)
        except ShardError as error:
            self._errors[number] = error.with_traceback(None)  # its frames would keep the page in memory
            return None
