"""Records with the header of the AWS Glue Schema Registry.

Byte 0 is the version of the header, 3. Byte 1 is the compression: 0 for none, 5 for zlib. Bytes 2 to 17 are
the id (UUID) of the schema version with which the record was written. The payload follows.

Executors request the schema versions of records by id, the driver requests one by name.

Source: https://github.com/awslabs/aws-glue-schema-registry
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import UUID

from kinesis_assets.decoders.compression import decompress
from kinesis_assets.decoders.decoder import MAX_BYTES, Decoding, Undecodable, check_max_bytes
from kinesis_assets.decoders.registered_payloads import RegisteredDecoder, SchemaVersion
from kinesis_assets.errors import InvalidInput, RegistryCallFailed, RoleNotAssumed
from kinesis_assets.kinesis.role import AssumedRole, check_role_settings

if TYPE_CHECKING:
    from kinesis_assets.decoders.decoder import DecoderSettings, RegisteredName

_SESSION_NAME = "kinesis-assets-registry"

# The errors of GetSchemaVersion that concern the requested id, which comes from a record, or name.
_NOT_FOUND = ("EntityNotFoundException", "InvalidInputException")


@dataclass(frozen=True)
class GlueRegistry:
    """The connection settings of a registry. None uses the AWS SDK's default on the driver.

    Each executor gets credentials and retry settings from the AWS SDK's default chain there. With a role, it
    assumes the role with these credentials.

    Attributes:
        region_name: The region, as for boto3.
        endpoint_url: The endpoint URL, as for boto3.
        profile_name: The profile, as for boto3. The profile must also exist on the executors.
        role_arn: The ARN of a role that reads the registry, which may belong to another account.
        external_id: The external id that the trust policy of the role requires.

    Raises:
        InvalidInput: A setting of the role is invalid.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    role_arn: str | None = None
    external_id: str | None = None
    session_name: str | None = None

    def __post_init__(self) -> None:
        check_role_settings(self.role_arn, self.external_id, self.session_name)

    @property
    def role(self) -> AssumedRole | None:
        """The role that reads the registry; None if none is assumed."""
        if self.role_arn is None:
            return None
        name = self.session_name or _SESSION_NAME
        return AssumedRole(self.role_arn, name, self.external_id, self.profile_name, self.region_name)

    def resolved(self) -> GlueRegistry:
        """Return a copy with the SDK's defaults of this machine, so that executors use the same registry.

        Raises:
            InvalidInput: No region is configured, or the profile does not exist.
            RegistryCallFailed: The role cannot be assumed.
        """
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415  # tasks without a registry need none

        from kinesis_assets.kinesis.sdk import CORRECT_SETTINGS  # noqa: PLC0415  # as above

        try:
            meta = _new_client(self).meta
        except (BotoCoreError, ValueError) as error:
            raise InvalidInput(
                f"cannot create a client of the Glue Schema Registry: {error}", advice=CORRECT_SETTINGS
            ) from error
        except RoleNotAssumed as error:
            raise RegistryCallFailed(f"the Glue Schema Registry cannot be read: {error}") from error
        return replace(self, region_name=meta.region_name, endpoint_url=meta.endpoint_url)

    def get(self, schema_id: str) -> SchemaVersion | None:
        """Get a schema version by its id (UUID), or None if it does not exist. The process caches results.

        Raises:
            RegistryCallFailed: The call to the registry failed.
        """
        try:
            return _schema_version(self, schema_id)
        except LookupError:
            return None

    def named(self, name: RegisteredName) -> SchemaVersion:
        """Get a version of a schema by its name. The latest is requested by each call, others once.

        Raises:
            InvalidInput: The registry has no such version, or it is not available.
            RegistryCallFailed: The call to the registry failed.
        """
        return _named(self, name) if name.number is None else _numbered(self, name)


def _new_client(registry: GlueRegistry) -> Any:
    import botocore.session  # noqa: PLC0415  # tasks without a registry need none
    from botocore.config import Config  # noqa: PLC0415  # as above

    from kinesis_assets.kinesis.role_credentials import credentials_of  # noqa: PLC0415  # as above

    # Unlike the other SDKs, boto3 does not read AWS_REGION.
    region_name = registry.region_name or os.environ.get("AWS_REGION")
    session = botocore.session.Session(profile=registry.profile_name)
    config = Config(connect_timeout=5, read_timeout=20)
    if registry.role is not None:
        session.register_component("credential_provider", credentials_of(registry.role))
    return session.create_client(
        "glue", region_name=region_name, endpoint_url=registry.endpoint_url, config=config
    )


