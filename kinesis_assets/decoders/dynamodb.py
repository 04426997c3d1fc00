"""Changes of DynamoDB tables, as their stream to Kinesis Data Streams has them.

An attribute value is an object whose only member is named after its type: `{"N": "12.5"}`. A field of the
schema expects one of these types, or null: `{"NULL": true}`.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # in the type of a constant
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Required, Self

import msgspec
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kinesis_assets.decoders.database_changes import (
    DELETE,
    EXACT,
    INSERT,
    UPDATE,
    ChangeDecoder,
    beneath,
    exact_number,
    moment,
)
from kinesis_assets.decoders.decoder import INVALID_JSON, Undecodable
from kinesis_assets.decoders.formats import CHANGED_AT, OPERATION, SOURCE
from kinesis_assets.decoders.json_documents import TRUNCATED, json_decoder, json_reader
from kinesis_assets.decoders.spark_types import JsonText, typed_dict, value_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.database_changes import ChangedTable, Row

_OPERATIONS = {"INSERT": INSERT, "MODIFY": UPDATE, "REMOVE": DELETE}
_UNITS = {"MILLISECOND": 1000, "MICROSECOND": 1_000_000}

_TAGS: tuple[tuple[type[DataType], str], ...] = (
    (NumericType, "N"),
    (StringType, "S"),
    (DateType, "S"),
    (TimestampType, "S"),
    (TimestampNTZType, "S"),
    (BinaryType, "B"),
    (BooleanType, "BOOL"),
)
"""The types of attributes for types of columns."""

_SETS = {"N": "NS", "S": "SS", "B": "BS"}

_EXACT: dict[DataType, Any] = {**TRUNCATED, **EXACT}

_ABSENT = (b"", b"null")

_ONE = "Expected one attribute value of DynamoDB"


@dataclass(frozen=True)
class DynamoDB(ChangeDecoder):
    """Decode changes of a DynamoDB table: INSERT, MODIFY and REMOVE.

    A row is the new image; without one, as in a removal, the keys and, if it is there, the old image. The
    field `_source` of the schema is the record itself, such as its `tableName` or `userIdentity`.
    """

    name: ClassVar[str] = "dynamodb"

    def make_reader(self) -> Callable[[bytes], list[Row]]:
        """See `ChangeDecoder`."""
        table = self.table
        decoder = json_decoder(_record(table))
        removed, untag = _struct(table.nullable)
        old_image = json_decoder(removed)
        read_source = None if table.source is None else json_reader(table.source)

        def read(document: bytes) -> list[Row]:
            try:
                record = decoder.decode(document.decode())
            except INVALID_JSON as error:
                raise Undecodable(str(error)) from error
            change = record.dynamodb
            operation = _OPERATIONS[record.eventName]
            if change.image is not None:
                row, path = untag(change.image), "$.dynamodb.NewImage"
            else:
                row, path = untag(change.keys), "$.dynamodb.Keys"
                if operation == DELETE and bytes(change.old) not in _ABSENT:
                    try:
                        row = {**untag(old_image.decode(change.old)), **row}
                    except INVALID_JSON as error:
                        raise Undecodable(beneath(error, "$.dynamodb.OldImage")) from error
            table.check_key(row, path)
            row[OPERATION.name] = operation
            # Only records of DynamoDB Streams have a sequence number. Their times are in seconds.
            unit = _UNITS[change.precision or "MILLISECOND"] if change.sequence is None else 1
            row[CHANGED_AT.name] = moment(change.at, unit, "$.dynamodb.ApproximateCreationDateTime")
            if read_source is not None:
                row[SOURCE] = read_source(document)
            return [row]

        return read


def _record(table: ChangedTable) -> Any:
    image, _ = _struct(table.columns)
    keys, _ = _struct(table.nullable)
    name = "ApproximateCreationDateTime"
    change = msgspec.defstruct(
        "dynamodb",
        [
            ("at", int, msgspec.field(name=name)),
            ("keys", keys, msgspec.field(name="Keys")),
            ("precision", Literal[*_UNITS] | None, msgspec.field(name=f"{name}Precision", default=None)),
            ("sequence", str | None, msgspec.field(name="SequenceNumber", default=None)),
            ("image", image | None, msgspec.field(name="NewImage", default=None)),
            ("old", msgspec.Raw, msgspec.field(name="OldImage", default=msgspec.Raw())),
        ],
    )
    return msgspec.defstruct("record", [("dynamodb", change), ("eventName", Literal[*_OPERATIONS])])


class _PlainText(JsonText):
    """The JSON text of an attribute value without the names of types. A set is an array."""

    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        return super().of(_plain(value))


class _PlainTextOrNull(_PlainText):
    __slots__ = ()

    @classmethod
    def of(cls, value: Any) -> Self:
        return cls("null") if _plain(value) is None else super().of(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        [(tag, content)] = value.items()
        expected, plain = _PLAIN.get(tag, _NOTHING)
        if isinstance(content, expected):
            return plain(content)
    raise ValueError(_ONE)


def _plain_number(text: Any) -> Any:
    if not isinstance(text, str):
        raise ValueError(_ONE)  # noqa: TRY004  # for msgspec
    return exact_number(text, "N")


def _plain_null(value: Any) -> None:
    if not value:
        raise ValueError(_ONE)


def _as_is(value: Any) -> Any:
    return value


_NOTHING: tuple[Any, Any] = ((), _as_is)

_PLAIN: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "S": (str, _as_is),
    "N": (str, _plain_number),
    "B": (str, _as_is),
    "BOOL": (bool, _as_is),
    "NULL": (bool, _plain_null),
    "SS": (list, _as_is),
    "NS": (list, lambda texts: [*map(_plain_number, texts)]),
    "BS": (list, _as_is),
    "L": (list, lambda items: [*map(_plain, items)]),
    "M": (dict, lambda fields: {name: _plain(each) for name, each in fields.items()}),
}
"""By the type of an attribute value: the type of its JSON, and the function that returns it without tags."""


def _struct(spark_type: StructType) -> tuple[Any, Callable[[Any], Row]]:
    """Return the type of an item or of a map with these fields, and the function that returns its values."""
    fields, untags = {}, {}
    for field in spark_type.fields:
        kind, untags[field.name] = _attribute(field.dataType, nullable=field.nullable)
        fields[field.name] = kind if field.nullable else Required[kind]

    def untag(value: Any) -> Row:
        return {name: untags[name](each) for name, each in value.items()}

    return typed_dict(fields), untag


def _attribute(spark_type: DataType, *, nullable: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return the type of an attribute value, and the function that returns its plain value."""
    if isinstance(spark_type, StructType):
        fields, untag = _struct(spark_type)
        return _tagged({"M": fields}, nullable=nullable), _unless_null(untag)
    if isinstance(spark_type, ArrayType):
        return _array(spark_type, nullable=nullable)
    plain, _ = value_type(spark_type, _EXACT.get)  # refuses the types that are not supported
    if isinstance(spark_type, MapType):
        element, of_element = _attribute(spark_type.valueType, nullable=spark_type.valueContainsNull)

        def of_map(value: Any) -> Any:
            return {key: of_element(each) for key, each in value.items()}

        values: Any = dict[str, element]  # type: ignore[valid-type]
        return _tagged({"M": values}, nullable=nullable), _unless_null(of_map)
    if plain is JsonText:
        return _PlainTextOrNull if nullable else _PlainText, _unless_null_text
    return _tagged({_tag(spark_type): plain}, nullable=nullable), attrgetter("value")


