"""What the formats of database changes share: the columns that they add, and the rows of a change.

The rows of a change are those that bring a copy of the table up to date, if they are applied in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pyspark.sql.types import ArrayType, StringType, StructField, StructType, TimestampType

from kinesis_assets.decoders.decoder import Decoding, Undecodable
from kinesis_assets.decoders.spark_types import parse_type
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql.types import DataType

OPERATION = StructField("_operation", StringType())
CHANGED_AT = StructField("_changed_at", TimestampType())
POSITION = StructField("_position", StringType())
UNCHANGED = StructField("_unchanged", ArrayType(StringType()))

INSERT, UPDATE, DELETE, LOAD = "insert", "update", "delete", "load"
"""The values of `OPERATION`. A load is a row that was there when the source began to record changes."""

SOURCE = "_source"
"""The field of a schema that is read from what a format says of a change, beside the row itself."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


@dataclass(frozen=True)
class ChangeDecoder:
    """A decoder of changes, each of which is no row, one row or two.

    Attributes:
        spark_type: The columns of the database's table, as DDL or as a Spark type. A column may be left out.
        key: The columns that identify a row. A change in which one of them is null cannot be decoded.
    """

    spark_type: str | DataType
    key: Sequence[str] = ()
    name: ClassVar[str]
    added: ClassVar[tuple[StructField, ...]]

    def resolved(self) -> Self:
        """Return a copy with a parsed type, which has the added columns; see `Decoder`."""
        columns = parse_type(self.spark_type)
        if not isinstance(columns, StructType):
            raise InvalidInput(
                f"the format {self.name} needs the columns of the table, not the type "
                f"{columns.simpleString()}; give a struct"
            )
        added = [field.name for field in self.added]
        if taken := sorted({name for name in columns.names if name.lower() in added}):
            raise InvalidInput(
                f"the format {self.name} adds the column {taken[0]} itself; remove it from the schema"
            )
        if SOURCE in columns.names and not isinstance(columns[SOURCE].dataType, StructType):
            raise InvalidInput(f"{SOURCE} must be a struct; give the fields that you need of it")
        return replace(self, spark_type=StructType([*columns.fields, *self.added]))

    def make_step(self) -> Callable[[Decoding], None]:
        """See `Decoder`."""
        read = self.make_reader()

        def step(decoding: Decoding) -> None:
            decoding.value = read(decoding.value)

        return step

    def make_reader(self) -> Callable[[bytes], list[Row]]:
        """Create the function that returns the rows of a change, or raises `Undecodable`."""
        raise NotImplementedError

    @property
    def table(self) -> ChangedTable:
        """The database's table. Only for a resolved decoder."""
        fields = cast("StructType", self.spark_type).fields[: -len(self.added)]
        columns = StructType([field for field in fields if field.name != SOURCE])
        source = next((field.dataType for field in fields if field.name == SOURCE), None)
        return ChangedTable(columns, source, self.key)


class ChangedTable:
    """What is known of a table from the declared columns.

    Attributes:
        columns: The columns, without those that a format adds.
        source: The type of `SOURCE`; None if it is not declared.
    """

    def __init__(self, columns: StructType, source: DataType | None, key: Sequence[str]) -> None:
        self.columns = columns
        self.source = source
        self._key = [name for name in key if name in columns.names]
        self._required = [field.name for field in columns.fields if not field.nullable]

    @property
    def nullable(self) -> StructType:
        """The columns, all of which may be null, as in a deletion, of which only the key matters."""
        return StructType([StructField(field.name, field.dataType) for field in self.columns.fields])

    def rows(self, image: Row | None, before: Row | None, added: Row, path: str) -> list[Row]:
        """Return the rows of a change, and complete them with the columns that the format adds.

        An update that moves its row to another key is a deletion of the one with the old key, and a row.

        Args:
            image: The row after the change, or the deleted one. All its columns may be null.
            before: The row before the change, or some of its columns.
            path: Where the image is in its document.

        Raises:
            Undecodable: There is no image, or a column is null that must not be.
        """
        if image is None:
            raise Undecodable(f"Expected `object`, got `null` - at `{path}`")
        self.check_key(image, path)
        operation = added[OPERATION.name]
        if operation != DELETE:
            unknown = added.get(UNCHANGED.name) or ()
            _refuse_null(image, (name for name in self._required if name not in unknown), path)
        image.update(added)
        if operation != UPDATE or before is None or not self._moved(before, image):
            return [image]
        deleted = {**before, **added, OPERATION.name: DELETE}
        deleted.pop(UNCHANGED.name, None)
        return [deleted, image]

    def check_key(self, row: Row, path: str) -> None:
        """Raise `Undecodable` if a column of the key is null."""
        _refuse_null(row, self._key, path)

    def _moved(self, before: Row, after: Row) -> bool:
        """Return whether a row has another key after a change. *before* may lack columns."""
        return all(before.get(name) is not None for name in self._key) and any(
            before[name] != after[name] for name in self._key
        )


def _refuse_null(row: Row, names: Iterable[str], path: str) -> None:
    for name in names:
        if row.get(name) is None:
            raise Undecodable(f"Expected a value of `{name}`, got `null` - at `{path}`")


def moment(number: int, unit: int, path: str) -> datetime:
    """Return the time for a number since 1970, of which a second has *unit*. It is cut off to microseconds.

    Raises:
        Undecodable: Python has no such time.
    """
    try:
        return _EPOCH + timedelta(microseconds=number * 1_000_000 // unit)
    except OverflowError:
        raise Undecodable(f"{number} is out of range - at `{path}`") from None


def beneath(reason: Exception, path: str) -> str:
    """Return the reason why a part of a document is invalid, with the path from its root."""
    text = str(reason)
    return text.replace("`$", f"`{path}", 1) if "`$" in text else f"{text} - at `{path}`"
