"""Schema versions of the AWS Glue Schema Registry, asked for on the executors."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kinesis_assets.errors import InvalidInput, RegistryCallFailed

# Of GetSchemaVersion's errors, those about the schema version id alone, which came from a record.
_UNKNOWN = ("EntityNotFoundException", "InvalidInputException")


@dataclass(frozen=True)
class SchemaVersion:
    """A registered schema version, as GetSchemaVersion tells it.

    Attributes:
        data_format: AVRO or JSON; a PROTOBUF one cannot be decoded.
        definition: The schema's text.
    """

    data_format: str
    definition: str


@dataclass(frozen=True)
class GlueRegistry:
    """Where the registry is; None leaves a setting to the AWS SDK's own chain, on the driver.

    Credentials come from the SDK's own chain on each executor, retries from its settings there.

    Attributes:
        region_name: As for boto3.
        endpoint_url: As for boto3.
        profile_name: As for boto3. The executors must have the profile too.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None

    def resolved(self) -> GlueRegistry:
        """With what the SDK's chain gives here: good for another machine too.

        Raises:
            InvalidInput: There is no region, or no such profile.
        """
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415  # tasks without a registry need none

        try:
            meta = _new_client(self).meta
        except (BotoCoreError, ValueError) as error:
            raise InvalidInput(f"no client of the Glue Schema Registry: {error}") from error
        return GlueRegistry(meta.region_name, meta.endpoint_url, self.profile_name)

    def get(self, schema_id: str) -> SchemaVersion | None:
        """A schema version by its id (UUID); None if there is none. Found ones are kept by the process.

        Raises:
            RegistryCallFailed: The registry did not say.
        """
        try:
            return _schema_version(self, schema_id)
        except LookupError:
            return None


def _new_client(registry: GlueRegistry) -> Any:
    import boto3  # noqa: PLC0415  # tasks without a registry need none
    from botocore.config import Config  # noqa: PLC0415

    # boto3 alone among the SDKs looks only at AWS_DEFAULT_REGION.
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
        if error.response["Error"].get("Code") in _UNKNOWN:
            raise LookupError(schema_id) from error
        cause: Exception = error
    except (BotoCoreError, KeyError) as error:  # an answer cut in transit is no error to the SDK
        cause = error
    raise RegistryCallFailed(
        f"schema version {schema_id}: GetSchemaVersion failed at {registry.endpoint_url}: {cause!r}"
    ) from cause
