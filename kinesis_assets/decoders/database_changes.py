"""What the formats of database changes share: the columns that they add, the rows of a change, and numbers.

The rows of a change are those that bring a copy of the table up to date, if they are applied in their order.
Numbers may be texts, which are converted to integers and doubles without loss of digits. Decimals, which are
exact anyway, are in `spark_types`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.formats import FORMATS, OPERATION, SOURCE, UNCHANGED
from kinesis_assets.decoders.spark_types import Float32, parse_number, parse_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kinesis_assets.decoders.decoder import DecoderSettings, Decoding, Step
    from kinesis_assets.decoders.formats import Changes

INSERT, UPDATE, DELETE, LOAD = "insert", "update", "delete", "load"
"""The values of `OPERATION`. A load is a row that was there when the source began to record changes."""

_TYPES: dict[str, DataType] = {
    "STRING": StringType(),
    "TIMESTAMP": TimestampType(),
    "ARRAY<STRING>": ArrayType(StringType()),
}
"""The types of the columns that formats add."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


@dataclass(frozen=True)
class ChangeDecoder:
    """A decoder of changes of a database, which returns the columns that its format adds too.

    Attributes:
        spark_type: The columns of the database's table, as DDL or as a Spark type. A column may be left out.
        key: The columns that identify a row. A change in which one of them is null cannot be decoded.
        stored_as: By column in lower case, the names under which its values are stored. By default it is its
            own name.
    """

    spark_type: str | DataType
    key: Sequence[str] = ()
    stored_as: Mapping[str, Sequence[str]] = field(default_factory=dict)
    name: ClassVar[str]
    multiplies: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls(settings.schema, settings.key, settings.stored_as)

    def resolved(self) -> Self:
        """Return a copy with a parsed type, which has the added columns; see `Decoder`."""
        columns = parse_type(self.spark_type)
        if not isinstance(columns, StructType):
            raise InvalidInput(
                f"the format {self.name} needs the columns of the table, not the type "
                f"{columns.simpleString()}; give a struct"
            )
        self.changes.check_fields(Field(each.name, each.dataType.simpleString()) for each in columns.fields)
        added = [StructField(name, kind) for name, kind in self._added.items()]
        return replace(self, spark_type=StructType([*columns.fields, *added]))

    def make_step(self) -> Step:
        """See `Decoder`."""
        read = self.make_reader()

        def step(decoding: Decoding) -> None:
            [decoding.value] = read(decoding.value)

        def several(decoding: Decoding) -> list[Decoding]:
            return [decoding.valued(row) for row in read(decoding.value)]

        return several if self.multiplies else step

    def make_reader(self) -> Callable[[bytes], list[Row]]:
        """Create the function that returns the rows of a change, or raises `Undecodable`."""
        raise NotImplementedError

    @property
    def table(self) -> ChangedTable:
        """The database's table. Only for a resolved decoder."""
        declared = cast("StructType", self.spark_type).fields[: -len(self._added)]
        columns = StructType([each for each in declared if each.name != SOURCE])
        source = next((each.dataType for each in declared if each.name == SOURCE), None)
        return ChangedTable(columns, source, self.key, self.stored_as)

    @property
    def changes(self) -> Changes:
        """What the format says of its changes."""
        return cast("Changes", FORMATS[self.name].changes)

    @property
    def _added(self) -> dict[str, DataType]:
        return {each.name: _TYPES[each.type] for each in self.changes.columns}


class ChangedTable:
    """What is known of a table from the declared columns.

    Attributes:
        source: The type of `SOURCE`; None if it is not declared.
    """

    def __init__(
        self,
        columns: StructType,
        source: DataType | None,
        key: Sequence[str],
        stored_as: Mapping[str, Sequence[str]],
    ) -> None:
        self.columns = columns
        self.source = source
        self._stored_as = stored_as
        wanted = {name.lower() for name in key}
        self._key = [name for name in columns.names if name.lower() in wanted]
        self._required = [each.name for each in columns.fields if not each.nullable]

    @property
    def nullable(self) -> StructType:
        """The columns, all of which may be null, as in a deletion, of which only the key matters."""
        return StructType([StructField(each.name, each.dataType) for each in self.columns.fields])

    def rows(
        self, image: Row | None, before: Row | None, added: Row, path: str, unchanged: Sequence[str] = ()
    ) -> list[Row]:
        """Return the rows of a change, and complete them with the columns that the format adds.

        An update that moves its row to another key is a deletion of the one with the old key, and a row.

        Args:
            image: The row after the change, or the deleted one. All its columns may be null.
            before: The row before the change, or some of its columns.
            path: Where the image is in its document.
            unchanged: Columns whose values the image does not have, because they are as they were.

        Raises:
            Undecodable: There is no image, or a column is null that must not be.
        """
        if image is None:
            raise Undecodable(f"Expected `object`, got `null` - at `{path}`")
        self.check_key(image, path)
        operation = added[OPERATION.name]
        if operation != DELETE:
            _refuse_null(image, (name for name in self._required if name not in unchanged), path)
        image.update(added)
        if unchanged:
            image[UNCHANGED.name] = [
                column for name in unchanged for column in self._stored_as.get(name.lower(), (name,))
            ]
        if operation != UPDATE or before is None or not self._moved(before, image):
            return [image]
        return [{**before, **added, OPERATION.name: DELETE}, image]

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


_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_DIGITS = 19  # of an integer of 64 bits
_SHOWN = 100


def exact_number(value: Any, wanted: str) -> int | Decimal:
    """Convert a number, or its text, to an exact number.

    Raises:
        ValueError: It is something else.
    """
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise ValueError(f"{value[:_SHOWN]!r} is not a number")
        return parse_number(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(f"Expected `{wanted}`, got `{type(value).__name__}`")  # noqa: TRY004  # for msgspec
    return value


class _Integer(int):
    __slots__ = ()
    bits: ClassVar[int]

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert an integer, or the text of one, as `12`, `12.0` or `1.2E+1`."""
        number = exact_number(value, "int")
        if number and isinstance(number, Decimal):
            if number.adjusted() >= _MOST_DIGITS:
                raise ValueError("Number out of range")
            if number != number.to_integral_value():
                raise ValueError(f"{str(value)[:_SHOWN]!r} is not an integer")
        whole = cls(number)
        if not -(1 << cls.bits - 1) <= whole < 1 << cls.bits - 1:
            raise ValueError("Number out of range")
        return whole


class _Double(float):
    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a number, or its text, if a double has all its digits."""
        number = exact_number(value, "float")
        try:
            double = cls(number)
        except OverflowError:
            double = cls(math.inf)
        if math.isinf(double):
            raise ValueError("Number out of range")
        if Decimal(repr(float(double))) != number:
            raise ValueError(f"{str(value)[:_SHOWN]!r} has more digits than a double; declare a decimal")
        return double


class _Float(Float32):
    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        """Convert a number, or its text, if a double has all its digits. It is rounded when it is stored."""
        return super().of(_Double.of(value))


def _integer(bits: int) -> type[_Integer]:
    return type("int", (_Integer,), {"__slots__": (), "bits": bits})


EXACT: dict[DataType, Any] = {
    ByteType(): _integer(8),
    ShortType(): _integer(16),
    IntegerType(): _integer(32),
    LongType(): _integer(64),
    FloatType(): _Float,
    DoubleType(): _Double,
}
"""Python types for numbers, which may be texts, see `value_type`."""
