"""A derived Iceberg table with partitions, whose rows a test writes itself, without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kinesis_assets.derive.commit import Attempt, commit
from kinesis_assets.derive.cursor import Cursor
from kinesis_assets.derive.data_files import BATCH_COLUMN, DerivedFileWriter, Manifest
from kinesis_assets.derive.derived_table import DerivedTable
from kinesis_assets.derive.maintenance import maintain
from kinesis_assets.derive.read import rows_of_file
from kinesis_assets.derive.write import writing_job
from kinesis_assets.table.commit_ids import new_id
from kinesis_assets.table.partition_field import partition_fields
from support.formats import delta_columns, derived_iceberg, iceberg_of
from support.iceberg.table_readers import READERS
from support.readers import Filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from kinesis_assets.table.format import DerivedIn
    from kinesis_assets.table.maintenance.steps import State

Row = dict[str, Any]

TYPES = {
    "number": "integer",
    "id": "long",
    "name": "string",
    "seen": "timestamp",
    "wall": "timestamp_ntz",
    "day": "date",
    "price": "decimal(12,2)",
    "token": "binary",
}


def row(number: int, name: str | None, seen: str | None) -> Row:
    """Return a row. Its id is null if its number is 3."""
    at = None if seen is None else datetime.fromisoformat(seen).replace(tzinfo=UTC)
    return {
        "number": number,
        "id": None if number == 3 else number * 7_000_000_000 - 10_000_000_000,
        "name": name,
        "seen": at,
        "wall": None if at is None else at.replace(tzinfo=None),
        "day": None if at is None else at.date(),
        "price": None if seen is None else Decimal(number * 1337 - 4000).scaleb(-2),
        "token": None if name is None else name.encode(),
    }


ROWS = [
    row(-11, "", "1969-12-31T23:59:59.999999"),
    row(1, "a b/ü=%", "1970-01-01"),
    row(2, "漢字かな\U0001f600x", "1969-01-31T01:00"),
    row(3, None, None),
    row(14, "漢字かな\U0001f600y", "2026-11-29T11:30"),
    row(15, "orders", "2026-11-29T23:30"),
]


class Partitioned:
    """A table with rows of some types.

    Args:
        folder: The folder in which its folder is.
        format: Its format; by default with a catalog beside it.
    """

    def __init__(
        self,
        folder: Path,
        *partition_by: str,
        types: Mapping[str, str] = TYPES,
        format: DerivedIn | None = None,  # noqa: A002  # as that of a table
    ) -> None:
        path = str(folder / "orders")
        self.table = DerivedTable(path, format=format or derived_iceberg(path))
        self.partition_by = partition_by
        self.table.open_or_create("source", columns_of(types), partition_by)

    def append(self, *rows: Row, replacing: int | None = None) -> None:
        """Add rows, and delete those whose number is given by copying their files without them."""
        base, batch_id = self.table.snapshot(), new_id(self.table.clock)
        schema = base.file_schema
        writer = DerivedFileWriter(writing_job(self.table, schema, base.partition_by, batch_id))
        removed = []
        for file in base.data_files() if replacing is not None else []:
            (rows_before,) = rows_of_file(self.table.files, file, schema)
            is_replaced = pc.equal(rows_before["number"], replacing)
            if pc.any(is_replaced).as_py():
                removed.append(file)
                writer.write(rows_before.filter(pc.invert(is_replaced)))
        empty = dict.fromkeys(schema.names)
        values = [{**empty, **each, BATCH_COLUMN: batch_id} for each in rows]
        writer.write(pa.RecordBatch.from_pylist(values, schema))
        commit(
            self.table,
            Attempt(
                cursor=Cursor(source="source", commit=batch_id),
                batch_id=batch_id,
                manifest=Manifest(tuple(writer.close())),
            ),
            expected=base.commit_id,
            removed=removed,
            base=base if removed else None,
        )

    def maintained(self, **options: Any) -> dict[tuple[str, str], State]:
        """Run maintenance, and return the states of its steps by name and object."""
        now = datetime.now(UTC)
        steps = maintain(self.table, now, machine=lambda: now, **options)
        return {(step.step, step.of): step.state for step in steps}

    @property
    def partitions(self) -> list[Mapping[str, Any]]:
        """The partition of each file."""
        return [file.partition for file in self.table.snapshot().data_files()]

    def rows(self, reader: str, *columns: str, condition: Filter | None = None) -> list[Row]:
        """Return the rows that a reader finds."""
        return READERS[reader](iceberg_of(self.table), columns, condition)

    def check_filters(self, reader: str, rows: Sequence[Row]) -> None:
        """Check that a reader finds the same rows by values of partition columns as without a filter."""
        assert self.numbers(reader) == sorted(each["number"] for each in rows)
        for condition in self.filters(rows):
            if reader == "DuckDB" and not can_be_filtered_by_duckdb(condition.value):
                continue
            expected = sorted(each["number"] for each in rows if condition.accepts(each))
            assert self.numbers(reader, condition) == expected, condition

    def numbers(self, reader: str, condition: Filter | None = None) -> list[int]:
        """Return the numbers of the rows that a reader finds, sorted."""
        return sorted(each["number"] for each in self.rows(reader, "number", condition=condition))

    def filters(self, rows: Sequence[Row]) -> Iterator[Filter]:
        """Yield filters by the values of partition columns in some rows."""
        for column in {field.column for field in partition_fields(self.partition_by)}:
            values = [each[column] for each in rows]
            yield from (Filter(column, value) for value in values)
            yield Filter(column, values[-2], is_bound=True)


def can_be_filtered_by_duckdb(value: Any) -> bool:
    """Return false for binary, which has no literal here; and before 1970, where DuckDB skips files too many.

    It does so for days and months, also in tables that pyiceberg has written.
    """
    return not isinstance(value, bytes) and not (isinstance(value, date) and value.year < 1970)


def columns_of(types: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of a table, as in Delta's metadata, with the batch id."""
    return delta_columns({**types, BATCH_COLUMN: "long"})
