"""A room that notes what is asked of it and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.transport.memory_limiter import MemoryLimiter

if TYPE_CHECKING:
    from kinesis_assets.kinesis.transport.awaitables import Awaitable
    from kinesis_assets.kinesis.transport.memory_limiter import Reservation


class RecordingLimiter(MemoryLimiter):
    """Likewise.

    Attributes:
        asked: The bytes that were asked for, in order.
        max_reserved: The most bytes that were taken at once so far.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.asked: list[int] = []
        self.max_reserved = 0

    def acquire(self, amount: int, reservation: Reservation) -> Awaitable[int]:
        self.asked.append(amount)
        taken = yield from super().acquire(amount, reservation)
        self.max_reserved = max(self.max_reserved, self._reserved)
        return taken
