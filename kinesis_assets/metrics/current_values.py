"""The values of a gauge that are current.

The SDK exports the last value of a synchronous gauge for as long as the process lives, so a shard that is
finished, or all shards of a sensor that is stopped, would keep their last value. An observable gauge
exports what its callback returns.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CURRENT_SECONDS = 300.0
"""A value that was not set again for this long is not exported any more. Prometheus keeps samples as long."""


class CurrentValues:
    """The current values of one gauge, by their attributes. Threads may share it.

    Args:
        monotonic: Returns seconds of a monotonic clock.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._values: dict[tuple[tuple[str, str], ...], tuple[float, float]] = {}

    def set(self, value: float, attributes: Mapping[str, str]) -> None:
        """Set the value of some attributes."""
        with self._lock:
            self._values[tuple(attributes.items())] = (value, self._monotonic())

    def all(self) -> list[tuple[float, dict[str, str]]]:
        """Return the current values with their attributes, and forget the others."""
        oldest = self._monotonic() - CURRENT_SECONDS
        with self._lock:
            self._values = {key: entry for key, entry in self._values.items() if entry[1] > oldest}
            return [(value, dict(key)) for key, (value, _) in self._values.items()]
