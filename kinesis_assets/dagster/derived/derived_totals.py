"""The rows, the size and the columns of derived tables, for their events."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinesis_assets.dagster.events.table_metadata import derived_columns
from kinesis_assets.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kinesis_assets.derive.derived_table import DerivedCommit
    from kinesis_assets.kinesis.role import AssumedRole

READ_INTERVAL = 60.0
"""Minimum seconds from one read of a table's log to the next in a continuous run."""

_ROWS = "dagster/row_count"

_log = logging.getLogger(__name__)


def totals_of_table(table: str, role: AssumedRole | None = None) -> dict[str, Any]:
    """Return the event metadata of a table as it is now; empty if it cannot be read.

    Args:
        table: The path or URI of a derived table.
        role: The role that accesses it; None for the credentials of the process.
    """
    from kinesis_assets.derive.derived_table import DerivedTable  # noqa: PLC0415  # definitions open no table
    from kinesis_assets.table.table import table_totals  # noqa: PLC0415  # as above

    try:
        delta = DerivedTable(table, role=role).snapshot().delta
        totals = table_totals(delta)
    except TableError as error:
        _log.warning("the event does not have the rows of the table: %s", error)
        return {}
    rows = {} if totals.rows is None else {_ROWS: totals.rows}
    return {**rows, "dagster/size_bytes": totals.bytes, "dagster/column_schema": derived_columns(delta)}


@dataclass(slots=True)
class RunningTotals:
    """The totals of a table in a continuous run, which commits too often to read the log each time.

    Attributes:
        table: The path or URI of the derived table.
        clock: Returns seconds of a monotonic clock.
        role: The role that accesses it; None for the credentials of the process.
    """

    table: str
    clock: Callable[[], float] = time.monotonic
    role: AssumedRole | None = None
    _known: dict[str, Any] = field(default_factory=dict, init=False)
    _read_at: float = field(default=float("-inf"), init=False)

    def after(self, commit: DerivedCommit) -> dict[str, Any]:
        """Return the event metadata of the table after a commit."""
        if self.clock() - self._read_at >= READ_INTERVAL:
            self._known, self._read_at = totals_of_table(self.table, self.role), self.clock()
        elif _ROWS in self._known:
            self._known = self._known | {_ROWS: self._known[_ROWS] + commit.rows - commit.deleted}
        return self._known
