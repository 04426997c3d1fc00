"""The time by which a table's rows and files are deleted: one that two clocks agree on.

Deleting by a wrong clock cannot be undone, and either clock may be wrong: this machine's, or the `Date`
header of one response. So the service's clock counts, and only while this machine's confirms it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kinesis_assets.errors import ClocksDisagree

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = timedelta(hours=1)
"""The two clocks may differ by this much, either way."""


def machine_time() -> datetime:
    """This machine's clock, UTC."""
    return datetime.now(UTC)


class AgreedClock:
    """The service's clock, confirmed by this machine's each time it is read.

    Args:
        table: The table's URI, for errors.
        service_time: The service's clock at its last response.
        machine: This machine's clock.
        elapsed: Seconds since any fixed moment, never set back: the service's clock goes on by it.
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
        """The service's time now, UTC.

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
                "machine's clock, or check what answers at the endpoint, then run again",
            )
        return service


def agree(service_time: datetime, machine: datetime, *, age: timedelta) -> bool:
    """Whether a time of the service that is at most so old and this machine's clock can both be right."""
    return -TOLERANCE <= machine - service_time <= age + TOLERANCE
