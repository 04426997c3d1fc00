"""Samples of the changes of a database: the rows that they have, and the columns that identify one.

Values have the Python types from which `infer_values` finds their types: exact numbers are decimals.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable  # noqa: TC003  # in the type of a constant
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from kinesis_assets.schemas.ddl import MAX_DIGITS, Field, struct
from kinesis_assets.schemas.inference import JSON_NUMBER, ValueSet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SampledChanges:
    """What some changes of a table say about it.

    Attributes:
        rows: The rows after changes, and deleted ones.
        types: By column, the type that the changes themselves declare.
        key: The columns that seem to identify a row.
        key_shown_by: By what they seem to.
        notes: What is not as in the changes, each as a sentence.
    """

    rows: Sequence[_Row]
    types: Mapping[str, str] = field(default_factory=dict)
    key: Sequence[str] = ()
    key_shown_by: str = ""
    notes: Sequence[str] = ()


_INVALID = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a document of another form raises. It has no row."""


def sample_dynamodb(documents: Sequence[bytes]) -> SampledChanges:
    """Return what some changes of a DynamoDB table say about it."""
    rows, keys, others = list[_Row](), Counter[tuple[str, ...]](), 0
    for document in documents:
        try:
            change = msgspec.json.decode(document)["dynamodb"]
            image = {**change["Keys"], **(change.get("NewImage") or change.get("OldImage") or {})}
            row = {name: _plain(value) for name, value in image.items()}
        except _INVALID:
            others += 1
        else:
            rows.append(row)
            keys[tuple(change["Keys"])] += 1
    notes = []
    if others:
        notes.append(f"{others} changes have an attribute value that DynamoDB does not have")
    if len(keys) > 1:
        notes.append(f"The changes have {len(keys)} different keys, as those of several tables do")
    [(key, count)] = keys.most_common(1) or [((), 0)]
    return SampledChanges(rows, key=key, key_shown_by=f"the Keys of {count} changes", notes=notes)


def _plain(value: Any) -> Any:
    """Return an attribute value without the names of types."""
    [(tag, content)] = value.items()
    expected, plain = _PLAIN[tag]
    if not isinstance(content, expected):
        raise TypeError(tag)
    return plain(content)


def _number(text: str) -> Decimal:
    if not (number := Decimal(text)).is_finite():
        raise ValueError(text)
    return number


_PLAIN: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "S": (str, str),
    "N": (str, _number),
    "B": (str, str.encode),
    "BOOL": (bool, bool),
    "NULL": (bool, lambda _: None),
    "SS": (list, ValueSet),
    "NS": (list, lambda texts: ValueSet(map(_number, texts))),
    "BS": (list, lambda texts: ValueSet(map(str.encode, texts))),
    "L": (list, lambda items: [*map(_plain, items)]),
    "M": (dict, lambda fields: {name: _plain(each) for name, each in fields.items()}),
}
"""By the type of an attribute value: the type of its JSON, and the function that returns its plain value."""


def _shortest(text: str) -> float | Decimal:
    """Return a number as a float if that has all its digits."""
    exact = Decimal(text)
    return number if Decimal(repr(number := float(exact))) == exact else exact


_exact = msgspec.json.Decoder(float_hook=_shortest)


def sample_dms(documents: Sequence[bytes]) -> SampledChanges:
    """Return what some changes of AWS DMS say about the table. Control records are left out."""
    rows, partial, others = list[_Row](), list[_Row](), 0
    for document in documents:
        try:
            change = _exact.decode(document)
            if (metadata := change["metadata"])["record-type"] == "control":
                continue
            row, before = dict(change["data"]), dict(change.get("before-image") or {})
        except _INVALID:
            others += 1
            continue
        rows.append(row)
        partial += [before] * bool(before) + [row] * (metadata["operation"] == "delete")
    notes = [f"{others} changes have no row"] if others else []
    names = dict.fromkeys(name for row in rows for name in row)
    notes += [note for name in names if (note := _convert_numbers(rows, name))]
    return SampledChanges(rows, **_identified(rows, partial), notes=notes)


def _convert_numbers(rows: Sequence[_Row], name: str) -> str:
    """Convert the texts of a column to numbers if they are numbers of a database, and return a note on it.

    Texts of digits alone may be anything, such as post codes, unless other values of the column are numbers.
    """
    texts = [value for row in rows if isinstance(value := row.get(name), str)]
    others = [value for row in rows if not isinstance(value := row.get(name), str | None)]
    is_numeric = others and all(type(each) in (int, float, Decimal) for each in others)
    if not texts or not all(map(JSON_NUMBER.fullmatch, texts)):
        return ""
    if not is_numeric and (others or not any("." in text for text in texts)):
        return ""
    for row in rows:
        if isinstance(text := row.get(name), str):
            row[name] = Decimal(text)
    return f"{name} has numbers as text ({len(texts)})"


_ID = re.compile(r"(?:.*_)?(?:id|uuid|key)", re.IGNORECASE)


