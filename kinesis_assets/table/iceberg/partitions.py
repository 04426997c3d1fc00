"""The partitions of an Iceberg table: the fields of its specification, and the values of its files.

A manifest has the value of a field in the type of its transform. Elsewhere it is as `partition_texts` returns
it, but a date or an integer is no text there, as in a Delta table.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.partitioning import PartitionField as IcebergField
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform, parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DateType, DecimalType, IntegerType, LongType
from pyiceberg.utils.datetime import date_str_to_days

from kinesis_assets.table.transforms import TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from kinesis_assets.table.partition_field import PartitionField


def specification(fields: Iterable[PartitionField], schema: Schema) -> PartitionSpec:
    """Return the specification of a new table, whose columns include those of the fields."""
    return PartitionSpec(
        *(
            IcebergField(
                source_id=schema.find_field(field.column).field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=parse_transform(
                    field.transform if field.parameter is None else f"{field.transform}[{field.parameter}]"
                ),
                name=field.name,
            )
            for number, field in enumerate(fields)
        )
    )


def entries_of(spec: PartitionSpec, schema: Schema) -> list[str]:
    """Return the fields of a specification as the setting `partition_by` names them.

    What the setting cannot name is in the words of Iceberg.
    """
    return [_entry_of(field, schema.find_column_name(field.source_id)) for field in spec.fields]


def _entry_of(field: IcebergField, column: str | None) -> str:
    transform = field.transform
    if isinstance(transform, IdentityTransform) and column is not None:
        return column
    if isinstance(transform, BucketTransform):
        return f"bucket({transform.num_buckets}, {column})"
    if isinstance(transform, TruncateTransform):
        return f"truncate({transform.width}, {column})"
    return f"{transform}({column})"


def record_of(partition: Mapping[str, str | None], spec: PartitionSpec, schema: Schema) -> Record:
    """Return the partition of a file, as manifests contain it, from the text of each value, by field name."""
    return Record(*(_stored(field, schema, partition[field.name]) for field in spec.fields))


def _stored(field: IcebergField, schema: Schema, text: str | None) -> Any:
    if text is None:
        return None
    if (unit := TIME_UNITS.get(str(field.transform))) is not None:
        return int(np.datetime64(text, unit).astype(np.int64))
    if isinstance(field.transform, BucketTransform):
        return int(text)
    return _stored_value(schema.find_type(field.source_id), text)


def _stored_value(kind: IcebergType, text: str) -> Any:
    if isinstance(kind, DateType):
        return date_str_to_days(text)
    if isinstance(kind, IntegerType | LongType):
        return int(text)
    if isinstance(kind, DecimalType):
        return Decimal(text)
    return bytes.fromhex(text) if isinstance(kind, BinaryType) else text


def partition_of(record: Record, spec: PartitionSpec, schema: Schema) -> dict[str, Any]:
    """Return the value of each field of the partition of a file, by name."""
    return {field.name: _value_of(field, schema, record[number]) for number, field in enumerate(spec.fields)}


def _value_of(field: IcebergField, schema: Schema, value: Any) -> Any:
    if value is None or isinstance(value, date):
        return value
    unit = TIME_UNITS.get(str(field.transform))
    if unit is None and isinstance(field.transform, IdentityTransform):
        unit = "D" if isinstance(schema.find_type(field.source_id), DateType) else None
    if unit is not None:
        time = np.datetime64(value, unit)
        day = time.item() if unit == "D" else None
        return day if isinstance(day, date) else str(time)  # Python has no date after the year 9999
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:f}" if isinstance(value, Decimal) else value
