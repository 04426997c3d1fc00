"""Schema versions of the AWS Glue Schema Registry, which executors request."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kinesis_assets.errors import InvalidInput, RegistryCallFailed

# The errors of GetSchemaVersion that concern the schema version id, which comes from a record.
_UNKNOWN_ID_ERRORS = ("EntityNotFoundException", "InvalidInputException")


@dataclass(frozen=True)
class SchemaVersion:
    """A schema version as GetSchemaVersion returns it.

    Attributes:
        data_format: AVRO or JSON. PROTOBUF is not supported.
        definition: The text of the schema.
    """

    data_format: str
    definition: str


@dataclass(frozen=True)
class GlueRegistry:
    """The connection settings of a registry. None uses the AWS SDK's default on the driver.

    Each executor gets credentials and retry settings from the AWS SDK's default chain there.

    Attributes:
        region_name: The region, as for boto3.
        endpoint_url: The endpoint URL, as for boto3.
        profile_name: The profile, as for boto3. The profile must also exist on the executors.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None

    def resolved(self) -> GlueRegistry:
        """Return a copy with the SDK's defaults of this machine, so that executors use the same registry.

        Raises:
            InvalidInput: No region is configured, or the profile does not exist.
        """
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415  # tasks without a registry need none

        try:
            meta = _new_client(self).meta
        except (BotoCoreError, ValueError) as error:
            raise InvalidInput(f"cannot create a client of the Glue Schema Registry: {error}") from error
        return GlueRegistry(meta.region_name, meta.endpoint_url, self.profile_name)

    def get(self, schema_id: str) -> SchemaVersion | None:
        """Get a schema version by its id (UUID), or None if it does not exist. The process caches results.

        Raises:
            RegistryCallFailed: The call to the registry failed.
        """
        try:
            return _schema_version(self, schema_id)
        except LookupError:
            return None


def _new_client(registry: GlueRegistry) -> Any:
    import boto3  # noqa: PLC0415  # tasks without a registry need none
    from botocore.config import Config  # noqa: PLC0415

    # Unlike the other SDKs, boto3 does not read AWS_REGION.
    region_name = registry.region_name or os.environ.get("AWS_REGION")
    session = boto3.Session(profile_name=registry.profile_name, region_name=region_name)
    config = Config(connect_timeout=5, read_timeout=20)
    return session.client("glue", endpoint_url=registry.endpoint_url, config=config)


_client = lru_cache(maxsize=8)(_new_client)


@lru_cache(maxsize=1024)
def _schema_version(registry: GlueRegistry, schema_id: str) -> SchemaVersion:
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        answer = _client(registry).get_schema_version(SchemaVersionId=schema_id)
        return SchemaVersion(answer["DataFormat"], answer["SchemaDefinition"])
    except ClientError as error:
        if error.response["Error"].get("Code") in _UNKNOWN_ID_ERRORS:
            raise LookupError(schema_id) from error
        cause: Exception = error
    except (BotoCoreError, KeyError) as error:  # the SDK accepts a truncated response
        cause = error
    raise RegistryCallFailed(
        f"schema version {schema_id}: GetSchemaVersion failed at {registry.endpoint_url}: {cause!r}"
    ) from cause