def _array(spark_type: ArrayType, *, nullable: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return what `_attribute` does, for a list or a set."""
    element, of_element = _attribute(spark_type.elementType, nullable=spark_type.containsNull)
    members: dict[str, Any] = {"L": list[element]}  # type: ignore[valid-type]
    if (tag := _SETS.get(_tag(spark_type.elementType))) is not None:
        plain, _ = value_type(spark_type.elementType, _EXACT.get)
        members[tag] = list[plain]  # type: ignore[valid-type]

    def of_array(attribute: Any) -> Any:
        if attribute.value is None:
            return attribute.members
        return [of_element(each) for each in attribute.value]

    return _tagged(members, nullable=nullable), of_array


def _tag(spark_type: DataType) -> str:
    """Return the type of attributes for a column of a plain type; nothing for others."""
    return next((tag for kind, tag in _TAGS if isinstance(spark_type, kind)), "")


def _tagged(members: Mapping[str, Any], *, nullable: bool) -> Any:
    """Return the type of an object with exactly one of some members, or with NULL.

    The first member is `value`, a second one, which is a set, is `members`.
    """
    fields: list[tuple[str, Any, Any]] = [
        (name, kind | None, msgspec.field(name=tag, default=None))
        for name, (tag, kind) in zip(("value", "members"), members.items(), strict=False)
    ]
    namespace: dict[str, Any] = {"__post_init__": _check_array}
    if len(fields) == 1:
        namespace = {"__post_init__": _check_scalar, "members": None}
    if nullable:
        fields.append(("is_null", bool, msgspec.field(name="NULL", default=False)))
    else:
        namespace["is_null"] = False
    return msgspec.defstruct("attribute", fields, namespace=namespace, forbid_unknown_fields=True)


def _check_scalar(attribute: Any) -> None:
    if (attribute.value is None) is not attribute.is_null:
        raise ValueError(_ONE)


def _check_array(attribute: Any) -> None:
    if (attribute.value is not None) + (attribute.members is not None) + attribute.is_null != 1:
        raise ValueError(_ONE)


def _unless_null(untag: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda attribute: None if attribute.value is None else untag(attribute.value)


def _unless_null_text(text: str) -> str | None:
    return None if text == "null" else text
