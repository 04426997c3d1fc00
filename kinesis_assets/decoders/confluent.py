"""Records in the wire format of Confluent's Schema Registry, which other registries share.

Byte 0 is the version of the header, 0. Bytes 1 to 4 are the id of the schema with which the record was
written, big-endian. The payload follows. That of Protobuf begins with which message it is, see
`registered_protobuf`.

Executors request the schemas of records by id, the driver requests one by its subject.

Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kinesis_assets.decoders.decoder import Undecodable
from kinesis_assets.decoders.registered_payloads import RegisteredDecoder, SchemaVersion
from kinesis_assets.errors import InvalidInput, RegistryCallFailed
from kinesis_assets.schemas.registries import check_connection, read_folder

if TYPE_CHECKING:
    from kinesis_assets.decoders.decoder import DecoderSettings, Decoding, RegisteredName

_SECONDS = 20
"""The time that a call may take. The client retries it three times."""

_NOT_FOUND = 404

_GREATEST_ID = (1 << 31) - 1
"""Registries have ids of 32 bits with a sign."""

_HEADER_VERSION = 0
_HEADER_BYTES = 5


@dataclass(frozen=True)
class ConfluentRegistry:
    """The connection to a registry with the API of Confluent's Schema Registry.

    Attributes:
        url: The address, such as https://registry.example:8081.
        username: The name for HTTP basic authentication, or the key of an API.
        password: The password for it, or the secret of an API.

    Raises:
        InvalidInput: A setting is invalid.
    """

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_connection(self.url, self.username, self.password)

    def resolved(self) -> ConfluentRegistry:
        """Check that the client is installed. Raises `InvalidInput` if it is not."""
        _client(self)
        return self

    def get(self, schema_id: int) -> SchemaVersion | None:
        """Get a schema by its id, or None if it does not exist. The client caches results.

        Raises:
            RegistryCallFailed: The call to the registry failed.
        """
        if schema_id > _GREATEST_ID:  # a damaged header, for which a registry may have another response
            return None
        try:
            return _requested(self, f"schema {schema_id}", "get_schema", schema_id)
        except LookupError:
            return None

    def named(self, name: RegisteredName) -> SchemaVersion:
        """Get a version of a subject. The latest is requested by each call, others once.

        Raises:
            InvalidInput: The registry has no such version.
            RegistryCallFailed: The call to the registry failed.
        """
        what = name.described
        try:
            if name.number is not None:
                return _requested(self, what, "get_version", name.name, name.number)
            _client(self).clear_latest_caches()
            return _requested(self, what, "get_latest_version", name.name)
        except LookupError as error:
            raise InvalidInput(f"{what} is not found at {self.url}: {error}; correct the name") from None


@lru_cache(maxsize=8)
def _client(registry: ConfluentRegistry) -> Any:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise InvalidInput(
            "the registry of confluent needs its client: pip install 'kinesis-assets[confluent]'"
        ) from error
    settings: dict[str, Any] = {"url": registry.url, "timeout": _SECONDS}
    if registry.username is not None:
        settings["basic.auth.user.info"] = f"{registry.username}:{registry.password}"
    return SchemaRegistryClient(settings)


def _requested(registry: ConfluentRegistry, what: str, method: str, *arguments: Any) -> SchemaVersion:
    """Request a schema and those to which it refers.

    Raises:
        LookupError: The registry does not have it.
        RegistryCallFailed: A call failed.
    """
    client = _client(registry)
    imports: dict[str, str] = {}
    seen = set[tuple[str, int]]()

    def add_imports(schema: Any) -> None:
        for each in schema.references or ():
            if (key := (each.subject, each.version)) not in seen:
                seen.add(key)
                referred = client.get_version(*key).schema
                add_imports(referred)
                imports[each.name] = str(referred.schema_str)

    try:
        found = getattr(client, method)(*arguments)
        schema = getattr(found, "schema", found)
        if schema.schema_str is None:
            raise ValueError("the response has no schema")  # noqa: TRY301  # as other responses that have none
        add_imports(schema)
    except Exception as error:  # its errors have no common type
        if getattr(error, "http_status_code", None) == _NOT_FOUND:
            raise LookupError(str(error)) from error
        raise RegistryCallFailed(
            f"{what}: the request failed at {registry.url}: {error!r}. Run again when the cause is resolved"
        ) from error
    return SchemaVersion(schema.schema_type or "AVRO", schema.schema_str, tuple(imports.items()))


@dataclass(frozen=True)
class Confluent(RegisteredDecoder[int]):
    """Decode records in the wire format of Confluent's Schema Registry and add the column `schema_id`.

    `schema_id` is the id of the schema with which the record was written, as text. It is set even if the
    payload cannot be decoded. Without a type and schemas, the value is the payload's bytes, to which a
    further decoder can be applied.

    Attributes:
        spark_type: The type of decoded payloads, as for `Glue`.
        schemas: The source of schemas: a registry, or a mapping from their ids.
        reader: A reader's Avro schema, whose defaults and aliases apply to AVRO payloads.
    """

    name: ClassVar[str] = "confluent"
    has_sorted_messages: ClassVar[bool] = False

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        if folder := settings.registry.get("folder"):
            schemas = {each: SchemaVersion(*found) for each, found in read_folder(Path(folder)).items()}
            return cls(settings.schema, schemas=schemas, reader=settings.reader)
        return cls.of_registry(ConfluentRegistry(**settings.registry), settings)

    def unframed(self, decoding: Decoding) -> tuple[int, bytes]:
        """See `RegisteredDecoder`."""
        data = decoding.value
        if len(data) < _HEADER_BYTES:
            raise Undecodable(f"no header: the record has {len(data)} bytes, a header has {_HEADER_BYTES}")
        if data[0] != _HEADER_VERSION:
            raise Undecodable(f"no header: the record starts with {data[:1].hex()}, not with 00")
        schema_id = int.from_bytes(data[1:_HEADER_BYTES], "big")
        decoding.schema_id = str(schema_id)
        return schema_id, data[_HEADER_BYTES:]
