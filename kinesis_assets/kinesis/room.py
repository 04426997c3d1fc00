"""The memory that the pages of many shards may take together."""

from __future__ import annotations

import threading
from collections import deque

from kinesis_assets.kinesis.work_lock import let_go


class Room:
    """So many bytes, for the pages that are on their way from the wire to a file. Shared by threads.

    Who waits is served in the order of coming, so that a large page is not passed by small ones for ever.
    What asks for more than all of it is given all of it: it waits until it is alone.

    Args:
        capacity: Bytes.

    Attributes:
        most_taken: The most bytes that were taken at once so far.
    """

    def __init__(self, capacity: int) -> None:
        self.most_taken = 0
        self._capacity = capacity
        self._taken = 0
        self._lock = threading.Lock()
        self._waiting: deque[threading.Condition] = deque()

    def seat(self) -> Seat:
        """One page's place in it, empty at first."""
        return Seat(self)

    def take(self, amount: int) -> int:
        """Take bytes, once they are free; what was taken, to be given back."""
        amount = min(amount, self._capacity)
        with self._lock:
            if not self._waiting and self._taken + amount <= self._capacity:
                self._note(amount)
                return amount
        with let_go():
            turn = threading.Condition(self._lock)
            with self._lock:
                self._waiting.append(turn)
                turn.wait_for(lambda: self._waiting[0] is turn and self._taken + amount <= self._capacity)
                self._waiting.popleft()
                self._note(amount)
                self._call_first()
        return amount

    def give_back(self, amount: int) -> None:
        """Free what was taken."""
        with self._lock:
            self._taken -= amount
            self._call_first()

    def _note(self, amount: int) -> None:
        self._taken += amount
        self.most_taken = max(self.most_taken, self._taken)

    def _call_first(self) -> None:
        if self._waiting:
            self._waiting[0].notify()


class Seat:
    """What one page at a time takes of a room. Whoever waits holds nothing meanwhile, so that those who wait
    never wait for each other.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0

    def take(self, amount: int) -> None:
        """Hold so many bytes from now on, in place of what was held."""
        self.leave()
        self._held = self._room.take(amount)

    def leave(self) -> None:
        """Hold nothing."""
        if self._held:
            held, self._held = self._held, 0
            self._room.give_back(held)
