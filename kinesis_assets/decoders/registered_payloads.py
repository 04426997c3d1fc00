"""Payloads whose schema is in a registry: Avro, JSON or Protobuf, decoded with their writer's schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from kinesis_assets.decoders.avro import AvroDefinition, AvroReader, check_reader
from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.json_documents import json_reader
from kinesis_assets.decoders.spark_types import nullable, parse_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class SchemaVersion:
    """A schema version as a registry returns it.

    Attributes:
        data_format: AVRO, JSON or PROTOBUF.
        definition: The schema: in JSON, or the text of a .proto file.
        imports: The names and texts of schemas to which it refers, each after those to which that refers.
    """

    data_format: str
    definition: str
    imports: tuple[tuple[str, str], ...] = ()

    @property
    def avro(self) -> AvroDefinition:
        """The schema of AVRO."""
        return AvroDefinition(self.definition, tuple(text for _, text in self.imports))


@dataclass(frozen=True)
class PayloadType:
    """The type of decoded payloads.

    Attributes:
        spark_type: The type; parsed before the first reader is created.
        reader: A reader's Avro schema, whose defaults and aliases apply to AVRO payloads.
        has_sorted_messages: How a Protobuf payload says which message it is, see `registered_protobuf`.
    """

    spark_type: str | DataType
    reader: AvroDefinition | None = None
    has_sorted_messages: bool = False

    @classmethod
    def of(
        cls, spark_type: str | DataType, reader: str | AvroDefinition | None, *, has_sorted_messages: bool
    ) -> PayloadType:
        """Return a type with the text of a reader's schema."""
        definition = AvroDefinition(reader) if isinstance(reader, str) else reader
        return cls(spark_type, definition, has_sorted_messages)

    def resolved(self) -> PayloadType:
        """Return a copy with a parsed type."""
        spark_type = parse_type(self.spark_type)
        if self.reader is not None:
            check_reader(self.reader, spark_type)
        return replace(self, spark_type=spark_type)

    def reader_of(self, version: SchemaVersion | None) -> Callable[[bytes], Any]:
        """Create a function that decodes payloads of a schema version or raises `Undecodable`.

        Raises:
            InvalidInput: A package is not installed.
            Undecodable: There is no version, or it is not a supported one.
        """
        spark_type: Any = self.spark_type
        if version is None:
            raise Undecodable("not found")
        match version.data_format:
            case "AVRO":
                return AvroReader(version.avro, spark_type, self.reader).read
            case "JSON":
                return json_reader(spark_type)
            case "PROTOBUF":
                from kinesis_assets.decoders.registered_protobuf import (  # noqa: PLC0415  # loads Protobuf
                    registered_protobuf_reader,
                )

                return registered_protobuf_reader(
                    version.definition, version.imports, spark_type, is_sorted=self.has_sorted_messages
                )
        raise Undecodable(f"its data format is {version.data_format}; AVRO, JSON and PROTOBUF are supported")


_Id = TypeVar("_Id", int, str)

_MAX_READERS = 1024
"""The number of schemas of which a task keeps readers. A damaged header can have any id."""


def payload_reader(
    payloads: PayloadType, get: Callable[[_Id], SchemaVersion | None]
) -> Callable[[_Id, bytes], Any]:
    """Create a function that decodes payloads by the ids of their schemas or raises `Undecodable`.

    Args:
        get: Returns the schema of an id; None if there is none.
    """
    readers: dict[_Id, Callable[[bytes], Any]] = {}

    def create(schema_id: _Id) -> Callable[[bytes], Any]:
        try:
            return payloads.reader_of(get(schema_id))
        except Undecodable as error:
            reason = f"schema version {schema_id}: {error}"

        def fail(_: bytes) -> Any:
            raise Undecodable(reason)

        return fail

    def read(schema_id: _Id, payload: bytes) -> Any:
        if schema_id not in readers:
            if len(readers) >= _MAX_READERS:
                readers.clear()
            readers[schema_id] = create(schema_id)
        return readers[schema_id](payload)

    return read


def check_schemas(payloads: PayloadType, schemas: Mapping[_Id, SchemaVersion]) -> None:
    """Raise `InvalidInput` if one of the schemas that a user gives cannot be used."""
    for schema_id, version in schemas.items():
        try:
            payloads.reader_of(version)
        except Undecodable as error:
            raise InvalidInput(f"schema version {schema_id}: {error}") from error


def registered_type(version: SchemaVersion, message: str | None = None) -> PayloadType:
    """Return the type of the records of a schema version, which is then the reader's.

    All fields accept null, also those that the schema requires, because records may have been written with
    another version.

    Args:
        message: The full name of a message of Protobuf; None for the only one.

    Raises:
        InvalidInput: The version has a part that no Spark type represents, or it is not a supported one.
    """
    reader = None
    match version.data_format:
        case "AVRO":
            imports = [_parsed(text) for _, text in version.imports]
            columns, reader = avro_columns(_parsed(version.definition), imports), version.avro
        case "JSON":
            columns = json_schema_columns(_parsed(version.definition))
        case "PROTOBUF":
            from kinesis_assets.decoders.registered_protobuf import registered_message  # noqa: PLC0415  # as above
            from kinesis_assets.schemas.protobuf_schema import protobuf_columns  # noqa: PLC0415  # as above

            columns = protobuf_columns(registered_message(version.definition, version.imports, message))
        case _:
            raise InvalidInput(
                f"it has the data format {version.data_format}; AVRO, JSON and PROTOBUF are supported, so "
                "name another schema"
            )
    return PayloadType(nullable(parse_type(columns)), reader)


def _parsed(definition: str) -> Any:
    try:
        return json.loads(definition)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON: {error}; register a correct version") from None
