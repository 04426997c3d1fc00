"""A room that notes what is asked of it and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.kinesis.transport.memory_limiter import Room

if TYPE_CHECKING:
    from kinesis_assets.kinesis.transport.awaitables import Waits
    from kinesis_assets.kinesis.transport.memory_limiter import Seat


class ToldRoom(Room):
    """Likewise.

    Attributes:
        asked: The bytes that were asked for, in order.
        most_taken: The most bytes that were taken at once so far.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.asked: list[int] = []
        self.most_taken = 0

    def take(self, amount: int, seat: Seat) -> Waits[int]:
        self.asked.append(amount)
        taken = yield from super().take(amount, seat)
        self.most_taken = max(self.most_taken, self._taken)
        return taken
