"""A limit on the memory that the pages of many shards use together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.transport.waits import MemoryWait

if TYPE_CHECKING:
    from kinesis_assets.kinesis.transport.waits import NonBlocking


class MemoryLimiter:
    """Limits the total size of the pages that are in memory. Not thread-safe.

    Waiters are served first in, first out, so that small pages never starve a large one. A request for more
    than the capacity is reduced to the capacity: it waits until no other page is in memory.

    Args:
        capacity: In bytes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._reserved = 0
        self._waiting: deque[Reservation] = deque()

    def reservation(self) -> Reservation:
        """Return an empty reservation, for one page at a time."""
        return Reservation(self)

    def acquire(self, amount: int, reservation: Reservation) -> NonBlocking[int]:
        """Reserve bytes once they are free, and return how many were reserved.

        Args:
            amount: In bytes.
            reservation: The reservation that they are for; it determines the place in the queue.
        """
        amount = min(amount, self._capacity)
        self._waiting.append(reservation)
        try:
            while not self._is_free(amount, reservation):
                yield MemoryWait(lambda: self._is_free(amount, reservation))
        finally:
            self._waiting.remove(reservation)
        self._reserved += amount
        return amount

    def release(self, amount: int) -> None:
        """Free reserved bytes."""
        self._reserved -= amount

    def _is_free(self, amount: int, reservation: Reservation) -> bool:
        return self._waiting[0] is reservation and self._reserved + amount <= self._capacity


class Reservation:
    """The memory that is reserved for one page at a time.

    A reservation is empty while it waits, so that waiters never wait for each other.
    """

    def __init__(self, limiter: MemoryLimiter) -> None:
        self._limiter = limiter
        self._held = 0

    def acquire(self, amount: int) -> NonBlocking[None]:
        """Release the reserved bytes and reserve `amount` bytes instead."""
        self.release()
        self._held = yield from self._limiter.acquire(amount, self)

    def release(self) -> None:
        """Release all reserved bytes."""
        if self._held:
            held, self._held = self._held, 0
            self._limiter.release(held)
