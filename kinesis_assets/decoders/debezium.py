"""Changes of databases that Debezium has captured, in JSON: envelopes, or rows that were made flat."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from pyspark.sql.types import StructField, StructType

from kinesis_assets.decoders.database_changes import (
    DELETE,
    INSERT,
    LOAD,
    UPDATE,
    ChangeDecoder,
    beneath,
    moment,
)
from kinesis_assets.decoders.debezium_values import column_type, is_available, may_lack_values
from kinesis_assets.decoders.decoder import INVALID_JSON, Undecodable
from kinesis_assets.decoders.formats import CHANGED_AT, OPERATION, POSITION, SOURCE
from kinesis_assets.decoders.json_documents import json_decoder, json_reader
from kinesis_assets.decoders.spark_types import typed_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kinesis_assets.decoders.database_changes import ChangedTable, Row

_OPERATIONS = {"c": INSERT, "u": UPDATE, "d": DELETE, "r": LOAD}
_TRUNCATE, _MESSAGE = "t", "m"

_FLAT_OPERATION, _FLAT_DELETED = "__op", "__deleted"
_FLAT = tuple(f'"{name}"' for name in (_FLAT_OPERATION, _FLAT_DELETED))
_PREFIXES = ("__", "__source_")

_NOTHING: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

_NULL = b"null"
_SOURCE: dict[str, Any] = {
    **dict.fromkeys(("ts_us", "ts_ns", "ts_ms", "lsn", "pos", "row", "event_serial_no", "ord"), int | None),
    **dict.fromkeys(("file", "commit_lsn", "change_lsn"), str | None),
    **dict.fromkeys(("scn", "commit_scn"), int | str | None),
}
"""The fields of `source` that say when and where a change was made."""

_FLAT_SOURCE = {prefix + name: name for prefix in _PREFIXES for name in _SOURCE}
"""The names of these fields in `source`, by those in flat rows. If a row has both, the last one counts."""

_FLAT_METADATA = json_decoder(
    typed_dict(
        {
            **{field: _SOURCE[name] for field, name in _FLAT_SOURCE.items()},
            _FLAT_OPERATION: str | None,
            _FLAT_DELETED: bool | str | None,
        }
    )
)
"""Decodes what a flat row says of its change. It may be declared as columns too, of other types."""

_PLACES = ("lsn", "file", "scn", "commit_lsn")
"""The fields of which a source has one, unless its database has no log whose order is known."""

_TIMES = {"ts_us": 1_000_000, "ts_ns": 1_000_000_000, "ts_ms": 1000}

_MOST_SCHEMAS = 256
_SHOWN = 100


@dataclass(frozen=True)
class Debezium(ChangeDecoder):
    """Decode changes that Debezium has captured.

    Records are envelopes (before, after, source, op), or the flat rows of ExtractNewRecordState with the
    field `__op` or `__deleted`, with or without a schema. Tombstones, heartbeats, messages, and records of
    transactions and of schema changes have no rows.

    The field `_source` of the schema is the block `source` of envelopes, such as its `txId`.
    """

    name: ClassVar[str] = "debezium"
    multiplies: ClassVar[bool] = True

    def make_reader(self) -> Callable[[bytes], list[Row]]:
        """See `ChangeDecoder`."""
        table, tombstones = self.table, self.changes.tombstones
        read_source = None
        if table.source is not None:
            read_source = json_reader(StructType([StructField("source", table.source)]))

        @lru_cache(maxsize=_MOST_SCHEMAS)
        def shape_of(schema: bytes, is_flat: bool, *lacking: frozenset[str]) -> _Shape:
            return _Shape.of(table, _columns(schema, is_flat=is_flat), is_flat, *lacking)

        def rows_of(text: str, root: str, schema: bytes, payload: bytes) -> list[Row]:
            metadata = _flat_metadata(text, payload)
            is_flat = bool(metadata)
            lacking = _NOTHING
            if may_lack_values(text):
                lacking = _lacking(payload, table.columns.names, is_flat=is_flat)
            shape = shape_of(schema, is_flat, *lacking)
            change = shape.decoder.decode(payload)
            if is_flat:
                rows = _flat_rows(shape, change, metadata, root)
            else:
                rows = _envelope_rows(shape, change, payload, root)
            if rows and read_source is not None:
                source = read_source(payload).get("source")
                rows = [{**row, SOURCE: source} for row in rows]
            return rows

        def read(document: bytes) -> list[Row]:
            if document in tombstones:
                return []
            root = "$"
            try:
                text = document.decode()
                root, schema, payload = _unwrapped(document)
                return [] if payload == _NULL else rows_of(text, root, schema, payload)
            except INVALID_JSON as error:
                raise Undecodable(str(error) if root == "$" else beneath(error, root)) from error

        return read


@dataclass(frozen=True, slots=True)
class _Shape:
    """How records with the same schema are decoded.

    Attributes:
        image: Decodes an image of a row that is text, as those of MongoDB.
        after: Columns whose values are not available in the image after a change.
    """

    table: ChangedTable
    decoder: msgspec.json.Decoder[Row]
    image: msgspec.json.Decoder[Row]
    after: frozenset[str]

    @classmethod
    def of(
        cls,
        table: ChangedTable,
        schemas: Mapping[str, Any],
        is_flat: bool,
        before: frozenset[str],
        after: frozenset[str],
    ) -> _Shape:
        """Create the decoders for a schema of Kafka Connect.

        Args:
            schemas: Those of its columns.
            before: Columns whose values are not available in the image before a change.
            after: The same, in the image after it.
        """
        columns = {
            field.name: column_type(field.dataType, schemas.get(field.name)) | None
            for field in table.columns.fields
        }
        rows = [
            typed_dict({name: kind for name, kind in columns.items() if name not in lacking})
            for lacking in (before, after)
        ]
        image = json_decoder(rows[1])
        if is_flat:
            return cls(table, image, image, after)
        fields = {"op": str | None, "source": typed_dict(_SOURCE) | None}
        fields |= dict(zip(("before", "after"), (kind | str | None for kind in rows), strict=True))
        return cls(table, json_decoder(typed_dict(fields)), image, after)


class _Wrapped(msgspec.Struct, forbid_unknown_fields=True):
    schema: msgspec.Raw
    payload: msgspec.Raw


_WRAPPED = msgspec.json.Decoder(_Wrapped)


def _unwrapped(document: bytes) -> tuple[str, bytes, bytes]:
    """Return the path of a change in its document, the schema beside it, if there is one, and the change."""
    if b'"payload"' in document and b'"schema"' in document:
        try:
            wrapped = _WRAPPED.decode(document)
        except msgspec.ValidationError:  # these are columns
            return "$", b"", document
        return "$.payload", bytes(wrapped.schema), bytes(wrapped.payload)
    return "$", b"", document


def _columns(schema: bytes, *, is_flat: bool) -> dict[str, Any]:
    """Return the schemas of columns by their names, as far as there are any."""
    fields = _fields(msgspec.json.decode(schema) if schema else None)
    return fields if is_flat else _fields(fields.get("after"))


def _fields(schema: Any) -> dict[str, Any]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    found = [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []
    return {str(each.get("field")): each for each in found}


def _lacking(payload: Any, names: Collection[str], *, is_flat: bool) -> tuple[frozenset[str], frozenset[str]]:
    """Return the columns whose values are not available before and after a change."""
    values = msgspec.json.decode(payload, type=dict[str, Any])
    images = [{}, values] if is_flat else [values.get("before"), values.get("after")]
    before, after = (
        frozenset(name for name in names if not is_available(image.get(name)))
        if isinstance(image, dict)
        else frozenset()
        for image in images
    )
    return before, after


def _envelope_rows(shape: _Shape, change: Row, payload: bytes, root: str) -> list[Row]:
    letter = change.get("op")
    if letter is None:
        _refuse_row(payload)
    if letter in (None, _MESSAGE):
        return []
    operation = _operation(letter, f"{root}.op")
    before, after = (
        shape.image.decode(image) if isinstance(image := change.get(name), str) else image
        for name in ("before", "after")
    )
    added = _added(operation, change.get("source") or {}, f"{root}.source.")
    if operation == DELETE:
        return shape.table.rows(before, None, added, f"{root}.before")
    unchanged = []
    for name in shape.table.columns.names if shape.after else ():
        if name in shape.after and after is not None:
            if before is not None and before.get(name) is not None:
                after[name] = before[name]
            else:
                unchanged.append(name)
    return shape.table.rows(after, before, added, f"{root}.after", unchanged)


def _flat_metadata(text: str, payload: bytes) -> Row:
    """Return what a flat row says of its change; nothing for an envelope."""
    if not any(mark in text for mark in _FLAT):
        return {}
    metadata: Row = _FLAT_METADATA.decode(payload)
    # The names may also be those of columns in an envelope, or values.
    return metadata if _FLAT_OPERATION in metadata or _FLAT_DELETED in metadata else {}


def _flat_rows(shape: _Shape, row: Row, metadata: Row, root: str) -> list[Row]:
    """Return the row of a record that ExtractNewRecordState has made flat."""
    source = {name: metadata[field] for field, name in _FLAT_SOURCE.items() if field in metadata}
    letter, deleted = metadata.get(_FLAT_OPERATION), metadata.get(_FLAT_DELETED)
    operation = UPDATE if letter is None else _operation(letter, f"{root}.{_FLAT_OPERATION}")
    if deleted in (True, "true"):
        operation = DELETE
    added = _added(operation, source, f"{root}.{_PREFIXES[-1]}")
    unchanged = [name for name in shape.table.columns.names if name in shape.after]
    return shape.table.rows(row, None, added, root, unchanged)


def _operation(letter: str, path: str) -> str:
    if letter == _TRUNCATE:
        raise Undecodable(
            "the table of the database was truncated: delete its rows here too, or rebuild this table "
            f"- at `{path}`"
        )
    if letter not in _OPERATIONS:
        raise Undecodable(f"Invalid enum value {letter[:_SHOWN]!r} - at `{path}`")
    return _OPERATIONS[letter]


def _refuse_row(payload: bytes) -> None:
    """Raise `Undecodable` if a record without an operation is not one that Debezium writes beside changes."""
    names = msgspec.json.decode(payload, type=dict[str, msgspec.Raw]).keys()
    is_heartbeat = names and names <= _TIMES.keys()
    if not (is_heartbeat or names >= {"status", "id"} or "ddl" in names or "tableChanges" in names):
        raise msgspec.ValidationError("Object missing required field `op`")


def _added(operation: str, source: Row, path: str) -> Row:
    """Return the columns that the format adds."""
    at = None
    for name, unit in _TIMES.items():
        if (number := source.get(name)) is not None:
            at = moment(number, unit, path + name)
            break
    return {OPERATION.name: operation, CHANGED_AT.name: at, POSITION.name: _position(source, at, path)}


def _position(source: Row, at: datetime | None, path: str) -> str | None:
    """Return where in the log of its database a change is; None if that is unknown.

    The order of these texts is that of the log. Changes of one transaction may have the same position.
    """
    if any(source.get(name, "") is None for name in _PLACES):
        return None
    place = None
    match source:
        case {"lsn": lsn}:  # PostgreSQL
            place = f"{lsn:020d}"
        case {"file": file, "pos": int(offset)}:  # MySQL, MariaDB
            name, _, suffix = file.rpartition(".")
            place = f"{name}.{suffix:0>10}/{offset:020d}/{source.get('row') or 0:010d}"
        case {"scn": scn}:  # Oracle
            committed = _number(source.get("commit_scn") or scn, f"{path}commit_scn")
            place = f"{committed:020d}/{_number(scn, f'{path}scn'):020d}"
        case {"commit_lsn": committed}:  # SQL Server, Db2
            number = source.get("event_serial_no") or 0
            place = f"{committed}/{source.get('change_lsn') or ''}/{number:010d}"
        case _ if at is not None:  # MongoDB, and databases without a log whose order is known
            place = f"{(at - _EPOCH) // _MICROSECOND:020d}/{source.get('ord') or 0:010d}"
    return place


def _number(value: int | str, path: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise Undecodable(f"{str(value)[:_SHOWN]!r} is not a number - at `{path}`") from None
