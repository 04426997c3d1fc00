"""A memory limiter that records what is requested and what is reserved."""

from __future__ import annotations

from kinesis_assets.kinesis.transport.concurrency import MemoryLimiter


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

    async def acquire(self, amount: int) -> int:
        self.requested.append(amount)
        taken = await super().acquire(amount)
        self.max_reserved = max(self.max_reserved, self._reserved)
        return taken
