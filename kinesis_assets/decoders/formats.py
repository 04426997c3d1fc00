"""The formats of records, by the names that the setting `format` takes: the only place where one is declared.

A format is its decoder and its entry of `FORMATS`. Settings, typed tables and documentation derive from it.
Definitions load this module, so it loads neither decoders nor Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, get_args

from kinesis_assets.decoders.split import SplitMode
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.ddl import UNCHANGED_COLUMN, Field

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence


class SchemaKind(Enum):
    """What the setting `schema` may be. The value describes it in errors."""

    DDL = "DDL"
    AVRO = "the path of an Avro schema (.avsc)"
    JSON = "the path of a JSON Schema (.json)"
    PROTOBUF = "a map of the file of a descriptor set and a message"
    REGISTERED = "a map that names a schema of the Glue Schema Registry"
    SUBJECT = "a map that names the subject of a schema"


FILES = {".avsc": SchemaKind.AVRO, ".json": SchemaKind.JSON}
"""The suffixes that distinguish the path of a schema file from DDL."""

_REGISTRIES = {
    SchemaKind.REGISTERED: "a name in the Glue Schema Registry",
    SchemaKind.SUBJECT: "a subject of a registry",
}


def map_kind(schema: Mapping[str, object]) -> SchemaKind:
    """Return what a map is that the setting `schema` has."""
    if "file" in schema:
        return SchemaKind.PROTOBUF
    return SchemaKind.SUBJECT if "subject" in schema else SchemaKind.REGISTERED


OPERATION = Field("_operation", "STRING")
"""What a change does to its row: insert, update, delete, or load for a row that was there before changes."""

CHANGED_AT = Field("_changed_at", "TIMESTAMP")
"""When a change was made."""

POSITION = Field("_position", "STRING")
"""Where a change is in the log of its database. The order of these texts is that of the log."""

UNCHANGED = Field(UNCHANGED_COLUMN, "ARRAY<STRING>")
"""The columns whose values a change lacks, because they have not changed."""

SOURCE = "_source"
"""The field of a schema that is what a format of changes says of a change, beside the row itself."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a format of database changes adds to the fields of the schema, and how they are applied.

    Attributes:
        columns: The fields that its decoder returns behind those of the schema.
        order_by: The default of `order_by`, in a table with a key.
        delete_where: The default of `delete_where`, in a table with a key.
        tombstones: Records for a key that no longer has a value. They are not JSON, and have no rows.
        sampler: The dotted name of the function with which `infer` reads a sample, see `sampled_changes`.
        table_names: Paths of which a change has one with the name of the database's table.
    """

    columns: tuple[Field, ...]
    order_by: tuple[str, ...]
    delete_where: str = "_operation = 'delete'"
    tombstones: tuple[bytes, ...] = ()
    sampler: str = ""
    table_names: tuple[str, ...] = ()

    def check_fields(self, fields: Iterable[Field]) -> None:
        """Raise `InvalidInput` if a schema has a field that it cannot have."""
        added = {each.name for each in self.columns}
        for field in fields:
            if field.name.lower() in added:
                raise InvalidInput(
                    f"the format adds the column {field.name} itself; remove it from the schema"
                )
            if field.name == SOURCE and not field.type.upper().startswith("STRUCT"):
                raise InvalidInput(f"{SOURCE} must be a struct; give the fields that you need of it")


@dataclass(frozen=True, slots=True)
class Format:
    """A format of records.

    Attributes:
        description: What a record is, for the documentation of settings.
        decoder: The dotted name of its decoder class, which has `from_settings`.
        schemas: What `schema` may be.
        is_json: Whether a document is JSON text, in which settings name paths.
        is_text: Whether a document is a line of text.
        multiplies: Whether a record may become several rows or none, as the decoder says too.
        has_schema_id: Whether rows have the column `schema_id`, as the decoder says too.
        headers: Bytes of which one group begins each record, by which `infer` recognizes the format.
        marks: Paths in a document of which it has all of one group, for the same purpose.
        changes: How the changes of a database are applied; None for all other formats.
        extra: The extra of this package that it needs.
    """

    name: str
    description: str
    decoder: str
    schemas: Collection[SchemaKind] = (SchemaKind.DDL, SchemaKind.AVRO, SchemaKind.JSON)
    is_json: bool = False
    is_text: bool = False
    multiplies: bool = False
    has_schema_id: bool = False
    headers: tuple[bytes, ...] = ()
    marks: tuple[tuple[str, ...], ...] = ()
    changes: Changes | None = None
    extra: str | None = None
    module: str | None = None

    @property
    def splits(self) -> Collection[str]:
        """The ways in which a record may be split into documents, see `Split`."""
        if self.is_json:
            return get_args(SplitMode)
        return ("lines",) if self.is_text else ()

    def is_headed(self, record: bytes) -> bool:
        """Return whether a record begins as those of the format do."""
        return record.startswith(self.headers)

    def kind_of(self, schema: object) -> SchemaKind:
        """Return what a value of the setting `schema` is."""
        if isinstance(schema, Mapping):
            return map_kind(schema)
        if not isinstance(schema, str):
            return SchemaKind.REGISTERED
        kind = next((kind for suffix, kind in FILES.items() if schema.endswith(suffix)), SchemaKind.DDL)
        is_other = kind is SchemaKind.JSON and kind not in self.schemas
        return SchemaKind.AVRO if is_other and SchemaKind.AVRO in self.schemas else kind

    def check_schema(self, schema: object) -> None:
        """Raise `InvalidInput` if the format does not take a value of the setting `schema`."""
        kind = self.kind_of(schema)
        if kind in self.schemas:
            return
        if kind in _REGISTRIES:
            raise InvalidInput(
                f"schema: {_REGISTRIES[kind]} requires the format "
                f"{names_with(lambda each: kind in each.schemas)}; set it, or give the schema as DDL or a "
                "file"
            )
        raise InvalidInput(
            f"schema: with the format {self.name}, give {_either([each.value for each in self.schemas])}"
        )

    def fields_of(self, fields: Sequence[Field]) -> list[Field]:
        """Return the fields that the decoder returns for those of a schema."""
        if self.changes is None:
            return [*fields]
        self.changes.check_fields(fields)
        return [*fields, *self.changes.columns]

    def check_extra(self) -> None:
        """Raise `InvalidInput` if the extra that the format needs is not installed."""
        if self.module is not None and find_spec(self.module) is None:
            raise InvalidInput(
                f"format: {self.name} needs {self.module}: pip install 'kinesis-assets[{self.extra}]'"
            )

    def load(self) -> Any:
        """Return the decoder class."""
        return load_named(self.decoder)


_SAMPLERS = "kinesis_assets.decoders.sampled_changes"


def load_named(name: str) -> Any:
    """Return a class or function by its dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


