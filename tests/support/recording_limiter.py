"""A memory limiter that records what is requested and what is reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.transport.event_loop import MemoryLimiter

if TYPE_CHECKING:
    from kinesis_assets.kinesis.transport.event_loop import NonBlocking, Reservation


class RecordingLimiter(MemoryLimiter):
    """A memory limiter that records its use.

    Attributes:
        requested: The amounts that were requested, in order.
        max_reserved: The most bytes that were reserved at once.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.requested: list[int] = []
        self.max_reserved = 0

    def acquire(self, amount: int, reservation: Reservation) -> NonBlocking[int]:
        self.requested.append(amount)
        taken = yield from super().acquire(amount, reservation)
        self.max_reserved = max(self.max_reserved, self._reserved)
        return taken
