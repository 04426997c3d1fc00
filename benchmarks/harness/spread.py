"""The median of repeated measurements, with the lowest and the highest."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, with the lowest and the highest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def scaled(self, factor: float) -> Spread:
        """Return this spread in another unit."""
        return Spread(self.median * factor, self.low * factor, self.high * factor)

    def text(self, digits: int = 1) -> str:
        """Format for tables; only the median where all rounds read alike."""
        median, low, high = (f"{value:,.{digits}f}" for value in (self.median, self.low, self.high))
        return median if low == high else f"{median} ({low} to {high})"


def describe_rounds(rounds: int) -> str:
    """Return the words that say how figures of this many rounds are to be read."""
    return "One round" if rounds == 1 else f"Median of {rounds} rounds, with the lowest and the highest"