def _identified(rows: Sequence[_Row], partial: Sequence[_Row]) -> dict[str, Any]:
    """Return the key of a table.

    Args:
        partial: Rows of which the database may log the key alone, as those before changes.
    """
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    sets = [{name for name, value in row.items() if value is not None} for row in partial]
    common = set.intersection(*sets) if sets else set[str]()
    if common and 2 * len(common) <= len(names):
        key = [name for name in names if name in common]
        return {"key": key, "key_shown_by": f"what {len(partial)} rows before changes have"}
    complete = (name for name in names if all(row.get(name) is not None for row in rows))
    key = [name for name in complete if _ID.fullmatch(name)][:1]
    return {"key": key, "key_shown_by": "its name" if key else ""}


def sample_debezium(documents: Sequence[bytes]) -> SampledChanges:
    """Return what some changes that Debezium has captured say about the table."""
    from kinesis_assets.decoders.debezium_values import is_available  # noqa: PLC0415  # loads PySpark

    rows, partial, others = list[_Row](), list[_Row](), 0
    types: dict[str, str] = {}
    for document in documents:
        try:
            row, before, declared = _debezium_change(_exact.decode(document))
        except _INVALID:
            others += 1
            continue
        types |= declared
        if row is not None:
            rows.append({name: value for name, value in row.items() if is_available(value)})
        partial += [before] if before else []
    notes = [f"{others} changes have no row"] if others else []
    if not types:
        notes.append(
            "The records have no schema, so dates, times and decimals are numbers and texts here. Declare "
            "DATE, TIMESTAMP or DECIMAL where the database has these"
        )
    return SampledChanges(rows, types, **_identified(rows, partial), notes=notes)


def _debezium_change(document: Any) -> tuple[_Row | None, _Row | None, dict[str, str]]:
    """Return the row of a change, the row before it, and the types of columns, if the change has a schema."""
    is_wrapped = "payload" in document and "schema" in document
    payload = document["payload"] if is_wrapped else document
    schemas = (document["schema"] or {}).get("fields") or [] if is_wrapped else []
    if "op" not in payload:
        row = {name: value for name, value in payload.items() if not name.startswith("__")}
        types = {name: kind for name, kind in _types(schemas).items() if not name.startswith("__")}
        return row, None, types
    before, after = (_image(payload.get(name)) for name in ("before", "after"))
    of_row = next((each.get("fields") for each in schemas if each["field"] == "after"), None)
    return before if payload["op"] == "d" else after, before, _types(of_row or [])


def _image(value: Any) -> _Row | None:
    """Return an image of a row, which is text for MongoDB."""
    if isinstance(value, str):
        value = _exact.decode(value)
    return None if value is None else dict(value)


def _types(schemas: Collection[Mapping[str, Any]]) -> dict[str, str]:
    """Return the types of fields that have one, by their names."""
    return {str(each["field"]): kind for each in schemas if (kind := _connect_type(each)) is not None}


_CONNECT = {
    "boolean": "BOOLEAN",
    "bytes": "BINARY",
    "double": "DOUBLE",
    "float": "FLOAT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "string": "STRING",
}

_CONNECT_LOGICAL = {
    "io.debezium.time.Date": "DATE",
    "io.debezium.time.IsoDate": "DATE",
    "io.debezium.time.IsoTimestamp": "TIMESTAMP_NTZ",
    "io.debezium.time.MicroTimestamp": "TIMESTAMP_NTZ",
    "io.debezium.time.NanoTimestamp": "TIMESTAMP_NTZ",
    "io.debezium.time.Timestamp": "TIMESTAMP_NTZ",
    "io.debezium.time.ZonedTimestamp": "TIMESTAMP",
    "org.apache.kafka.connect.data.Date": "DATE",
    "org.apache.kafka.connect.data.Timestamp": "TIMESTAMP_NTZ",
}
"""By the name of a schema. Times without a time zone are those of columns that have none."""

_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def _connect_type(schema: Mapping[str, Any]) -> str | None:
    """Return the type for a schema of Kafka Connect; None if there is none."""
    name, kind = schema.get("name"), schema.get("type")
    if name in _CONNECT_LOGICAL:
        return _CONNECT_LOGICAL[name]
    if name == _DECIMAL:
        return _decimal(schema.get("parameters") or {})
    match kind:
        case "array":
            items = _connect_type(schema.get("items") or {})
            return None if items is None else f"ARRAY<{items}>"
        case "map":
            values = _connect_type(schema.get("values") or {})
            return None if values is None else f"MAP<STRING, {values}>"
        case "struct":
            fields = _types(schema.get("fields") or [])
            return struct([Field(*each) for each in fields.items()]) if fields else None
    return _CONNECT.get(str(kind))


def _decimal(parameters: Mapping[str, Any]) -> str | None:
    scale, digits = (
        int(text) if (text := str(parameters.get(name, default))).isdecimal() else -1
        for name, default in (("scale", ""), ("connect.decimal.precision", MAX_DIGITS))
    )
    return f"DECIMAL({digits}, {scale})" if 0 <= scale <= digits <= MAX_DIGITS else None