_client = lru_cache(maxsize=8)(_new_client)


@lru_cache(maxsize=1024)
def _schema_version(registry: GlueRegistry, schema_id: str) -> SchemaVersion:
    return _get(registry, f"schema version {schema_id}", SchemaVersionId=schema_id)[0]


def _named(registry: GlueRegistry, name: RegisteredName) -> SchemaVersion:
    what = name.described
    schema = {"RegistryName": name.registry_name, "SchemaName": name.name}
    version = {"LatestVersion": True} if name.number is None else {"VersionNumber": name.number}
    try:
        found, status = _get(registry, what, SchemaId=schema, SchemaVersionNumber=version)
    except LookupError as error:
        raise InvalidInput(f"{what} is not found at {registry.endpoint_url}: {error}") from None
    if status != "AVAILABLE":
        raise InvalidInput(f"{what} has the status {status}; give the number of another version")
    return found


_numbered = lru_cache(maxsize=64)(_named)


def _get(registry: GlueRegistry, what: str, **request: Any) -> tuple[SchemaVersion, str]:
    """Request a schema version, and return it with its status.

    Raises:
        LookupError: The registry does not have it.
        RegistryCallFailed: The call failed.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # as above

    try:
        response = _client(registry).get_schema_version(**request)
        version = SchemaVersion(response["DataFormat"], response["SchemaDefinition"])
        return version, str(response.get("Status", "AVAILABLE"))
    except ClientError as error:
        if error.response["Error"].get("Code") in _NOT_FOUND:
            raise LookupError(error.response["Error"].get("Message", "")) from error
        cause: Exception = error
    except RoleNotAssumed as error:
        raise RegistryCallFailed(f"{what}: {error}") from error
    except (BotoCoreError, KeyError) as error:  # the SDK accepts a truncated response
        cause = error
    raise RegistryCallFailed(
        f"{what}: GetSchemaVersion failed at {registry.endpoint_url}: {cause!r}. Run again when the cause is "
        "resolved"
    ) from cause


_HEADER_VERSION = 3
_HEADER_BYTES = 18
_PLAIN = 0
_ZLIB = 5


@dataclass(frozen=True)
class Glue(RegisteredDecoder[str]):
    """Decode records of the Glue Schema Registry and add the column `schema_id`.

    `schema_id` is the UUID of the schema version with which the record was written. It is set even if the
    payload cannot be decoded. Without a type and schemas, the value is the payload's bytes, to which a
    further decoder can be applied.

    Attributes:
        spark_type: The type of decoded payloads, as DDL or as a Spark type. Fields are matched by their exact
            names, as for `Json`. A JSON payload is decoded like `Json`; it is not validated against the
            registered JSON Schema.
        schemas: The source of schema versions: a registry, or a mapping from their ids.
        reader: A reader's Avro schema, whose defaults and aliases apply to AVRO payloads.
        max_bytes: The maximum decompressed size of a payload. A larger payload is an error on its row.
    """

    _: KW_ONLY
    max_bytes: int = MAX_BYTES
    name: ClassVar[str] = "glue"
    has_sorted_messages: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_max_bytes(self.max_bytes)
        super().__post_init__()
        if isinstance(self.schemas, Mapping):
            schemas = {_checked_id(each): version for each, version in self.schemas.items()}
            object.__setattr__(self, "schemas", schemas)

    @classmethod
    def from_settings(cls, settings: DecoderSettings) -> Self:
        """See `DecoderSettings`."""
        return cls.of_registry(GlueRegistry(**settings.registry), settings)

    def unframed(self, decoding: Decoding) -> tuple[str, bytes]:
        """See `RegisteredDecoder`."""
        data = decoding.value
        if len(data) < _HEADER_BYTES:
            raise Undecodable(f"no header: the record has {len(data)} bytes, a header has {_HEADER_BYTES}")
        version, compression = data[:2]
        if version != _HEADER_VERSION or compression not in (_PLAIN, _ZLIB):
            raise Undecodable(
                f"no header: the record starts with {data[:2].hex(' ')}, not with 03 00 or 03 05"
            )
        schema_id = decoding.schema_id = str(UUID(bytes=data[2:_HEADER_BYTES]))
        payload = data[_HEADER_BYTES:]
        return schema_id, decompress(payload, "gzip", self.max_bytes) if compression == _ZLIB else payload


def _checked_id(schema_id: str) -> str:
    """Return the id of a schema version as the headers of records have it."""
    try:
        return str(UUID(schema_id))
    except ValueError as error:
        raise InvalidInput(f"schema version {schema_id}: {error}; give its id, a UUID") from error
