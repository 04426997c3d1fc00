"""The proposed columns of one table, from a sample of its documents in any format, and their evidence."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from kinesis_assets.decoders.compression import decompress
from kinesis_assets.decoders.decoder import MAX_BYTES, Undecodable
from kinesis_assets.decoders.formats import SOURCE, UNCHANGED
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.ddl import RECORD, Field, column_names, columns, parse_columns, readable
from kinesis_assets.schemas.inference import JSON_NUMBER, infer_values, read_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kinesis_assets.decoders.formats import Changes
    from kinesis_assets.decoders.sampled_changes import SampledChanges
    from kinesis_assets.decoders.sampled_records import SampledRecords
    from kinesis_assets.schemas.inference import Inference


@dataclass(frozen=True, slots=True)
class Columns:
    """The settings of a table that are about its columns.

    Attributes:
        settings: They are empty if the documents have no fields.
        comments: Their evidence, and what they do not decode.
    """

    settings: dict[str, Any]
    comments: Sequence[str] = field(default_factory=list)


def of_objects(documents: Sequence[dict[str, Any]], unnested: str | None = None) -> Columns:
    """Return the columns of JSON documents.

    Args:
        unnested: The field of which they have one element, whose own fields become columns where they can.
    """
    inferred = infer_values(documents)
    settings = _settings(inferred.fields)
    if unnested is not None and "select" not in settings:
        settings |= _flattened(inferred.fields, unnested)
    return Columns(settings, _comments(inferred))


def of_changes(sample: SampledChanges, changes: Changes) -> Columns:
    """Return the columns of a database's table, and its key."""
    inferred = infer_values(sample.rows, exact=True)
    taken = {"", RECORD, SOURCE, *(each.name for each in changes.columns)}
    fields = list[Field]()
    for each in [*(Field(*each) for each in sample.types.items()), *inferred.fields]:
        if each.name.lower() not in taken:
            taken.add(each.name.lower())
            fields.append(each)
    if not fields:
        return Columns({})
    added = [each.name for each in changes.columns if each != UNCHANGED]
    settings = _settings(fields, added)
    comments = [*sample.notes, *_comments(inferred)]
    key = [name for name in sample.key if name in {each.name for each in fields}]
    if key:
        stored = column_names([each.name for each in fields])
        settings["key"] = [stored[name] for name in key]
        comments.append(f"key: {', '.join(map(readable, key))}, by {sample.key_shown_by}. Check it.")
    else:
        comments.append("No key is found: add it, so that changes replace and delete rows.")
    return Columns(settings, comments)


def of_rows(sample: SampledRecords) -> Columns:
    """Return the columns of delimited values, whose names are those of a header, if there is one."""
    rows: Sequence[Sequence[str]] = sample.values
    header, comments = _header(rows), list[str]()
    if header is None:
        names = [f"column_{number}" for number in range(1, len(rows[0]) + 1)]
        comments.append("There is no header: give the columns their names, in this order.")
    else:
        names = header
        comments.append(f"{sum(row == header for row in rows)} of them are headers, which are left out.")
    values = [dict(zip(names, map(_value, row), strict=True)) for row in rows if row != header]
    inferred = infer_values(values, "STRING")
    return Columns(_settings(inferred.fields), [*comments, *_comments(inferred)])


def of_containers(sample: SampledRecords) -> Columns:
    """Return the columns of Avro object containers, by the newest schema that one has."""
    from kinesis_assets.decoders.avro_container import writer_schema  # noqa: PLC0415  # loads PySpark

    schemas, others = Counter[str](), 0
    for record in sample.documents:
        try:
            schemas[avro_columns(msgspec.json.decode(writer_schema(record)))] += 1
        except (InvalidInput, RecursionError, Undecodable, msgspec.DecodeError):
            others += 1
    if not schemas:
        return Columns({})
    newest, count = next(iter(schemas.items()))
    comments = [f"{count} of {len(sample.documents)} containers have this schema, which is their own."]
    if others:
        comments.append(f"{others} containers have a schema that cannot be read.")
    return Columns(_settings(parse_columns(newest)), comments)


_GLUE_HEADER, _GLUE_ZLIB = 18, 5
_CONFLUENT_HEADER = 5


def of_glue(sample: SampledRecords) -> Columns:
    """Return the columns of records of the Glue Schema Registry, of which JSON alone shows its fields."""
    ids = Counter(
        str(UUID(bytes=each[2:_GLUE_HEADER])) for each in sample.documents if len(each) >= _GLUE_HEADER
    )
    found = _of_payloads(map(_glue_payload, sample.documents), ids)
    if found.settings:
        return found
    schema = {"registry": "NAME_OF_THE_REGISTRY", "name": "NAME_OF_THE_SCHEMA"}
    advice = "Give the name of the registry and of the schema, as AWS Glue has them."
    return Columns({"schema": schema}, [*found.comments, advice])


