"""CPU of typed tables from records of different formats, relative to the same orders as JSON documents."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from benchmarks.data.derivations import DERIVED, RAW
from benchmarks.data.one_record_commits import create_table
from benchmarks.data.order_tables import land
from benchmarks.data.payloads import Payloads
from benchmarks.data.record_formats import DEBEZIUM, DOCUMENTS, DYNAMODB, LINES, PROTOBUF, RECORD_FORMATS
from benchmarks.harness.host_memory import reclaim_from_host
from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.spread import Spread, describe_rounds
from benchmarks.harness.units import GB
from benchmarks.harness.worker import WorkerFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.harness.cpu import Usage
    from benchmarks.harness.worker import Worker

DOCUMENT_BYTES = 500
DISTINCT = 4_000
"""Number of different orders, a multiple of those in a record."""

FILES = 8
NAMES = {
    DOCUMENTS: "a JSON document",
    LINES: "100 lines of JSON",
    DEBEZIUM: "Debezium, an update",
    DYNAMODB: "DynamoDB, a modification",
    PROTOBUF: "Protobuf",
}
BY_THE_GB = {
    LINES: (Goal.LINES, 1.2),
    DEBEZIUM: (Goal.DEBEZIUM, 2.0),
    DYNAMODB: (Goal.DYNAMODB, 2.0),
}
MAX_PROTOBUF = 1.0


@dataclass(frozen=True)
class Formats:
    """The results, by format.

    Attributes:
        orders: Number of orders in each raw table.
        bytes: The size of all payloads.
        usages: The usage of each round.
    """

    orders: int
    bytes: Mapping[str, int]
    usages: Mapping[str, Sequence[Usage]]

    def targets(self) -> list[Target]:
        """Return the results for the goals."""
        goals = [(goal, limit, self._by_the_gb(name)) for name, (goal, limit) in BY_THE_GB.items()]
        goals.append((Goal.PROTOBUF, MAX_PROTOBUF, self._by_the_order(PROTOBUF)))
        return [Target(goal, f"{each.text(2)}x", met=each.median <= limit) for goal, limit, each in goals]

    def describe(self) -> str:
        """Return the part of the section."""
        rows = []
        for name, usages in self.usages.items():
            cpu = Spread.of([usage.cpu for usage in usages])
            rows.append(
                [
                    NAMES[name],
                    f"{self.bytes[name] / self.orders:,.0f}",
                    cpu.scaled(1e6 / self.orders).text(),
                    cpu.scaled(GB / self.bytes[name]).text(),
                ]
            )
        count = len(self.usages[DOCUMENTS])
        return (
            f"Raw tables have the same {self.orders:,} orders in records of different formats, and each is "
            "decoded into a new typed table with the same columns; one of changes has those of the format "
            "too. Changes have the order before and after them, without a schema. "
            f"{describe_rounds(count)}.\n\n"
            + markdown_table(["record", "bytes per order", "CPU µs per order", "CPU s/GB"], rows)
        )

    def _by_the_order(self, name: str) -> Spread:
        """CPU relative to documents, round by round."""
        pairs = zip(self.usages[name], self.usages[DOCUMENTS], strict=True)
        return Spread.of([usage.cpu / documents.cpu for usage, documents in pairs])

    def _by_the_gb(self, name: str) -> Spread:
        return self._by_the_order(name).scaled(self.bytes[DOCUMENTS] / self.bytes[name])


def measure(worker: Worker, *, orders: int, rounds: int) -> Formats:
    """Measure raw tables with this number of orders in 8 files, in turn, after a round as a warm-up.

    Args:
        orders: A multiple of 800, so that all records are full.

    Raises:
        WorkerFailed: The tables do not have all orders.
    """
    source = Payloads()
    documents = [source.payload(DOCUMENT_BYTES) for _ in range(DISTINCT)]
    sizes = dict.fromkeys(RECORD_FORMATS, 0)
    usages: dict[str, list[Usage]] = {name: [] for name in RECORD_FORMATS}
    with tempfile.TemporaryDirectory() as folder:
        for name, each in RECORD_FORMATS.items():
            table, records = create_table(str(Path(folder, name))), cycle([*each.records(documents)])
            for _ in range(FILES):
                payloads = [*islice(records, orders // FILES // each.orders)]
                sizes[name] += sum(map(len, payloads))
                land(table, payloads)
        for number in range(rounds + 1):
            for name, found in usages.items():
                with tempfile.TemporaryDirectory() as place:
                    Path(place, RAW).symlink_to(Path(folder, name))
                    reclaim_from_host(2 * sizes[name])
                    usage = worker.read(place, name, orders).usage
                    notes = DeltaTable(f"{place}/{DERIVED}").to_pyarrow_table(columns=["note"])["note"]
                if notes.null_count:
                    raise WorkerFailed(f"{name}: {notes.null_count} of {orders} orders were not decoded")
                if number:
                    found.append(usage)
    return Formats(orders, sizes, usages)
