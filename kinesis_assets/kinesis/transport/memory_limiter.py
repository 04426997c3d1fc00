"""The memory that the pages of many shards may take together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kinesis_assets.kinesis.transport.awaitables import RoomWait

if TYPE_CHECKING:
    from kinesis_assets.kinesis.transport.awaitables import Waits


class Room:
    """So many bytes, for the pages that are on their way from the wire to a file. For one thread.

    Who waits is served in the order of coming, so that a large page is not passed by small ones for ever.
    What asks for more than all of it is given all of it: it waits until it is alone.

    Args:
        capacity: Bytes.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken = 0
        self._waiting: deque[Seat] = deque()

    def seat(self) -> Seat:
        """One page's place in it, empty at first."""
        return Seat(self)

    def take(self, amount: int, seat: Seat) -> Waits[int]:
        """Take bytes for a seat, once they are free; what was taken, to be given back."""
        amount = min(amount, self._capacity)
        self._waiting.append(seat)
        try:
            while not self._is_free(amount, seat):
                yield RoomWait(lambda: self._is_free(amount, seat))
        finally:
            self._waiting.remove(seat)
        self._taken += amount
        return amount

    def give_back(self, amount: int) -> None:
        """Free what was taken."""
        self._taken -= amount

    def _is_free(self, amount: int, seat: Seat) -> bool:
        return self._waiting[0] is seat and self._taken + amount <= self._capacity


class Seat:
    """What one page at a time takes of a room. Whoever waits holds nothing meanwhile, so that those who wait
    never wait for each other.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0

    def take(self, amount: int) -> Waits[None]:
        """Hold so many bytes from now on, in place of what was held."""
        self.leave()
        self._held = yield from self._room.take(amount, self)

    def leave(self) -> None:
        """Hold nothing."""
        if self._held:
            held, self._held = self._held, 0
            self._room.give_back(held)
