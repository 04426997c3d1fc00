"""The data files of one version of a table: their sizes, and the statistics of their columns.

Spark tasks import this module, so it does not read the table's log: the driver passes the files to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True)
class ActiveFile:
    """A data file of one version of the table, with its size.

    Attributes:
        path: Path relative to the table's folder.
        size: Size in bytes.
        rows: Number of rows of all shards.
        arrival_date: Arrival date of every row in the file, as an ISO date in UTC.
    """

    path: str
    size: int
    rows: int
    arrival_date: str


class FileStats(msgspec.Struct, frozen=True):
    """A data file of one version of the table, with its statistics. Each is a bound, or None if unknown.

    Attributes:
        path: Path relative to the table's folder.
        arrival_date: Arrival date of every row in the file, UTC.
        first_arrival: No row in the file arrived earlier.
        last_arrival: No row in the file arrived later.
        first_shard_id: No row in the file has a smaller shard id, compared as text.
        last_shard_id: No row in the file has a larger shard id, compared as text.
    """

    path: str
    arrival_date: date
    first_arrival: datetime | None
    last_arrival: datetime | None
    first_shard_id: str | None
    last_shard_id: str | None

    def may_contain_arrivals(self, first: datetime, last: datetime | None) -> bool:
        """Return whether the file may have a row that arrived from `first` to `last`, both inclusive.

        There is no upper bound if `last` is None.
        """
        if self.arrival_date < first.date() or _above(first, self.last_arrival):
            return False
        return last is None or not (self.arrival_date > last.date() or _above(self.first_arrival, last))

    def may_contain_shard(self, shard_id: str) -> bool:
        """Return whether the file may have a row of a shard."""
        return not (_above(self.first_shard_id, shard_id) or _above(shard_id, self.last_shard_id))


def _above(value: Any, other: Any) -> bool:
    """Return whether a value is known to be above another; None is an unknown value."""
    return value is not None and other is not None and value > other