FORMATS = {
    each.name: each
    for each in (
        Format("json", "one document each", "kinesis_assets.decoders.json_documents.Json", is_json=True),
        Format(
            "csv",
            "a row of comma-separated values each, with the columns of the schema by their position",
            "kinesis_assets.decoders.delimited.Csv",
            is_text=True,
            multiplies=True,
        ),
        Format(
            "tsv",
            "a row of tab-separated values each",
            "kinesis_assets.decoders.delimited.Tsv",
            is_text=True,
            multiplies=True,
        ),
        Format(
            "avro",
            "one datum each, written with the schema",
            "kinesis_assets.decoders.avro.Avro",
            schemas=(SchemaKind.AVRO,),
        ),
        Format(
            "avro_container",
            "an Avro object container each, of which each datum becomes a row",
            "kinesis_assets.decoders.avro_container.AvroContainer",
            schemas=(SchemaKind.DDL, SchemaKind.AVRO),
            multiplies=True,
            headers=(b"Obj\x01",),
            extra="avro",
            module="fastavro",
        ),
        Format(
            "protobuf",
            "one Protobuf message each",
            "kinesis_assets.decoders.protobuf.Protobuf",
            schemas=(SchemaKind.PROTOBUF,),
        ),
        Format(
            "confluent",
            "JSON, Avro or Protobuf with the header of Confluent's Schema Registry",
            "kinesis_assets.decoders.confluent.Confluent",
            schemas=(SchemaKind.DDL, SchemaKind.AVRO, SchemaKind.JSON, SchemaKind.SUBJECT),
            has_schema_id=True,
            headers=(b"\x00\x00",),  # the version, and the first byte of an id, which is not that large
        ),
        Format(
            "glue",
            "JSON, Avro or Protobuf with the header of the Glue Schema Registry",
            "kinesis_assets.decoders.glue.Glue",
            schemas=(SchemaKind.DDL, SchemaKind.AVRO, SchemaKind.JSON, SchemaKind.REGISTERED),
            has_schema_id=True,
            headers=(b"\x03\x00", b"\x03\x05"),
        ),
        Format(
            "dynamodb",
            "a change of a DynamoDB table each",
            "kinesis_assets.decoders.dynamodb.DynamoDB",
            is_json=True,
            marks=(("eventName", "dynamodb.Keys"),),
            changes=Changes(
                (OPERATION, CHANGED_AT),
                order_by=(CHANGED_AT.name,),
                sampler=f"{_SAMPLERS}.sample_dynamodb",
                table_names=("tableName",),
            ),
        ),
        Format(
            "dms",
            "a change of a database each, as AWS DMS writes it",
            "kinesis_assets.decoders.dms.DMS",
            is_json=True,
            multiplies=True,
            marks=(("metadata.record-type", "metadata.operation"),),
            changes=Changes(
                (OPERATION, CHANGED_AT),
                order_by=(CHANGED_AT.name,),
                sampler=f"{_SAMPLERS}.sample_dms",
                table_names=("metadata.table-name",),
            ),
        ),
        Format(
            "debezium",
            "a change of a database each, as Debezium writes it in JSON",
            "kinesis_assets.decoders.debezium.Debezium",
            is_json=True,
            multiplies=True,
            marks=(
                ("payload.op", "payload.source"),
                ("op", "source", "after"),
                ("op", "source", "before"),
                *((f"{place}{name}",) for place in ("", "payload.") for name in ("__op", "__deleted")),
            ),
            changes=Changes(
                (OPERATION, CHANGED_AT, POSITION, UNCHANGED),
                order_by=(POSITION.name,),
                sampler=f"{_SAMPLERS}.sample_debezium",
                table_names=tuple(
                    f"{place}{name}"
                    for place in ("", "payload.")
                    for name in ("source.table", "__source_table", "__table")
                ),
                tombstones=(b"", b"null", b"default"),  # Debezium Server writes default in place of null
            ),
        ),
    )
}

DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"
"""The form of the name of a decoder class that is not one of this package."""

_NEEDED = ("from_settings", "make_step", "resolved", "name", "spark_type")


def find_format(name: str) -> Format:
    """Return a format by its name, or that of a decoder class by its dotted name, which is imported."""
    if name in FORMATS:
        return FORMATS[name]
    if not re.fullmatch(DOTTED, name):
        raise InvalidInput(
            f"format: must be {_either([repr(each) for each in FORMATS])}, or the dotted name of a decoder "
            f"class, such as my_project.decoders.MessagePack, not {name[:80]!r}"
        )
    decoder = _decoder_class(name)
    return Format(
        name=name,
        description="",
        decoder=name,
        is_json=True,  # as far as this package knows
        multiplies=bool(getattr(decoder, "multiplies", False)),
        has_schema_id=bool(getattr(decoder, "has_schema_id", False)),
    )


def _decoder_class(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        found = getattr(import_module(module), attribute)
    except ImportError as error:
        raise InvalidInput(
            f"format: the module {module} cannot be imported: {error}; correct the name, or install it"
        ) from error
    except AttributeError:
        raise InvalidInput(f"format: the module {module} has no {attribute}; correct the name") from None
    has = {
        *dir(found),
        *getattr(found, "__dataclass_fields__", ()),
    }  # a field of a dataclass need not be an attribute
    if missing := [each for each in _NEEDED if each not in has]:
        raise InvalidInput(
            f"format: {name} is no decoder class, since it has no {', '.join(missing)}; add what is missing, "
            "see docs/decoders.md"
        )
    return found


def names_with(condition: Callable[[Format], bool]) -> str:
    """Return the names of the formats for which a condition is true, for texts."""
    return _either([each.name for each in FORMATS.values() if condition(each)])


def descriptions() -> str:
    """Return what each format is, for texts."""
    parts = [f"{each.name}, {each.description}" for each in FORMATS.values()]
    return "; ".join([*parts[:-1], f"or {parts[-1]}"])


def _either(names: list[str]) -> str:
    """Return some words as alternatives."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
