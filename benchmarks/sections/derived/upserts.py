"""CPU of upserts of a few keys into a large table."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.derivations import NEWEST_BY, RAW, UPSERT, payload_of_order
from benchmarks.data.one_record_commits import create_table
from benchmarks.data.order_tables import OrderFiles, land
from benchmarks.harness.section import Goal, Target, markdown_table
from benchmarks.harness.spread import describe_rounds
from benchmarks.sections.derived.workers import OURS, PEER, Job, Rounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.sections.derived.workers import Workers

MAX_RATIO = 0.5
KEYS = 10_000
FILE_ROWS = 250_000

CLUSTERED, SCATTERED = "clustered", "scattered"
GOALS = {CLUSTERED: Goal.UPSERT_CLUSTERED, SCATTERED: Goal.UPSERT_SCATTERED}

_NEWER = datetime(2026, 10, 1, tzinfo=UTC)
"""Only the upserted orders are of this time or later."""


@dataclass(frozen=True)
class Upserts:
    """The results.

    Attributes:
        files: Number of its files.
        rounds: The rounds, by how the keys are spread over the table.
    """

    rows: int
    files: int
    rounds: Mapping[str, Rounds]

    def targets(self, missing: str) -> list[Target]:
        """Return the results for the goals."""
        note = f" of {self.rows / 1e6:g} million rows"
        return [each.target(GOALS[keys], MAX_RATIO, missing, note) for keys, each in self.rounds.items()]

    def describe(self) -> str:
        """Return the part of the section."""
        rows = []
        for keys, rounds in self.rounds.items():
            for name in (OURS, PEER):
                cpu = rounds.cpu(name)
                if cpu is not None:
                    rows.append([keys, name, cpu.text(), rounds.wall(name).text()])
        count = next(iter(self.rounds.values())).count
        return (
            f"A table has {self.rows:,} rows in {self.files} files, and {KEYS:,} newer rows with keys of the "
            "table arrive in its raw table, decoded from JSON. Clustered keys are all in one file, scattered "
            "ones in all files evenly. delta-spark merges the same records into a table with the same files. "
            f"{describe_rounds(count)}, each with new tables.\n\n"
            + markdown_table(["keys", "upsert", "CPU s", "wall-clock s"], rows)
        )


def keys(spread: str, rows: int, count: int) -> Sequence[int]:
    """Return keys of a table that has those from 0."""
    return range(count) if spread == CLUSTERED else range(0, rows, rows // count)


def measure(
    workers: Workers, *, files: int, rounds: int, file_rows: int = FILE_ROWS, count: int = KEYS
) -> Upserts:
    """Measure upserts of this number of keys into a table with this number of files."""
    with tempfile.TemporaryDirectory() as folder:
        base = OrderFiles.write(Path(folder), files, file_rows)

        def job(spread: str) -> Job:
            payloads = [payload_of_order(number) for number in keys(spread, base.rows, count)]

            def prepare(name: str, place: Path) -> None:
                raw = create_table(str(place / RAW))
                if name == OURS:
                    base.create_derived(place)
                else:
                    base.create_delta(place)
                land(raw, payloads)

            newer = pc.field(NEWEST_BY) >= pa.scalar(_NEWER)
            return Job(UPSERT, count, 2 * base.bytes, prepare, NEWEST_BY, newer)

        return Upserts(base.rows, files, {each: workers.measure(job(each), rounds) for each in GOALS})
