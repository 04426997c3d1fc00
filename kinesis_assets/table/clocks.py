"""The time that decides which rows and files are deleted: a time that two clocks agree on.

A deletion by a wrong clock cannot be undone, and either clock may be wrong: this machine's, or the `Date`
header of one response. So the service's clock is used, and only while this machine's clock confirms it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import ClocksDisagree

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = timedelta(hours=1)
"""Maximum difference between the two clocks, in either direction."""


def machine_time() -> datetime:
    """Return the time of this machine's clock, UTC."""
    return datetime.now(UTC)


class AgreedClock:
    """The service's clock, which is compared with this machine's each time it is read.

    Args:
        service_time: The service's time at its last response.
        elapsed: A monotonic clock in seconds, which advances the service's time from its last response.
    """

    def __init__(
        self,
        table: str,
        service_time: datetime,
        machine: Callable[[], datetime] = machine_time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._service_time = service_time
        self._machine = machine
        self._elapsed = elapsed
        self._since = elapsed()

    def now(self) -> datetime:
        """Return the service's current time, UTC.

        Raises:
            ClocksDisagree: The clocks differ by more than `TOLERANCE`.
        """
        service = self._service_time + timedelta(seconds=self._elapsed() - self._since)
        machine = self._machine()
        if abs(machine - service) > TOLERANCE:
            raise ClocksDisagree(
                self._table,
                f"this machine's clock is {machine:%Y-%m-%dT%H:%M:%SZ} and the service's is "
                f"{service:%Y-%m-%dT%H:%M:%SZ}: one of them is wrong, so nothing is deleted. Set this "
                "machine's clock, or check which server responds at the endpoint, then run again",
            )
        return service


def clocks_agree(service_time: datetime, machine: datetime, *, age: timedelta) -> bool:
    """Return whether a time from the service, of at most an age, and this machine's clock can be right."""
    return -TOLERANCE <= machine - service_time <= age + TOLERANCE
