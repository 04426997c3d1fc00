"""CPU of typed tables of the kinds of records in one stream, relative to one table of all of them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data.derivations import RAW, ROUTED, TYPED
from benchmarks.data.one_record_commits import create_table
from benchmarks.data.order_tables import land
from benchmarks.data.payloads import CHANNELS, Payloads
from benchmarks.harness.host_memory import reclaim_from_host
from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.harness.worker import WorkerFailed
from benchmarks.sections.derived.typed import DISTINCT, RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness.cpu import Usage
    from benchmarks.harness.worker import Worker

MAX_RATIO = 1.6


@dataclass(frozen=True)
class Routes:
    """The results.

    Attributes:
        records: Number of records of the raw table.
        usages: The usage of each round, by the kind of work.
    """

    records: int
    usages: Mapping[str, Sequence[Usage]]

    @property
    def ratio(self) -> Spread:
        """CPU of the tables of all kinds relative to that of one table, round by round."""
        pairs = zip(self.usages[ROUTED], self.usages[TYPED], strict=True)
        return Spread.of([routed.cpu / typed.cpu for routed, typed in pairs])

    def target(self) -> Target:
        """Return the result for the goal."""
        return Target(Goal.ROUTES, f"{self.ratio.text(2)}x", met=self.ratio.median <= MAX_RATIO)

    def describe(self) -> str:
        """Return the part of the section."""
        names = {TYPED: "one table", ROUTED: f"{len(CHANNELS)} tables, with their router"}
        rows = [
            [
                name,
                Spread.of([usage.cpu for usage in self.usages[kind]]).text(2),
                Spread.of([usage.wall for usage in self.usages[kind]]).text(2),
            ]
            for kind, name in names.items()
        ]
        return (
            f"{self.records:,} such records are decoded into one new typed table; and, by the value of a "
            f"field, routed to {len(CHANNELS)} new tables of the same columns. "
            f"{describe_rounds(len(self.usages[TYPED]))}.\n\n"
            + markdown_table(["typed tables", "CPU s", "wall-clock s"], rows)
        )


def measure(worker: Worker, *, records: int, rounds: int) -> Routes:
    """Measure a raw table with this number of records in 8 files, after a round as a warm-up.

    Raises:
        WorkerFailed: The tables do not have all records.
    """
    source = Payloads()
    payloads = cycle([source.payload(RECORD_BYTES) for _ in range(DISTINCT)])
    usages: dict[str, list[Usage]] = {TYPED: [], ROUTED: []}
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, RAW)
        table = create_table(str(raw))
        for _ in range(8):
            land(table, islice(payloads, records // 8))
        for number in range(rounds + 1):
            for kind, found in usages.items():
                with tempfile.TemporaryDirectory() as place:
                    Path(place, RAW).symlink_to(raw)
                    reclaim_from_host(4 * records * RECORD_BYTES)
                    read = worker.read(place, kind, records)
                if read.read.records != records:
                    raise WorkerFailed(f"{kind}: {read.read.records} of {records} records are in the tables")
                if number:
                    found.append(read.usage)
    return Routes(records, usages)
