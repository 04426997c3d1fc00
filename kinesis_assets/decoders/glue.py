"""Records with the header of the AWS Glue Schema Registry.

Byte 0 is the version of the header, 3. Byte 1 is the compression: 0 for none, 5 for zlib. Bytes 2 to 17 are
the id (UUID) of the schema version with which the record was written. The payload follows.

Source: https://github.com/awslabs/aws-glue-schema-registry
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast
from uuid import UUID

from kinesis_assets.decoders.avro import avro_reader
from kinesis_assets.decoders.compression import decompress
from kinesis_assets.decoders.decoder import MAX_BYTES, Decoding, Undecodable, check_max_bytes
from kinesis_assets.decoders.json_documents import json_reader
from kinesis_assets.decoders.schema_registry import GlueRegistry, SchemaVersion
from kinesis_assets.decoders.spark_types import parse_type
from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.types import DataType

_HEADER_VERSION = 3
_HEADER_BYTES = 18
_PLAIN = 0
_ZLIB = 5


@dataclass(frozen=True)
class Glue:
    """Decode records of the Glue Schema Registry and add the column `schema_id`.

    `schema_id` is the UUID of the schema version with which the record was written. It is set even if the
    payload cannot be decoded. Without a type and schemas, the value is the payload's bytes, to which a
    further decoder can be applied.

    Attributes:
        spark_type: The type of decoded AVRO and JSON payloads, as DDL or as a Spark type. Fields are matched
            by their exact names, as for `Json`. A JSON payload is decoded like `Json`; it is not validated
            against the registered JSON Schema.
        schemas: The source of schema versions: a registry, or a mapping from their ids.
        max_bytes: The maximum decompressed size of a payload. A larger payload is an error on its row.
    """

    spark_type: str | DataType | None = None
    _: KW_ONLY
    schemas: Mapping[str, SchemaVersion] | GlueRegistry | None = None
    max_bytes: int = MAX_BYTES
    name: ClassVar[str] = "glue"

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)
        if (self.spark_type is None) != (self.schemas is None):
            raise InvalidInput("Glue needs a type together with schemas (or a registry), or neither of them")

    def resolved(self) -> Self:
        """Return a copy with a parsed type and validated schemas; see `Decoder`."""
        if self.spark_type is None:
            return self
        spark_type = parse_type(self.spark_type)
        if isinstance(self.schemas, GlueRegistry):
            return replace(self, spark_type=spark_type, schemas=self.schemas.resolved())
        schemas = {}
        for schema_id, version in cast("Mapping[str, SchemaVersion]", self.schemas).items():
            try:
                schemas[str(UUID(schema_id))] = version
                _payload_reader(version, spark_type)
            except (ValueError, Undecodable) as error:
                raise InvalidInput(f"schema version {schema_id}: {error}") from error
        return replace(self, spark_type=spark_type, schemas=schemas)

    def make_step(self) -> Callable[[Decoding], None]:
        """See `Decoder`."""
        readers: dict[str, Callable[[bytes], Any]] = {}

        def step(decoding: Decoding) -> None:
            compression, decoding.schema_id, payload = _unframed(decoding.value)
            if compression == _ZLIB:
                payload = decompress(payload, "gzip", self.max_bytes)
            if self.spark_type is None:
                decoding.value = payload
                return
            if decoding.schema_id not in readers:
                readers[decoding.schema_id] = self._reader(decoding.schema_id)
            decoding.value = readers[decoding.schema_id](payload)

        return step

    def _reader(self, schema_id: str) -> Callable[[bytes], Any]:
        version = cast("Mapping[str, SchemaVersion] | GlueRegistry", self.schemas).get(schema_id)
        try:
            return _payload_reader(version, cast("DataType", self.spark_type))
        except Undecodable as error:
            reason = f"schema version {schema_id}: {error}"

        def fail(_: bytes) -> Any:
            raise Undecodable(reason)

        return fail


def _unframed(data: bytes) -> tuple[int, str, bytes]:
    """Split a record into its compression, schema version id and payload."""
    if len(data) < _HEADER_BYTES:
        raise Undecodable(f"no header: the record has {len(data)} bytes, a header has {_HEADER_BYTES}")
    version, compression = data[:2]
    if version != _HEADER_VERSION or compression not in (_PLAIN, _ZLIB):
        raise Undecodable(f"no header: the record starts with {data[:2].hex(' ')}, not with 03 00 or 03 05")
    return compression, str(UUID(bytes=data[2:_HEADER_BYTES])), data[_HEADER_BYTES:]


def _payload_reader(version: SchemaVersion | None, spark_type: DataType) -> Callable[[bytes], Any]:
    if version is None:
        raise Undecodable("not found")
    if version.data_format == "AVRO":
        return avro_reader(version.definition, spark_type)
    if version.data_format == "JSON":
        return json_reader(spark_type)
    raise Undecodable(f"its data format is {version.data_format}; only AVRO and JSON are supported")
