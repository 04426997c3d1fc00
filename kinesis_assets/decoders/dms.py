"""Changes of databases that AWS DMS has captured, as it writes them to Kinesis Data Streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.sql.types import BinaryType, StringType, StructField, StructType, TimestampType

from kinesis_assets.decoders.database_changes import DELETE, EXACT, INSERT, LOAD, UPDATE, ChangeDecoder
from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.formats import CHANGED_AT, OPERATION, SOURCE
from kinesis_assets.decoders.json_documents import json_reader
from kinesis_assets.decoders.spark_types import converted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.database_changes import Row

_OPERATIONS = {INSERT, UPDATE, DELETE, LOAD}

_METADATA = StructType(
    [
        StructField("record-type", StringType(), nullable=False),
        StructField("operation", StringType(), nullable=False),
        StructField("timestamp", TimestampType(), nullable=False),
    ]
)

_BEFORE = "before-image"
"""The name of the images of rows before changes, as in the examples of BeforeImageSettings of AWS DMS."""

_SHOWN = 100


class _Hexadecimal(bytes):
    """Bytes as hexadecimal digits after 0x, or as base64."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        if isinstance(value, str) and value[:2] in ("0x", "0X"):
            return cls(bytes.fromhex(value[2:]))
        return cls(converted(value, bytes))


_AS_TEXT: dict[DataType, Any] = {**EXACT, BinaryType(): _Hexadecimal}
"""Python types for what DMS writes as text."""


@dataclass(frozen=True)
class DMS(ChangeDecoder):
    """Decode changes of AWS DMS: load, insert, update and delete. Control records have no rows.

    Values are as for `Json`. Numbers may also be texts, and binary values hexadecimal digits after 0x. If an
    update has the image before it, with another key, it is a deletion of the row with that key and a row. The
    field `_source` of the schema is the metadata, such as its `transaction-id`.
    """

    name: ClassVar[str] = "dms"
    multiplies: ClassVar[bool] = True

    def make_reader(self) -> Callable[[bytes], list[Row]]:
        """See `ChangeDecoder`."""
        table = self.table
        columns = table.nullable
        expected = StructType(
            [
                StructField("data", columns),
                StructField(_BEFORE, columns),
                StructField("metadata", _METADATA, nullable=False),
            ]
        )
        read_change = json_reader(expected, _AS_TEXT)
        read_source = None
        if table.source is not None:
            read_source = json_reader(StructType([StructField("metadata", table.source)]))

        def read(document: bytes) -> list[Row]:
            change = read_change(document)
            metadata = change["metadata"]
            kind, operation = metadata["record-type"], metadata["operation"]
            if kind == "control":
                return []
            if kind != "data":
                raise Undecodable(f"Invalid enum value {kind[:_SHOWN]!r} - at `$.metadata.record-type`")
            if operation not in _OPERATIONS:
                raise Undecodable(f"Invalid enum value {operation[:_SHOWN]!r} - at `$.metadata.operation`")
            source = {} if read_source is None else {SOURCE: read_source(document)["metadata"]}
            added = {OPERATION.name: operation, CHANGED_AT.name: metadata["timestamp"], **source}
            return table.rows(change.get("data"), change.get(_BEFORE), added, "$.data")

        return read
