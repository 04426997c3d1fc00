"""A derived table whose rows have dates and times, which a test writes without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import BATCH_COLUMN, DerivedFileWriter, Manifest
from kinesis_assets.derive.maintenance import maintain
from kinesis_assets.derive.policy import Retention
from kinesis_assets.derive.write import writing_job
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.maintenance.steps import MaintenanceLimits
from support.formats import delta_columns, derived_at, derived_rows
from support.timing import WRITING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kinesis_assets.derive.commit_entry import DerivedCommit
    from kinesis_assets.derive.derived_table import DerivedTable
    from kinesis_assets.table.maintenance.steps import Step

NOON = datetime.combine(datetime.now(UTC).date(), datetime.min.time(), UTC) + timedelta(hours=12)
TODAY = NOON.date()
TYPES = {
    "key": "long",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "note": "string",
    BATCH_COLUMN: "long",
}


def ago(days: float) -> datetime:
    return NOON - timedelta(days=days)


@dataclass
class Dated:
    """A table of keys whose dates and times are some days ago; of None, they are null.

    Attributes:
        note: A text of all rows that are added.
    """

    table: DerivedTable
    note: str | None = None

    @classmethod
    def create(cls, path: Path, *partition_by: str) -> Dated:
        """Create the table."""
        table = derived_at(str(path), WRITING)
        table.open_or_create("source", delta_columns(TYPES), partition_by)
        return cls(table)

    def planned(self, *rows: tuple[int, float | None]) -> Callable[[], DerivedCommit]:
        """Write a file for each call, and return the function that commits it."""
        base, batch_id = self.table.snapshot(), new_id(self.table.clock)
        job = writing_job(self.table, base.file_schema, base.partition_by, batch_id)
        writer = DerivedFileWriter(job)
        times = [None if days is None else ago(days) for _, days in rows]
        values: list[dict[str, Any]] = [
            {
                "key": key,
                "day": time and time.date(),
                "at": time,
                "local": time and time.replace(tzinfo=None),
                "note": self.note,
                BATCH_COLUMN: batch_id,
            }
            for (key, _), time in zip(rows, times, strict=True)
        ]
        writer.write(pa.RecordBatch.from_pylist(values, job.schema))
        manifest = Manifest(tuple(writer.close()))
        return lambda: commit(
            self.table,
            Attempt(cursor=Cursor(source="source", commit=batch_id), batch_id=batch_id, manifest=manifest),
            expected=base.commit_id,
        )

    def append(self, *rows: tuple[int, float | None]) -> DerivedCommit:
        return self.planned(*rows)()

    def expire(
        self, column: str = "day", service: datetime = NOON, machine: datetime = NOON, **options: Any
    ) -> list[Step]:
        """Run maintenance with a retention of 90 days, and return its steps that delete rows."""
        found = maintain(
            self.table, service, retention=Retention(column, 90), machine=lambda: machine, **options
        )
        return [step for step in found if step.step == "expire"]

    def compact(self) -> None:
        list(maintain(self.table, NOON, machine=lambda: NOON, limits=MaintenanceLimits(small_files=2)))

    @property
    def keys(self) -> list[int]:
        return sorted(derived_rows(self.table)["key"].to_pylist())

    @property
    def files(self) -> set[str]:
        return {file.path for file in self.table.snapshot().data_files()}
