"""CPU of decoding the records of a raw table into a new typed table."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data.derivations import RAW, TYPED
from benchmarks.data.one_record_commits import create_table
from benchmarks.data.order_tables import land
from benchmarks.data.payloads import Payloads
from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.spread import describe_rounds
from benchmarks.harness.units import GB
from benchmarks.sections.derived.workers import OURS, PEER, Job, Rounds

if TYPE_CHECKING:
    from benchmarks.sections.derived.workers import Workers

MAX_RATIO = 0.3
RECORD_BYTES = 1000
DISTINCT = 4096


@dataclass(frozen=True)
class TypedTable:
    """The results.

    Attributes:
        records: Number of records of the raw table.
    """

    records: int
    rounds: Rounds

    def target(self, missing: str) -> Target:
        """Return the result for the goal."""
        return self.rounds.target(Goal.TYPED_JSON, MAX_RATIO, missing)

    def describe(self) -> str:
        """Return the part of the section."""
        size = self.records * RECORD_BYTES / GB
        rows = []
        for name in (OURS, PEER):
            cpu = self.rounds.cpu(name)
            if cpu is not None:
                seconds = self.rounds.wall(name)
                rows.append([name, cpu.scaled(1 / size).text(), seconds.scaled(1 / size).text()])
        return (
            f"A raw table has {self.records:,} records of {RECORD_BYTES:,} bytes, orders in JSON with nested "
            "fields, in a file for each of 8 commits. All are decoded into a new typed table, in one step. "
            "delta-spark reads the same table, decodes with Spark's `from_json`, and writes a new table. "
            f"{describe_rounds(self.rounds.count)}.\n\n"
            + markdown_table(["typed table from JSON", "CPU s/GB", "wall-clock s/GB"], rows)
        )


def measure(workers: Workers, *, records: int, rounds: int) -> TypedTable:
    """Measure a raw table with this number of records in 8 files."""
    source = Payloads()
    payloads = cycle([source.payload(RECORD_BYTES) for _ in range(DISTINCT)])
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, RAW)
        table = create_table(str(raw))
        for _ in range(8):
            land(table, islice(payloads, records // 8))

        def prepare(_: str, place: Path) -> None:
            (place / RAW).symlink_to(raw)

        job = Job(TYPED, records, 2 * records * RECORD_BYTES, prepare, "total_cents")
        return TypedTable(records, workers.measure(job, rounds))
