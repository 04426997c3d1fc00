"""How many rows, bytes and files a table has, from its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from deltalake import DeltaTable


@dataclass(frozen=True, slots=True)
class TableTotals:
    """The totals of one version of a table.

    Attributes:
        rows: Number of rows; None if the log does not have the number of each file.
        bytes: Size of the data files.
        files: Number of data files.
    """

    rows: int | None
    bytes: int
    files: int


def table_totals(delta: DeltaTable) -> TableTotals:
    """Return the totals of an open table. No data file is read."""
    actions = pa.table(delta.get_add_actions()).select(["size_bytes", "num_records"])
    counts = actions["num_records"]
    rows = None if counts.null_count else pc.sum(counts).as_py() or 0
    return TableTotals(rows, pc.sum(actions["size_bytes"]).as_py() or 0, actions.num_rows)
