"""CPU of a few new rows below raw tables of different sizes."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data.derivations import APPEND, RAW, payload_of_order
from benchmarks.data.one_record_commits import create_table
from benchmarks.data.order_tables import OrderFiles, land
from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness.cpu import Usage
    from benchmarks.harness.worker import Worker
    from kinesis_assets.table.raw_table import PositionedTable

MAX_RATIO = 1.5
NEW_ROWS = 10_000
FILE_ROWS = 250_000
SMALL, LARGE = 4, 400
"""Number of files: 1 million rows, and 100 million."""


@dataclass(frozen=True)
class Increments:
    """The results.

    Attributes:
        file_rows: Number of rows of a file.
        usages: The usage of each round, by the number of files of the tables before.
    """

    file_rows: int
    usages: Mapping[int, Sequence[Usage]]

    @property
    def ratio(self) -> Spread:
        """CPU below the largest table relative to the smallest, round by round."""
        smallest, largest = self.usages[min(self.usages)], self.usages[max(self.usages)]
        return Spread.of([large.cpu / small.cpu for small, large in zip(smallest, largest, strict=True)])

    def target(self) -> Target:
        """Return the result for the goal."""
        return Target(Goal.INCREMENT, f"{self.ratio.text(2)}x", met=self.ratio.median <= MAX_RATIO)

    def describe(self) -> str:
        """Return the part of the section."""
        rows = [
            [
                f"{files * self.file_rows:,}",
                f"{files:,}",
                Spread.of([usage.cpu for usage in usages]).text(2),
                Spread.of([usage.wall for usage in usages]).text(2),
            ]
            for files, usages in self.usages.items()
        ]
        count = len(next(iter(self.usages.values())))
        return (
            f"{NEW_ROWS:,} new records land in a raw table, and are decoded and appended to a typed table, "
            "which has as many rows as the raw table before. CPU is that of the whole derivation, with "
            f"the opening of both tables and the commit. {describe_rounds(count)}.\n\n"
            + markdown_table(["rows before", "files of each table", "CPU s", "wall-clock s"], rows)
        )


def measure(
    worker: Worker, *, rounds: int, sizes: Sequence[int] = (SMALL, LARGE), file_rows: int = FILE_ROWS
) -> Increments:
    """Measure new rows below tables with these numbers of files, in turn, after a round as a warm-up."""
    usages: dict[int, list[Usage]] = {files: [] for files in sizes}
    with ExitStack() as stack:
        folders = {files: Path(stack.enter_context(tempfile.TemporaryDirectory())) for files in sizes}
        base = OrderFiles.write(Path(stack.enter_context(tempfile.TemporaryDirectory())), 1, file_rows)
        tables = {files: _create(folder, base, files) for files, folder in folders.items()}
        for number in range(rounds + 1):
            for files, folder in folders.items():
                first = base.rows + number * NEW_ROWS
                land(tables[files], map(payload_of_order, range(first, first + NEW_ROWS)))
                usage = worker.read(str(folder), APPEND, NEW_ROWS).usage
                if number:
                    usages[files].append(usage)
    return Increments(file_rows, usages)


def _create(folder: Path, base: OrderFiles, files: int) -> PositionedTable:
    """Create a raw table and a derived table that has consumed it, both with this number of files."""
    raw = create_table(str(folder / RAW))
    land(raw, map(payload_of_order, range(base.rows)), copies=files)
    base.create_derived(folder, copies=files)
    return raw
