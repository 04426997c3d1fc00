"""The columns, the partitioning and the properties of a raw Iceberg table.

The partition is the day of arrival, by a transform of Iceberg. So `arrival_date` is the name of a partition
and not of a column: no reader looks for it in the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.transforms import DayTransform
from pyiceberg.types import PrimitiveType

from kinesis_assets.table.column_schemas import schema_of
from kinesis_assets.table.data_file import FIELD_IDS, FILE_SCHEMA_WITH_IDS, PARTITION_COLUMNS, TABLE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema

SCHEMA = pyarrow_to_schema(FILE_SCHEMA_WITH_IDS)
"""The columns of the table, which are those of its files."""

TYPES = {
    field.name: field.field_type for field in SCHEMA.fields if isinstance(field.field_type, PrimitiveType)
}
"""The type of each column, by name."""

READ_SCHEMA = schema_of(TABLE_SCHEMA)
"""The columns with which consumers read the rows, as in the metadata of a raw Delta table: also the date."""

_ARRIVAL = "approximate_arrival_timestamp"

PARTITIONING = PartitionSpec(
    PartitionField(
        source_id=FIELD_IDS[_ARRIVAL],
        field_id=PARTITION_FIELD_ID_START,
        transform=DayTransform(),
        name=PARTITION_COLUMNS[0],
    )
)
"""By day of arrival, UTC."""

COPY_ON_WRITE = {f"write.{name}.mode": "copy-on-write" for name in ("delete", "update", "merge")}
"""The properties with which no file deletes rows of others. Files are read one by one."""

PROPERTIES = {
    "write.metadata.metrics.default": "none",
    # Replay and doctor skip files by these statistics. Engines that compact the table keep them.
    **{f"write.metadata.metrics.column.{name}": "full" for name in ("shard_id", _ARRIVAL, "batch_id")},
    **COPY_ON_WRITE,
}
"""The properties of a new table."""


def difference(schema: Schema, partitioning: PartitionSpec) -> Sequence[str]:
    """Return what of the columns and the partition a table lacks, or has with another type or id."""
    found = {field.name: (field.field_id, field.field_type) for field in schema.fields}
    wrong = [name for name, kind in TYPES.items() if found.get(name) != (FIELD_IDS[name], kind)]
    fields = [(field.source_id, str(field.transform)) for field in partitioning.fields]
    wanted = [(field.source_id, str(field.transform)) for field in PARTITIONING.fields]
    return wrong if fields == wanted else [*wrong, "the partition by day of arrival"]