def _glue_payload(record: bytes) -> bytes:
    payload = record[_GLUE_HEADER:]
    if record[1] != _GLUE_ZLIB:
        return payload
    try:
        return decompress(payload, "gzip", MAX_BYTES)
    except Undecodable:
        return b""


def of_confluent(sample: SampledRecords) -> Columns:
    """Return the same for records with the header of Confluent's Schema Registry."""
    ids = Counter(str(int.from_bytes(each[1:_CONFLUENT_HEADER])) for each in sample.documents)
    found = _of_payloads((each[_CONFLUENT_HEADER:] for each in sample.documents), ids)
    settings = found.settings or {"schema": {"subject": "NAME_OF_THE_SUBJECT"}}
    advice = "Give the subject of the schema, and the address of the registry."
    if found.settings:
        advice = "Give the address of the registry."
    registry = {"url": "https://registry.example:8081"}
    return Columns({**settings, "registry": registry}, [*found.comments, advice])


def _of_payloads(payloads: Iterable[bytes], ids: Counter[str]) -> Columns:
    """Return the columns of payloads if most of them are JSON; and how many records each schema has."""
    comments = [f"{count} of them have the schema {each}." for each, count in ids.most_common(_MOST_IDS)]
    documents = [*map(read_document, payloads)]
    objects = [each for each in documents if isinstance(each, dict)]
    inferred = infer_values(objects)
    if 2 * len(objects) <= len(documents) or not inferred.fields:
        return Columns({}, comments)
    return Columns(_settings(inferred.fields), [*comments, *_comments(inferred)])


_MOST_IDS = 5

OF_BYTES: dict[str, Callable[[SampledRecords], Columns]] = {
    "avro_container": of_containers,
    "confluent": of_confluent,
    "csv": of_rows,
    "glue": of_glue,
    "tsv": of_rows,
}
"""By the name of a format that is no JSON, the function that returns the columns."""


def _comments(inferred: Inference) -> list[str]:
    evidence = (f"{readable(name)}: {counts}" for name, counts in inferred.evidence.items())
    return [*inferred.notes, *evidence]


def _settings(fields: Sequence[Field], added: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema; and the columns, if some fields need another name.

    Args:
        added: Columns that the format adds.
    """
    if not fields:
        return {}
    names = column_names([each.name for each in fields])
    schema: dict[str, Any] = {"schema": columns(fields, ",\n")}
    if all(name == column for name, column in names.items()):
        return schema
    renamed = [
        readable(name) if name == column else f"{readable(name)} AS {readable(column)}"
        for name, column in names.items()
    ]
    return schema | {"select": [*renamed, *added]}


def _flattened(fields: Sequence[Field], unnested: str) -> dict[str, Any]:
    """Return the columns with those of a struct in its place; none if their names would not be distinct."""
    kind = next((each.type for each in fields if each.name == unnested), "")
    if not kind.startswith("STRUCT<"):
        return {}
    inner = [each.name for each in parse_columns(kind)]
    outer = [each.name for each in fields if each.name != unnested]
    is_distinct = len({name.lower() for name in (*inner, *outer)}) == len(inner) + len(outer)
    if not is_distinct or any(name != column for name, column in column_names(inner).items()):
        return {}
    return {"select": [*map(readable, outer), f"{readable(unnested)}.*"]}


_NAME = re.compile(r"[^\W\d][\w .-]*")


def _header(rows: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the row with the names of the columns: the only one with texts where others have numbers.

    A row that is neither the first one nor there again may be a bad one.
    """
    numeric = [
        place
        for place, column in enumerate(zip(*rows, strict=True))
        if 2 * sum(isinstance(_value(text), int | float) for text in column) >= len(rows)
    ]
    candidates = Counter(
        tuple(row)
        for row in rows
        if all(map(_NAME.fullmatch, row)) and not any(_value(row[place]) != row[place] for place in numeric)
    )
    if not numeric or len(candidates) != 1:
        return None
    [(header, count)] = candidates.items()
    if count == 1 and [*header] != rows[0]:
        return None
    return [*header] if len({name.lower() for name in header}) == len(header) else None


def _value(text: str) -> Any:
    """Return a delimited value as that of JSON which its decoder makes of it."""
    if text in ("true", "false"):
        return text == "true"
    if JSON_NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number if {*text} & {*".eE"} else int(text)
    return text or None
