"""Records with the id of a registered schema: Avro, JSON or Protobuf, decoded with their writer's schema."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

from kinesis_assets.decoders.avro import AvroDefinition, AvroReader, check_reader
from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.json_documents import json_reader
from kinesis_assets.decoders.spark_types import nullable, parse_type
from kinesis_assets.errors import InvalidInput
from kinesis_assets.schemas.avro_schema import avro_columns
from kinesis_assets.schemas.json_schema import json_schema_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.types import DataType

    from kinesis_assets.decoders.decoder import DecoderSettings, Decoding, RegisteredName, Step


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


_Id = TypeVar("_Id", int, str)


class Registry(Protocol):
    """The connection to a registry. Its methods raise `RegistryCallFailed` if a call fails."""

    def resolved(self) -> Self:
        """Return a validated copy that can be sent to executors. Raises `InvalidInput`."""

    def get(self, schema_id: Any) -> SchemaVersion | None:
        """Get a schema version by its id, or None if it does not exist."""

    def named(self, name: RegisteredName) -> SchemaVersion:
        """Get a schema version by its name. Raises `InvalidInput` if it does not exist."""


_MAX_READERS = 1024
"""The number of schemas of which a task keeps readers. A damaged header can have any id."""


@dataclass(frozen=True)
class RegisteredDecoder(ABC, Generic[_Id]):
    """A decoder of records that begin with the id of the schema with which they were written.

    Attributes:
        has_sorted_messages: How a Protobuf payload says which message it is, see `registered_protobuf`.
    """

    spark_type: str | DataType | None = None
    _: KW_ONLY
    schemas: Mapping[_Id, SchemaVersion] | Registry | None = None
    reader: str | AvroDefinition | None = None
    name: ClassVar[str]
    has_schema_id: ClassVar[bool] = True
    has_sorted_messages: ClassVar[bool]

    def __post_init__(self) -> None:
        if (self.spark_type is None) != (self.schemas is None):
            raise InvalidInput(
                f"{type(self).__name__} needs a type together with schemas (or a registry), or neither"
            )

    @classmethod
    def of_registry(cls, registry: Registry, settings: DecoderSettings) -> Self:
        """Create a decoder with the type in the settings, or that of the registered schema they name."""
        if settings.registered is None:
            return cls(settings.schema, schemas=registry, reader=settings.reader)
        registry = registry.resolved()
        spark_type, reader = registered_type(registry.named(settings.registered), settings.registered)
        return cls(spark_type, schemas=registry, reader=reader)

    def resolved(self) -> Self:
        """Return a copy with a parsed type and validated schemas; see `Decoder`."""
        if self.spark_type is None or self.schemas is None:
            return self
        spark_type = parse_type(self.spark_type)
        if self.reader is not None:
            check_reader(self.reader, spark_type)
        ready = replace(self, spark_type=spark_type)
        if not isinstance(self.schemas, Mapping):
            return replace(ready, schemas=self.schemas.resolved())
        for schema_id, version in self.schemas.items():
            try:
                ready.reader_of(version)
            except Undecodable as error:
                raise InvalidInput(f"schema version {schema_id}: {error}") from error
        return ready

    def make_step(self) -> Step:
        """See `Decoder`."""
        read = None if self.schemas is None else self._payload_reader(self.schemas.get)

        def step(decoding: Decoding) -> None:
            schema_id, payload = self.unframed(decoding)
            decoding.value = payload if read is None else read(schema_id, payload)

        return step

    @abstractmethod
    def unframed(self, decoding: Decoding) -> tuple[_Id, bytes]:
        """Set the schema id of a record, and return it and the payload. Raises `Undecodable`."""

    def reader_of(self, version: SchemaVersion | None) -> Callable[[bytes], Any]:
        """Create a function that decodes payloads of a schema version or raises `Undecodable`.

        Only for a decoder with a parsed type.

        Raises:
            InvalidInput: A package is not installed.
            Undecodable: There is no version, or it is not a supported one.
        """
        spark_type = cast("DataType", self.spark_type)
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

    def _payload_reader(self, get: Callable[[_Id], SchemaVersion | None]) -> Callable[[_Id, bytes], Any]:
        """Create a function that decodes payloads by the ids of their schemas or raises `Undecodable`."""

        @lru_cache(maxsize=_MAX_READERS)
        def reader_of(schema_id: _Id) -> Callable[[bytes], Any]:
            try:
                return self.reader_of(get(schema_id))
            except Undecodable as error:
                reason = f"schema version {schema_id}: {error}"

            def fail(_: bytes) -> Any:
                raise Undecodable(reason)

            return fail

        return lambda schema_id, payload: reader_of(schema_id)(payload)


def registered_type(version: SchemaVersion, name: RegisteredName) -> tuple[DataType, AvroDefinition | None]:
    """Return the type of the records of a schema version, and the version as the reader's schema of AVRO.

    All fields accept null, also those that the schema requires, because records may have been written with
    another version.

    Raises:
        InvalidInput: The version has a part that no Spark type represents, or it is not a supported one.
    """
    try:
        spark_type = nullable(parse_type(_columns(version, name.message)))
    except InvalidInput as error:
        raise InvalidInput(f"{name.described}: {error}") from None
    return spark_type, version.avro if version.data_format == "AVRO" else None


def _columns(version: SchemaVersion, message: str | None) -> str:
    match version.data_format:
        case "AVRO":
            imports = [_parsed(text) for _, text in version.imports]
            return avro_columns(_parsed(version.definition), imports)
        case "JSON":
            return json_schema_columns(_parsed(version.definition))
        case "PROTOBUF":
            from kinesis_assets.decoders.registered_protobuf import registered_message  # noqa: PLC0415  # as above
            from kinesis_assets.schemas.protobuf_schema import protobuf_columns  # noqa: PLC0415  # as above

            return protobuf_columns(registered_message(version.definition, version.imports, message))
    raise InvalidInput(
        f"it has the data format {version.data_format}; AVRO, JSON and PROTOBUF are supported, so name "
        "another schema"
    )


def _parsed(definition: str) -> Any:
    try:
        return json.loads(definition)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"it is not JSON: {error}; register a correct version") from None
