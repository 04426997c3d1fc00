"""A table that pyiceberg alone has created and written, for tests of the catalogs and readers themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from pyiceberg.transforms import DayTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from support.iceberg.catalogs import TestCatalog

SCHEMA = Schema(
    NestedField(1, "item", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "at", TimestamptzType(), required=False),
)
BY_DAY = PartitionSpec(PartitionField(source_id=3, field_id=1000, transform=DayTransform(), name="day"))
MORNING = datetime(2026, 11, 28, 6, tzinfo=UTC)


def create(catalog: TestCatalog, name: str = "orders", **properties: str) -> Table:
    """Create an empty table, with a partition for each day."""
    identifier = f"{catalog.namespace}.{name}"
    return catalog.load().create_table(identifier, SCHEMA, partition_spec=BY_DAY, properties=properties)


def rows_of(items: Iterable[int]) -> list[dict[str, Any]]:
    """Return rows with numbers, one an hour."""
    return [
        {
            "item": item,
            "name": None if item % 3 == 0 else f"it's {item}",
            "at": MORNING + timedelta(hours=item),
        }
        for item in items
    ]


def arrow_of(items: Iterable[int]) -> pa.Table:
    return pa.Table.from_pylist(rows_of(items), schema=SCHEMA.as_arrow())


def commit(table: Table, **properties: str) -> None:
    """Set properties in one attempt, if the table is still the one that was loaded."""
    snapshot = table.current_snapshot()
    is_unchanged = AssertRefSnapshotId(ref="main", snapshot_id=snapshot and snapshot.snapshot_id)
    table.catalog.commit_table(table, (is_unchanged,), (SetPropertiesUpdate(updates=properties),))
