"""The Dagster resource for the connection to Kinesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from kinesis_assets.kinesis.settings import ClientSettings

if TYPE_CHECKING:
    from kinesis_assets.kinesis.client import StreamClient


class KinesisResource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Settings of the AWS SDK. None leaves a value to the SDK's chain (environment, profile, instance role).

    Attributes:
        region_name: As in boto3.
        endpoint_url: As in boto3.
        profile_name: As in boto3. The profile must exist on Spark's executors too.
        sdk_parser: See `kinesis.settings.ClientSettings`.

    Raises:
        InvalidInput: The endpoint URL contains a user or a password.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    profile_name: str | None = None
    sdk_parser: bool = False

    def __init__(self, **fields: Any) -> None:
        # Checked here, because pydantic's errors repeat the value and Dagster shows the fields of a resource.
        if isinstance(url := fields.get("endpoint_url"), str) and not isinstance(url, dg.EnvVar):
            ClientSettings(endpoint_url=url)
        super().__init__(**fields)

    def stream(self, name: str) -> StreamClient:
        """Return the client of one stream, given its name or ARN."""
        from kinesis_assets.kinesis.client import StreamClient  # noqa: PLC0415  # definitions load without the AWS SDK

        settings = ClientSettings(self.region_name, self.endpoint_url, self.profile_name, self.sdk_parser)
        return StreamClient(name, settings)
